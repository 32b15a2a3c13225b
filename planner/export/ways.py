"""The ways in which engines draft and verify, in our terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..documents.tree import Tree
from ..estimates.step_costs import StepCosts, speedup
from ..optimizer.grading import Candidate
from ..policies import ConfidentDrafting, Drafting, DynamicDrafting, TreeDrafting
from ..verifiers import VERIFIERS


@dataclass(frozen=True)
class Way:
    """One way in which an engine drafts and verifies."""

    verifier: str
    solver: str
    kind: type[Drafting]
    most_children: int | None = None
    """Children of a node, at most; None: any number."""
    width: Callable[[Tree], int] | None = None
    """Nodes that each draft pass below the root expands, where that is not up to the tree."""
    is_uniform: bool = False
    """Must every node have as many children as the others of its level?"""

    @property
    def grows(self) -> bool:
        """Are its trees decided on while they are drafted, so that recorded trees are needed?"""
        return self.kind is not TreeDrafting

    def takes(self, drafting: Drafting) -> bool:
        """Can it draft like this?"""
        few = self.most_children is None or drafting.most_children <= self.most_children
        uneven = isinstance(drafting, TreeDrafting) and not drafting.tree.is_uniform
        return isinstance(drafting, self.kind) and few and not (self.is_uniform and uneven)

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
        rest = [costs.draft(width) for _ in range(tree.depth - 1)]
        parts = [costs.verify(tree.num_nodes), costs.overhead(tree.num_nodes)]
        drafts = [costs.draft_root, *rest]
        errors = [each.error_ms for each in parts] + [sum(each.error_ms for each in drafts)]
        step = costs.drafted(sum(each.ms for each in (*parts, *drafts)), np.array(errors))
        return replace(
            candidate,
            step_ms=step.estimate,
            speedup=speedup(candidate.tokens_per_step, step, costs.autoregressive),
        )


DRAWN_CHAIN = Way("chain", "chain", TreeDrafting, most_children=1)
"""Drafted tokens are drawn from the draft's distribution, accepted with chance min(1, p / q)."""
MATCHED_CHAIN = Way("topk", "chain", TreeDrafting, most_children=1)
"""Drafted tokens are the draft's likeliest, accepted where the target's own draw is the same."""
CONFIDENT_CHAIN = Way("topk", "confident", ConfidentDrafting)
"""The same, ended before a token that the draft is not sure of."""
ASSISTED_CHAIN = Way("chain", "assisted-tuned", DynamicDrafting)
"""A drawn chain, ended after a token that the draft is not sure of, as Hugging Face's assisted
generation does."""
MATCHED_TREE = Way("topk", "fixed", TreeDrafting)
"""The draft's likeliest tokens below each node, accepted where the target's own draw is the same.
"""
UNIFORM_TREE = replace(MATCHED_TREE, solver="uniform", is_uniform=True)
"""The same, with as many children for every node of a level."""
