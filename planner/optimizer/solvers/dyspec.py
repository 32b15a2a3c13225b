"""Settings for DySpec's rules: greedy with a budget, and level by level with a threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...policies import Drafting, GreedyDrafting, ThresholdDrafting
from ..growing import GrowthEstimates
from ..problem import Limits

SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256)
DEPTHS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24)
THRESHOLDS = (
    0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5,
    0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.88, 0.91, 0.94, 0.96, 0.98, 0.99,
)  # fmt: skip


@dataclass(frozen=True)
class DySpecSolver:
    """The best budget with its depth, and the best threshold, of all that are tried.

    A threshold needs no other end: levels end where no slot is worth it.  Cut off above that they
    gain next to nothing on the recorded texts, and lose where others go on for longer.

    Among those that are tried is the one that prices time for verification alone: a slot of value v
    is worth a node if v exceeds price * t' (`verifying_threshold`).  It takes drafting for free,
    which it seldom is.
    """

    def propose(self, estimates: GrowthEstimates, limits: Limits) -> dict[str, Drafting]:
        if limits.max_nodes < 2 or limits.max_depth < 1 or estimates.max_children < 2:
            return {}  # chains are another solver's
        priced = verifying_threshold(estimates, limits)

        def greedy(num_nodes: int, max_depth: int) -> GreedyDrafting:
            return GreedyDrafting(
                num_nodes=num_nodes, max_depth=max_depth, max_children=estimates.max_children
            )

        def threshold(threshold: float) -> ThresholdDrafting:
            return ThresholdDrafting(
                threshold=threshold,
                num_nodes=limits.max_nodes,
                max_depth=limits.max_depth,
                max_children=estimates.max_children,
            )

        sizes = worthwhile_sizes(estimates.verify_ms(limits.max_nodes))
        depths = [depth for depth in DEPTHS if depth < limits.max_depth] + [limits.max_depth]
        budgets = [greedy(size, depth) for size in sizes for depth in depths if depth < size]
        found: dict[str, Drafting] = {
            "greedy": estimates.fastest_of_many(budgets),
            "threshold": estimates.fastest(list(map(threshold, (priced, *THRESHOLDS)))),
        }
        return {name: each for name, each in found.items() if estimates.rate(each) > -np.inf}


def worthwhile_sizes(verify_ms: np.ndarray) -> list[int]:
    """`SIZES` as far as there are times, the largest, and the most nodes that the time of each of
    these buys: times are staircases that also go down, and 14 nodes may be cheaper than 12.

    verify_ms  float64 [num_nodes]: of 1 node and more (`GrowthEstimates.verify_ms`)
    """
    tried = [size for size in SIZES if size < len(verify_ms)] + [len(verify_ms)]
    bought = (int(np.flatnonzero(verify_ms <= verify_ms[size - 1])[-1]) + 1 for size in tried)
    return sorted({*tried, *bought})


def verifying_threshold(estimates: GrowthEstimates, limits: Limits) -> float:
    """C = price * t', inside (0, 1)."""
    threshold = estimates.price_per_ms * estimates.node_ms(limits.max_nodes)
    return round(min(max(threshold, 1e-3), 0.99), 4)
