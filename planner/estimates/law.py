"""The acceptance law: P(each child is the accepted one), by rank, siblings, and depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from ..documents.arguments import probabilities
from ..documents.profile import Acceptance, family_columns
from ..documents.tree import Tree


@dataclass(frozen=True)
class AcceptanceLaw:
    """P(the child of rank r is the accepted one | its parent was), for every place in a tree.

    rates  float64 [num_depths, num_counts, num_ranks]

    First axis: depth of the parent; the last entry holds for all deeper ones.  Second axis: how
    many children the parent has, from one on; of length 1 where that does not matter (acceptance
    depends on the rank alone).  Third axis: the rank; 0 beyond the number of children.
    """

    rates: np.ndarray

    @classmethod
    def by_rank(cls, acceptance: Any) -> AcceptanceLaw:
        """The positional assumption (Sequoia, Definition 3.1): the rank is all that matters.

        acceptance  float64 [k], summing to at most 1; raises PlannerError if it is no such thing
        """
        return cls(probabilities(acceptance, "acceptance")[None, None, :])

    @classmethod
    def from_columns(cls, columns: np.ndarray, by_rank_alone: bool) -> AcceptanceLaw:
        """The law of rates in the order of a profile's arrays.

        columns  float64 [num_depths, num_columns]
        """
        if by_rank_alone:
            return cls(np.ascontiguousarray(columns[:, None, :]))
        num_ranks = Acceptance.ranks_in(columns.shape[1])
        rates = np.zeros((len(columns), num_ranks, num_ranks))
        for count in range(1, num_ranks + 1):
            rates[:, count - 1, :count] = columns[:, family_columns(count)]
        return cls(rates)

    @property
    def by_rank_alone(self) -> bool:
        """Do siblings make no difference?"""
        return self.rates.shape[1] == 1

    @property
    def num_ranks(self) -> int:
        """Most children of a node that it describes."""
        return int(self.rates.shape[2])

    @property
    def is_greedy(self) -> bool:
        """Does reach never rise downwards or to the right, so that the best nodes form a tree?"""
        return self.by_rank_alone and bool((np.diff(self.rates, axis=2) <= 0).all())

    def limited(self, max_children: int | None) -> AcceptanceLaw:
        """The same law, for nodes of at most so many children; None: any number."""
        if max_children is None or max_children >= self.num_ranks:
            return self
        counts = 1 if self.by_rank_alone else max_children
        return AcceptanceLaw(np.ascontiguousarray(self.rates[:, :counts, :max_children]))

    def non_increasing(self) -> AcceptanceLaw:
        """The nearest law (least squares) whose rates never rise with the rank."""
        rates = self.rates.copy()
        for depth, count in np.ndindex(*rates.shape[:2]):
            family = slice(0, self.num_ranks if self.by_rank_alone else count + 1)
            row = rates[depth, count, family]
            rates[depth, count, family] = isotonic_regression(row, increasing=False).x
        return AcceptanceLaw(rates)

    def of_children(self, depth: int, count: int) -> np.ndarray:
        """float64 [count]: rates of the children of a node at `depth` that has `count` of them."""
        family = 0 if self.by_rank_alone else count - 1
        return self.rates[min(depth, len(self.rates) - 1), family, :count]

    def reach(self, tree: Tree) -> np.ndarray:
        """float64 [n]: product of the rates along the path to each node, the root's being 1."""
        reach = np.ones(tree.num_nodes)
        depths = np.minimum(tree.depths, len(self.rates) - 1)
        families = np.zeros_like(tree.num_children) if self.by_rank_alone else tree.num_children - 1
        for node in range(1, tree.num_nodes):
            parent = tree.parents[node]
            rate = self.rates[depths[parent], families[parent], tree.ranks[node]]
            reach[node] = reach[parent] * rate
        return reach

    def expected_tokens(self, tree: Tree) -> float:
        """Tokens per step, bonus token included: the sum of `reach`."""
        return float(self.reach(tree).sum())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AcceptanceLaw) and np.array_equal(self.rates, other.rates)

    __hash__ = None  # type: ignore[assignment]
