"""The ways in which engines draft and verify, in our terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import hypot

from ..documents.tree import Tree
from ..estimates.step_costs import StepCosts, Time, speedup
from ..optimizer.grading import Candidate
from ..policies import ConfidentDrafting, Drafting, DynamicDrafting, TreeDrafting
from ..verifiers import VERIFIERS


@dataclass(frozen=True)
class Way:
    """One way in which an engine drafts and verifies."""

    verifier: str
    solver: str
    takes: Callable[[Drafting], bool]
    """Can it draft like this?"""
    grows: bool = False
    """Are its trees decided on while they are drafted, so that recorded trees are needed?"""
    width: Callable[[Tree], int] | None = None
    """How many nodes each draft pass below the root expands, where that is not up to the tree."""

    def carries_out(self, drafting: Drafting, verifier: str, temperature: float) -> bool:
        """Is its verification the same as that of `verifier`, too?"""
        if temperature == 0 or verifier == self.verifier:
            return True
        plain = (VERIFIERS[name].plain_with_one_child for name in (verifier, self.verifier))
        return drafting.most_children == 1 and all(plain)

    def timed(self, candidate: Candidate, costs: StepCosts) -> Candidate | None:
        """`candidate` at the time that it takes the engine to draft it; None where such passes were
        not measured."""
        if self.width is None or not candidate.speculates:
            return candidate
        tree = candidate.tree
        width = self.width(tree)
        if tree.depth > 1 and not costs.draft.first <= width <= costs.draft.last:
            return None
        rest = [costs.draft(width)] * (tree.depth - 1)
        parts = [costs.verify(tree.num_nodes), costs.overhead(tree.num_nodes)]
        drafts = [costs.draft_root, *rest]
        step = Time(
            sum(part.ms for part in (*parts, *drafts)),
            hypot(*(part.error_ms for part in parts), sum(part.error_ms for part in drafts)),
        )
        return replace(
            candidate,
            step_ms=step.estimate,
            speedup=speedup(candidate.tokens_per_step, step, costs.autoregressive),
        )


def is_chain(drafting: Drafting) -> bool:
    """One token after the other, the same number in every step?"""
    return isinstance(drafting, TreeDrafting) and drafting.most_children == 1


def is_tree(drafting: Drafting) -> bool:
    """The same tree in every step?"""
    return isinstance(drafting, TreeDrafting)


def is_confident(drafting: Drafting) -> bool:
    """A chain that ends before a token that the draft is not sure of?"""
    return isinstance(drafting, ConfidentDrafting)


def is_assisted(drafting: Drafting) -> bool:
    """The schedule of Hugging Face's assisted generation, its confidence left as it is?"""
    return isinstance(drafting, DynamicDrafting)


def list_of_ranks(most_ranks: int) -> Callable[[Drafting], bool]:
    """The same tree in every step, of no more than so many children a node?"""
    return lambda drafting: is_tree(drafting) and drafting.most_children <= most_ranks


DRAWN_CHAIN = Way("chain", "chain", is_chain)
"""Drafted tokens are drawn from the draft's distribution, accepted with chance min(1, p / q)."""
MATCHED_CHAIN = Way("topk", "chain", is_chain)
"""Drafted tokens are the draft's likeliest, accepted where the target's own draw is the same."""
CONFIDENT_CHAIN = Way("topk", "confident", is_confident, grows=True)
"""The same, ended before a token that the draft is not sure of."""
ASSISTED_CHAIN = Way("chain", "assisted-tuned", is_assisted, grows=True)
"""A drawn chain, ended after a token that the draft is not sure of."""


def matched_tree(
    takes: Callable[[Drafting], bool] = is_tree, width: Callable[[Tree], int] | None = None
) -> Way:
    """A tree of the draft's likeliest tokens below each node, accepted where the target's own draw
    is the same."""
    return Way("topk", "fixed", takes, width=width)
