"""The trees of a few steps of a run, for people to look at."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import torch

from planner.plans.step_tree import StepTree

from .draft_tree import DraftTree
from .session import StepRecord
from .writer import Writer

NUM_KEPT = 3
NUM_BEFORE = 12
"""Tokens of the text before a step that are kept with it."""


class StepTrees:
    """The trees of the last `NUM_KEPT` steps whose number in the run, those that drafted nothing
    left out, is a power of two.

    to_text  the tokenizer's decoding

    So they are spread over a run of any length, and whether a step's is kept depends on nothing
    that it did.  Nothing is drawn at random, and a step's time is over when its tree is looked at.
    """

    def __init__(self, to_text: Callable[[list[int]], str]) -> None:
        self._to_text = to_text
        self._num_seen = 0
        self._kept: deque[StepTree] = deque(maxlen=NUM_KEPT)

    @property
    def kept(self) -> list[StepTree]:
        """The trees so far, the oldest first."""
        return list(self._kept)

    def see(self, continuation: int, writer: Writer) -> None:
        """Count the step that the writer has just taken, and keep its tree if it is its turn."""
        tree, record = writer.session.tree, writer.run.steps[-1]
        if tree is None or record.num_nodes == 1:
            return
        self._num_seen += 1
        if self._num_seen & (self._num_seen - 1):
            return
        self._kept.append(self._step_tree(continuation, writer, tree, record))

    def _step_tree(
        self, continuation: int, writer: Writer, tree: DraftTree, record: StepRecord
    ) -> StepTree:
        order = [0]
        for node in order:  # which grows meanwhile: level by level, siblings by rank
            order.extend(tree.children[node])
        place = {node: at for at, node in enumerate(order)}
        parents, tokens = tree.parents.tolist(), tree.host_tokens.tolist()
        reach = reached_by_the_draft(tree)
        text = writer.session.tokens[: -len(record.tokens)]
        return StepTree(
            continuation=continuation,
            step=len(writer.run.steps) - 1,
            before=self._to_text(text[-NUM_BEFORE:]),
            parents=[-1, *(place[parents[node]] for node in order[1:])],
            tokens=[self._to_text([tokens[node]]) for node in order],
            reach=[float(f"{reach[node]:.3g}") for node in order],
            path=[place[node] for node in record.path],
            bonus=self._to_text([record.tokens[-1]]),
        )


def reached_by_the_draft(tree: DraftTree) -> list[float]:
    """The product of the draft's probabilities of the tokens from the root down, of every node."""
    parents, tokens = tree.parents.tolist(), tree.host_tokens.tolist()
    drawn = [tree.draft_probs(parents[node])[tokens[node]] for node in range(1, tree.num_nodes)]
    reach = [1.0]
    for parent, chance in zip(parents[1:], torch.stack(drawn).tolist(), strict=True):
        reach.append(reach[parent] * min(chance, 1.0))
    return reach
