"""What to draft next: one class per way of drafting, made from the settings in a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from planner.plan import Plan, TreeDrafting
from planner.schema import PlannerError
from planner.tree import Tree

from .draft_tree import DraftTree

Request = tuple[int, int]
"""A node and how many children to add to it, at least 1."""


class DraftPolicy(Protocol):
    """Decides how one step's tree grows.

    Output stays the target's only if a decision never looks at the probability of a token that
    has been sampled and might be dropped by that decision: ask for children by place.
    """

    @property
    def num_nodes(self) -> int:
        """Most nodes that a tree of this policy can have, root included."""

    def grow(self, tree: DraftTree) -> Sequence[Request]:
        """What to add to `tree` now, to nodes of one level that have no children yet; nothing:
        verify now."""


class StaticTree:
    """The same tree at every step, drafted level by level.

    A `Tree` is numbered as it is drafted: level by level, the children of one node side by side.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._levels: list[list[Request]] = [[] for _ in range(tree.depth + 1)]
        for node, depth in enumerate(tree.depths.tolist()):
            count = int(tree.num_children[node])
            if count:
                self._levels[depth].append((node, count))

    @property
    def num_nodes(self) -> int:
        return self.tree.num_nodes

    def grow(self, tree: DraftTree) -> Sequence[Request]:
        return self._levels[tree.depth]


POLICIES: dict[str, Callable[[TreeDrafting], DraftPolicy]] = {
    "tree": lambda drafting: StaticTree(drafting.tree),
}


def policy_of(plan: Plan) -> DraftPolicy:
    """The policy that carries out the plan's drafting.  Raises PlannerError for an unknown kind."""
    make = POLICIES.get(plan.drafting.kind)
    if make is None:
        raise PlannerError(
            f"drafting.kind: got {plan.drafting.kind!r}, expected one of {', '.join(POLICIES)}"
        )
    return make(plan.drafting)
