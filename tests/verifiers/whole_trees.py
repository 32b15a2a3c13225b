"""Verification of whole trees in plain Python, from the words: the slow twin of `Traversal.walk`.

With a mistake named, it is that of somebody who got one thing wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from planner.verifiers.rrsw import RecursiveRejection
from planner.verifiers.verifier import Accepted, Random
from runtime.randomness import source_of

from .one_node import above, norm, without

Mistake = Literal[
    "a is not renormalised behind a rejected subtree",
    "the bonus token is from the node's first R",
    "D keeps what was tried",
]
MISTAKES: tuple[Mistake, ...] = get_args(Mistake)


@dataclass
class Drafted:
    """A drafted tree, given."""

    children: Sequence[Sequence[int]]
    tokens: list[int]
    rows: Sequence[Tensor | None]
    """q by node, where it has children."""

    @property
    def host_tokens(self) -> Tensor:
        return torch.tensor(self.tokens)

    def draft_probs(self, node: int) -> Tensor:
        return self.rows[node]


class FromTheLeaves(RecursiveRejection):
    """`traversal`, by recursion; `mistake` is None where it is right."""

    def __init__(self, mistake: Mistake | None = None) -> None:
        self.mistake = mistake

    def walk(self, tree, target_probs: Tensor, rng: Random) -> Accepted:
        found = self.ended(tree, target_probs, rng, 1.0)
        assert found is not None
        *path, bonus = found
        tokens = tree.host_tokens.tolist()
        ranks = [
            list(tree.children[above]).index(node)
            for above, node in zip([0, *path], path, strict=False)
        ]
        return Accepted(path, ranks, [*(tokens[node] for node in path), bonus])

    def ended(self, tree, target_probs: Tensor, rng: Random, entered: float) -> list[int] | None:
        """The path and the bonus token; None where the root, entered like this, is rejected."""
        rng, tokens = source_of(rng), tree.host_tokens.tolist()
        num = len(target_probs[0])

        def below(node: int, a: float) -> list[int] | None:
            """Nodes accepted below this one, and the bonus token; None where it is rejected."""
            residual = first = norm(target_probs[node].tolist())
            draft = norm(tree.draft_probs(node).tolist()) if tree.children[node] else None
            tried: list[int] = []
            for child in tree.children[node]:
                x = tokens[child]
                found = below(child, min(1.0, a * residual[x] / draft[x]))
                if found is not None:
                    return [child, *found]
                owed = above([a * each for each in residual], draft)
                s = sum(owed)
                if s == 0 and a == 1:
                    owed, s = draft, 1.0
                residual = norm(owed) if s > 0 else [1.0 / num] * num
                if self.mistake != "a is not renormalised behind a rejected subtree":
                    a = s / (s + (1 - a)) if s > 0 else 0.0
                tried.append(x)
                if self.mistake != "D keeps what was tried":
                    draft = without(draft, tried)
            if not rng.accept(a, 1.0):
                return None
            if self.mistake == "the bonus token is from the node's first R":
                residual = first
            return [int(rng.categorical(torch.tensor(residual, dtype=torch.float64)))]

        return below(0, entered)
