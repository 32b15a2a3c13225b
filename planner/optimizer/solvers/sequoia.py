"""Sequoia's trees that pay: every size times every depth, weighed against its step time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...documents.tree import Tree
from ...estimates.step_costs import StepCosts
from ...policies import Drafting
from ...trees.best_first import BestFirst
from ...trees.frontier import search
from ...trees.programme import Programme
from ..problem import Problem, Solver, numbered


@dataclass(frozen=True)
class SequoiaSolver(Solver):
    """Best trees of every size and depth, the most tokens per millisecond first.

    The step time of each is exact (its levels' widths are known), so that nothing is lost to the
    shape of the verification curve.  Proposed are the `shortlist` best of all, and for each depth
    the best.
    """

    shortlist: int = 24

    def propose(self, problem: Problem) -> Mapping[str, Drafting]:
        limits = problem.limits
        if limits.max_nodes < 2 or limits.max_depth < 1:
            return {}
        trees = search(problem.law, limits.max_nodes, limits.max_depth)
        rate = _rates(trees, problem.costs, limits.max_nodes)
        found = (trees.tree(*place) for place in _best(rate, self.shortlist))
        return numbered(tree for tree in found if tree is not None)


@dataclass(frozen=True)
class NarrowSolver(Solver):
    """The same under a limit on each level's expanded nodes: 1, 2, 3, 4, 6, 8, 12, ...

    For draft passes that take a leap at some width, where a tree with most tokens of its size and
    depth may be wider than pays.  Best first; a law that rises with the rank is evened out for it.
    """

    shortlist: int = 3
    """Proposals for each limit."""

    def propose(self, problem: Problem) -> Mapping[str, Drafting]:
        limits = problem.limits
        if limits.max_nodes < 2 or limits.max_depth < 1 or not problem.law.by_rank_alone:
            return {}
        law = problem.law.non_increasing()
        found: list[tuple[float, Tree]] = []
        for widest in _half_steps(min(limits.max_nodes // 2, problem.costs.draft.last)):
            trees = BestFirst(law, limits.max_nodes, limits.max_depth, widest)
            rate = _rates(trees, problem.costs, limits.max_nodes)
            ranked = np.argsort(-rate, axis=None, kind="stable")[: self.shortlist]
            for place in (divmod(int(index), rate.shape[1]) for index in ranked):
                tree = trees.tree(*place) if rate[place] > 0 else None
                if tree is not None:
                    found.append((float(rate[place]), tree))
        found.sort(key=lambda each: -each[0])
        return numbered(dict.fromkeys(tree for _, tree in found))


def _rates(trees: BestFirst | Programme, costs: StepCosts, max_nodes: int) -> np.ndarray:
    """float64 [max_nodes+1, max_depth+1]: tokens per ms; 0 where a shallower tree does as well."""
    tokens = trees.expected_tokens
    step_ms = trees.drafting_ms(costs.draft.table(max_nodes))
    step_ms += costs.draft_root.ms
    step_ms += costs.verify.table(max_nodes)[:, None]
    step_ms += costs.overhead.table(max_nodes)[:, None]
    step_ms[:2] = np.inf  # no tree, and the lone root, which is always graded anyway
    rate = np.where(tokens > 0, tokens, 0.0) / step_ms
    rate[:, 1:][tokens[:, 1:] <= tokens[:, :-1]] = 0.0
    return rate


def _half_steps(most: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, ... below `most`."""
    powers = (2**k for k in range(most.bit_length()))
    return sorted({w for power in powers for w in (power, power + power // 2) if w < most})


def _best(rate: np.ndarray, shortlist: int) -> list[tuple[int, int]]:
    """Places (num_nodes, depth) of the highest rates, and of each depth's highest; none twice."""
    ranked = np.argsort(-rate, axis=None, kind="stable")[:shortlist]
    places = [divmod(int(place), rate.shape[1]) for place in ranked]
    places += [(int(n), depth) for depth, n in enumerate(rate.argmax(axis=0))]
    return [place for place in dict.fromkeys(places) if rate[place] > 0]
