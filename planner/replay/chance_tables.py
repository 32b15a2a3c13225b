"""How likely is what a policy sees of a growing tree to be accepted?  Tables, from recorded trees.

Every on-text node of a replayed tree is a trial: its candidates were tried in turn until one was
accepted.  The chance of a candidate is estimated as a function of one number at a time: before its
draw, of the collision probability of what is left of q; after it, of its drawn probability.  Each
is fitted at a few knots, linear between them, by weighted means and pooled until it never falls
(isotonic regression): a likelier token is not less likely to be accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from ..compiling import compiled
from ..policies.policy import COLLISION
from .recorded import Recorded

KNOTS = (0.0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 1.0)
RANKS = 4
"""Ranks told apart; later ones are taken together with the last of these."""

PRIOR_TRIALS = 8.0
"""How many trials the draft's own word counts for, where there are few others."""


@dataclass(frozen=True)
class ChanceTables:
    """Tables of chances, as `PriceDrafting` holds them."""

    before: np.ndarray
    """float64 [RANKS, knots]"""
    after: np.ndarray
    """float64 [RANKS, knots]"""
    ahead: np.ndarray
    """float64 [2, num_children]: acceptance by rank at the root, and at other nodes"""


class Trials(NamedTuple):
    """Candidates that were tried."""

    rank: np.ndarray
    """int64 [trials]"""
    collision: np.ndarray
    """float64 [trials]: of what was left of q"""
    drawn: np.ndarray
    """float64 [trials]"""
    accepted: np.ndarray
    """bool [trials]"""
    depth: np.ndarray
    """int64 [trials]: of the parent"""


def fitted_tables(recorded: Recorded, num_children: int) -> ChanceTables:
    """Tables from all trials of `recorded`, for nodes of up to `num_children` children."""
    trials = tried(recorded)
    before, after = (
        np.stack([_fitted(trials, values, rank) for rank in range(RANKS)])
        for values in (trials.collision, trials.drawn)
    )
    ahead = np.zeros((2, num_children))
    for row, here in enumerate((trials.depth == 0, trials.depth > 0)):
        nodes = (here & (trials.rank == 0)).sum()
        ranks = trials.rank[here & trials.accepted]
        counts = np.bincount(ranks, minlength=num_children)[:num_children]
        ahead[row] = counts / max(nodes, 1)
    return ChanceTables(before, after, ahead)


def tried(recorded: Recorded) -> Trials:
    """All candidates that were tried at on-text nodes, as far as the texts go."""
    rank, collision, drawn, accepted, depth = _tried(recorded)
    return Trials(
        rank.astype(np.int64), collision, drawn, accepted.astype(bool), depth.astype(np.int64)
    )


def _fitted(trials: Trials, values: np.ndarray, rank: int) -> np.ndarray:
    """float64 [knots]: non-decreasing chance of acceptance at a rank; the last stands for later."""
    here = trials.rank == rank if rank < RANKS - 1 else trials.rank >= rank
    x, y = np.clip(values[here], 0, 1), trials.accepted[here]
    knots = np.array(KNOTS)
    upper = np.clip(np.searchsorted(knots, x), 1, len(knots) - 1)
    share = (x - knots[upper - 1]) / (knots[upper] - knots[upper - 1])
    weight, sums = np.full(len(knots), PRIOR_TRIALS), PRIOR_TRIALS * knots
    for place, part in ((upper - 1, 1 - share), (upper, share)):
        weight += np.bincount(place, part, len(knots))
        sums += np.bincount(place, part * y, len(knots))
    return np.asarray(isotonic_regression(sums / weight, weights=weight).x)


@compiled
def _tried(recorded):  # type: ignore[no-untyped-def]
    """Rows of `Trials`, all of them real numbers."""
    texts, first, drawn, child, taken, features, _, _ = recorded
    num_ranks = drawn.shape[1]
    found = np.empty((5, len(first) * num_ranks * 24))
    num = 0
    for start, end in texts:
        for tree in range(start, end):
            row, depth = first[tree], 0
            while row >= 0 and tree + depth < end:
                left, squares, own = 1.0, features[row, COLLISION], -1
                for rank in range(num_ranks):
                    accepted = taken[row] == rank
                    if num == found.shape[1]:
                        return found[:, :num]
                    found[0, num], found[4, num] = rank, depth
                    found[1, num] = max(squares, 0.0) / (left * left) if left > 1e-6 else 0.0
                    found[2, num], found[3, num] = drawn[row, rank], accepted
                    num += 1
                    if accepted:
                        own = child[row, rank]
                        break
                    squares -= (drawn[row, rank] * left) ** 2
                    left *= 1.0 - drawn[row, rank]
                row = first[tree] + own if own >= 0 else -1
                depth += 1
    return found[:, :num]
