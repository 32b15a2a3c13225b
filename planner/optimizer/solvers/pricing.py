"""Settings for the policy that prices time: tables from recorded trees, prices by search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product, starmap
from typing import ClassVar

import numpy as np

from ...policies import Drafting, PriceDrafting
from ...replay.chance_tables import KNOTS, fitted_tables
from ..problem import Problem, Solver
from .dyspec import worthwhile_sizes

NODE_PRICES = (0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4)
LOOKAHEADS = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)
COARSE = ((0.04, 0.7), (0.15, 1.4), (0.4, 4.0))
"""Node prices and lookaheads with which budgets and shapes are compared."""
MAX_DEPTH = 20
"""Deeper trees than are recorded need not be tried."""

_ROUNDS = 3
_CLOSE = 1e-3


@dataclass(frozen=True)
class PriceSolver(Solver):
    """The price of time is the rate at which tokens come when it is paid: a fixed point.

    From the best rate known, rounds are played at that price, which is then set to the rate they
    reach, until it stays.  The node price and the lookahead, for which theory has rough guesses
    only (price * t', 1 to 1.6), are the best of a grid at the first price, and again at the last.

    What is filled while there is hope below it is verified in the end, and one price for all nodes
    knows of no stairs: where the fourth node takes as long as the first three, a policy that often
    wants one more loses to a chain of two.  So budgets are tried too, those that stairs of time go
    down to, and chains beside trees (where there is room for two nodes, chances that are not quite
    right make the second a sibling too often): first with a few prices and lookaheads, the best of
    them with all.
    """

    grows: ClassVar[bool] = True

    def propose(self, problem: Problem) -> Mapping[str, Drafting]:
        limits = problem.limits
        if limits.max_nodes < 2 or limits.max_depth < 1 or problem.max_children < 2:
            return {}
        base = self._priced_by_costs(problem)
        grid = list(product((base.node_price, *NODE_PRICES), LOOKAHEADS))
        price = base.price_per_ms
        best, best_rate = problem.fastest_of_many([priced(base, price, *point) for point in grid])
        rate = best_rate
        for _ in range(_ROUNDS):
            price = max(rate, base.price_per_ms)
            rate = problem.rate(priced(best, price, best.node_price, best.lookahead))
            if abs(rate / price - 1) < _CLOSE:
                break
        budgets = [size for size in worthwhile_sizes(np.array(base.verify_ms)) if size > 1]
        shapes = starmap(partial(within, base), product(budgets, (1, base.max_children)))
        tried = [priced(shape, price, *point) for shape, point in product(shapes, COARSE)]
        shape, _ = problem.fastest_of_many(tried)
        found, rate = problem.fastest_of_many([priced(shape, price, *point) for point in grid])
        if rate > best_rate:
            best, best_rate = found, rate
        return {"price": best} if best_rate > -np.inf else {}

    def _priced_by_costs(self, problem: Problem) -> PriceDrafting:
        costs, num_nodes = problem.costs.growing(), problem.limits.max_nodes
        widest = min(costs.draft.last, num_nodes)
        tables = fitted_tables(problem.texts.recorded, problem.max_children)
        node_price = problem.price_per_ms * costs.node_ms(num_nodes)
        return PriceDrafting(
            num_nodes=num_nodes,
            max_depth=min(problem.limits.max_depth, MAX_DEPTH),
            max_children=problem.max_children,
            price_per_ms=problem.price_per_ms,
            node_price=round(min(node_price, 0.9), 4),
            lookahead=1.0,
            draft_root_ms=costs.draft_root.ms,
            draft_ms=[
                _short(costs.draft_ms(max(w, costs.draft.first))) for w in range(1, widest + 1)
            ],
            verify_ms=[_short(ms) for ms in costs.sizes_ms(num_nodes)],
            knots=list(KNOTS),
            before=[_rounded(row) for row in tables.before],
            after=[_rounded(row) for row in tables.after],
            ahead=[_rounded(row) for row in tables.ahead],
        )


def priced(
    base: PriceDrafting, price_per_ms: float, node_price: float, lookahead: float
) -> PriceDrafting:
    """`base` at other prices."""
    prices = {"price_per_ms": price_per_ms, "node_price": node_price, "lookahead": lookahead}
    return base.model_copy(update=prices)


def within(base: PriceDrafting, num_nodes: int, max_children: int) -> PriceDrafting:
    """`base` with fewer nodes at most, and fewer children of each: 1 for chains."""
    ahead = [row[:max_children] for row in base.ahead]
    sizes = {"num_nodes": num_nodes, "max_children": max_children, "ahead": ahead}
    return base.model_copy(update=sizes)


def _rounded(chances: np.ndarray) -> list[float]:
    return [round(float(chance), 4) for chance in chances]


def _short(ms: float) -> float:
    """A time to six digits, however short it is."""
    return float(f"{ms:.6g}")
