"""What to draft next: one class per way of drafting, made from the settings in a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from planner.documents.tree import Tree
from planner.plans.plan import Plan
from planner.policies import grower_of
from planner.policies.policy import Grower, Request
from planner.policies.settings import TreeDrafting
from planner.verifiers.traits import GREEDY_RULE, VERIFIER_TRAITS


class DraftPolicy(Protocol):
    """Decides how one step's tree grows; `planner.policies.Grower` says how it is asked and told.

    Output stays the target's only if a decision never looks at the probability of a token that
    has been sampled and might be dropped by that decision: ask for children by place.
    """

    @property
    def num_nodes(self) -> int:
        """Most nodes that a tree of this policy can have, root included."""

    @property
    def num_candidates(self) -> int:
        """Candidates to draw below every expanded node and to show to `expanded`; 0: draw exactly
        the children that are asked for, by node without any yet, and show nothing."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Features that `expanded` looks at."""

    def start(self, max_depth: int) -> None:
        """A new step begins: a lone root."""

    def grow(self) -> Sequence[Request]:
        """What to add to the tree now; nothing: verify now."""

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        """What the draft pass over `nodes` found, if there are candidates to show."""

    def verified(self, path: Sequence[int], step_ms: float) -> None:
        """The step is over: the accepted nodes without the root, and its wall time."""


class StaticTree:
    """The same tree at every step, drafted level by level.

    A `Tree` is numbered as it is drafted: level by level, the children of one node side by side.
    """

    num_candidates = 0
    columns: tuple[str, ...] = ()

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._levels: list[list[Request]] = [[] for _ in range(tree.depth + 1)]
        for node, depth in enumerate(tree.depths.tolist()):
            count = int(tree.num_children[node])
            if count:
                self._levels[depth].append((node, count))
        self._depth = 0
        self._max_depth = 0

    @property
    def num_nodes(self) -> int:
        return self.tree.num_nodes

    def start(self, max_depth: int) -> None:
        self._depth, self._max_depth = 0, max_depth

    def grow(self) -> Sequence[Request]:
        if self._depth == self._max_depth:
            return ()
        requests = self._levels[self._depth]
        self._depth += 1
        return requests

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        raise AssertionError("a fixed tree is shown nothing")

    def verified(self, path: Sequence[int], step_ms: float) -> None:
        pass


class Grown:
    """A tree that a rule decides on while it is drafted."""

    def __init__(self, grower: Grower) -> None:
        self.grower = grower
        self.num_nodes = grower.num_nodes
        self.num_candidates = grower.max_children
        self.columns = grower.columns
        self.start = grower.start
        self.grow = grower.grow
        self.expanded = grower.expanded
        self.verified = grower.verified


def policy_of(plan: Plan) -> DraftPolicy:
    """The policy that carries out the plan's drafting, at the start of a text.

    Raises PlannerError for a kind that nothing here carries out.
    """
    if isinstance(plan.drafting, TreeDrafting):
        return StaticTree(plan.drafting.tree)
    rule = GREEDY_RULE if plan.sampling.temperature == 0 else plan.verifier
    return Grown(grower_of(plan.drafting, deterministic=VERIFIER_TRAITS[rule].deterministic))
