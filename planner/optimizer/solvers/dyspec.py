"""Settings for DySpec's two policies: greedy with a budget, and level by level with a threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...estimates.step_costs import StepCosts
from ...policies import Drafting, GreedyDrafting, ThresholdDrafting
from ..problem import Problem, Solver

SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256)
DEPTHS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24)
THRESHOLDS = (
    0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5,
    0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.88, 0.91, 0.94, 0.96, 0.98, 0.99,
)  # fmt: skip


@dataclass(frozen=True)
class DySpecSolver(Solver):
    """The best budget with its depth, and the best threshold, of all that are tried.

    A threshold needs no other end: levels end where no slot is worth it.  Cut off above that they
    gain next to nothing on the recorded texts, and lose where others go on for longer.

    Among those that are tried is the one that prices time for verification alone: a slot of value v
    is worth a node if v exceeds price * t' (`verifying_threshold`).  It takes drafting for free,
    which it seldom is.
    """

    grows: ClassVar[bool] = True

    def propose(self, problem: Problem) -> Mapping[str, Drafting]:
        limits, max_children = problem.limits, problem.max_children
        if limits.max_nodes < 2 or limits.max_depth < 1 or max_children < 2:
            return {}  # chains are another solver's
        costs = problem.costs.growing()
        sizes = worthwhile_sizes(costs.sizes_ms(limits.max_nodes))
        depths = [depth for depth in DEPTHS if depth < limits.max_depth] + [limits.max_depth]
        budgets = [
            GreedyDrafting(num_nodes=size, max_depth=depth, max_children=max_children)
            for size in sizes
            for depth in depths
            if depth < size
        ]
        thresholds = [
            ThresholdDrafting(
                threshold=threshold,
                num_nodes=limits.max_nodes,
                max_depth=limits.max_depth,
                max_children=max_children,
            )
            for threshold in (
                verifying_threshold(problem.price_per_ms, costs, limits.max_nodes),
                *THRESHOLDS,
            )
        ]
        found: dict[str, tuple[Drafting, float]] = {
            "greedy": problem.fastest_of_many(budgets),
            "threshold": problem.fastest_of_many(thresholds),
        }
        return {name: settings for name, (settings, rate) in found.items() if rate > -np.inf}


def worthwhile_sizes(sizes_ms: np.ndarray) -> list[int]:
    """`SIZES` as far as there are times, the largest, and the most nodes that the time of each of
    these buys: times are staircases that also go down, and 14 nodes may be cheaper than 12.

    sizes_ms  float64 [num_nodes]: of 1 node and more (`StepCosts.sizes_ms`)
    """
    tried = [size for size in SIZES if size < len(sizes_ms)] + [len(sizes_ms)]
    bought = (int(np.flatnonzero(sizes_ms <= sizes_ms[size - 1])[-1]) + 1 for size in tried)
    return sorted({*tried, *bought})


def verifying_threshold(price_per_ms: float, costs: StepCosts, max_nodes: int) -> float:
    """C = price * t', inside (0, 1); t' is what one more node takes up to `max_nodes`."""
    return round(min(max(price_per_ms * costs.node_ms(max_nodes), 1e-3), 0.99), 4)
