"""The host's computation of what a policy is shown of the draft distribution q at a node."""

from __future__ import annotations

import numpy as np

from ...compiling import compiled
from ..policy import COLLISION, ENTROPY, FEATURES, MAX_PROBABILITY

NUM_FEATURES = len(FEATURES)
NOTHING_LEFT = 1e-6
"""Mass below which the rest of a float32 distribution is rounding: its sum is off by as much."""


def drawn_values(mass: np.ndarray, *, distinct: bool) -> np.ndarray:
    """Probability of each candidate under what was left of q when it was drawn.

    mass  float64 [w, K]  of the candidates under q, in the order drawn

    Returns float64 [w, K]: q(x_r) / (1 - sum of q over the earlier ones) for distinct candidates,
    q(x_r) for independent ones; 0 for tokens that are drawn only because q is used up.
    """
    if not distinct:
        return mass
    left = 1 - (mass.cumsum(axis=-1) - mass)
    drawn = np.where(left > NOTHING_LEFT, mass / np.maximum(left, NOTHING_LEFT), mass > 0)
    return np.minimum(drawn, 1)


@compiled(fastmath={"reassoc", "contract"})
def drawn_and_features(
    q: np.ndarray, tokens: np.ndarray, distinct: bool, largest: bool, entropy: bool, collision: bool
) -> tuple[np.ndarray, np.ndarray]:
    """`drawn_values` and features, of the latter only what is asked for, in one pass.

    q       float [w, V]
    tokens  int64 [w, K]  the candidates

    Returns float64 [w, K] and [w, `FEATURES`], NaN where not asked for, and for scores.
    """
    drawn = np.empty(tokens.shape, np.float64)
    found = np.full((len(q), NUM_FEATURES), np.nan)
    for row in range(len(q)):
        left = 1.0
        for rank in range(tokens.shape[1]):
            mass = np.float64(q[row, tokens[row, rank]])
            if not distinct:
                drawn[row, rank] = mass
            elif left > NOTHING_LEFT:
                drawn[row, rank] = min(mass / left, 1.0)
            else:
                drawn[row, rank] = 1.0 if mass > 0 else 0.0
            left -= mass
        if largest:
            highest = q[row, 0]
            for mass in q[row]:
                highest = max(highest, mass)
            found[row, MAX_PROBABILITY] = highest
        if collision:
            total = 0.0
            for mass in q[row]:
                total += np.float64(mass) * np.float64(mass)
            found[row, COLLISION] = total
        if entropy:
            total = 0.0
            for mass in q[row]:
                if mass > 0:
                    total -= mass * np.log(mass)
            found[row, ENTROPY] = total
    return drawn, found
