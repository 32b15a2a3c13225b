"""Which of Sequoia's trees pay?  Every size times every depth, weighed against its step time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..tree import Tree
from .problem import Estimates, Limits
from .sequoia import search


@dataclass(frozen=True)
class SequoiaSolver:
    """Best trees of every size and depth, the most tokens per millisecond first.

    The step time of each is exact (its levels' widths are known), so that nothing is lost to the
    shape of the verification curve.  Proposed are the `shortlist` best of all, and for each depth
    the best.
    """

    shortlist: int = 24

    def propose(self, estimates: Estimates, limits: Limits) -> list[Tree]:
        if limits.max_nodes < 2 or limits.max_depth < 1:
            return []
        costs = estimates.costs
        trees = search(estimates.law, limits.max_nodes, limits.max_depth)
        tokens = trees.expected_tokens
        step_ms = trees.drafting_ms(costs.draft.table(limits.max_nodes))
        step_ms += costs.draft_root.ms
        step_ms += costs.verify.table(limits.max_nodes)[:, None]
        step_ms += costs.overhead.table(limits.max_nodes)[:, None]
        step_ms[:2] = np.inf  # no tree, and the lone root, which is always graded anyway
        rate = np.where(tokens > 0, tokens, 0.0) / step_ms
        rate[:, 1:][tokens[:, 1:] <= tokens[:, :-1]] = 0.0  # a shallower tree does as well
        found = (trees.tree(*place) for place in _best(rate, self.shortlist))
        return [tree for tree in found if tree is not None]


def _best(rate: np.ndarray, shortlist: int) -> list[tuple[int, int]]:
    """Places (num_nodes, depth) of the highest rates, and of each depth's highest; none twice."""
    ranked = np.argsort(-rate, axis=None, kind="stable")[:shortlist]
    places = [divmod(int(place), rate.shape[1]) for place in ranked]
    places += [(int(n), depth) for depth, n in enumerate(rate.argmax(axis=0))]
    return [place for place in dict.fromkeys(places) if rate[place] > 0]
