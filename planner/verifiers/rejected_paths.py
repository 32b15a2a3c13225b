"""Paths of rejected tokens: how they are drawn, what they leave, how sure their mean is.

Where acceptance depends on which tokens were rejected before, it is averaged over such paths.  No
accept coin is ever flipped: a path carries its chance and the *expected* acceptance at each rank.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MAX_ENUMERATED = 1_000_000
"""Most paths, V^num_children, that are enumerated rather than drawn."""

_NUM_PATHS = 32


def path_uniforms(rng: np.random.Generator, num_draws: int) -> np.ndarray:
    """float64 [32, num_draws]: one row per path; the first draw is stratified, a stratum a path.

    The first rejected token is thus spread evenly over its law: less noise, no bias.
    """
    uniforms = rng.random((_NUM_PATHS, num_draws))
    uniforms[:, 0] = (np.arange(_NUM_PATHS) + uniforms[:, 0]) / _NUM_PATHS
    return uniforms


def mean_and_error(paths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(mean, standard error), float64 [k] each, of an even number of stratified rows [paths, k].

    Neighbouring strata are paired up (collapsed strata): half the squared difference of a pair
    estimates the variance of each of its rows, plus what their strata differ by, so that the error
    is never understated on average.
    """
    mean = paths.mean(axis=0)
    differences = paths[0::2] - paths[1::2]
    return mean, np.sqrt((differences**2).sum(axis=0)) / len(paths)


@njit(cache=True)
def draw(weights, uniform):  # type: ignore[no-untyped-def]
    """The token at `uniform` (0..1) of the law proportional to `weights`; -1 if they are all 0."""
    threshold = uniform * weights.sum()
    last = -1
    for x in range(len(weights)):
        if weights[x] > 0.0:
            last = x
            threshold -= weights[x]
            if threshold < 0.0:
                break
    return last


@njit(cache=True)
def fill_untried(draft, tried):  # type: ignore[no-untyped-def]
    """Take the tried tokens out of `draft` and renormalise; evenly over the rest if it is empty."""
    total = 0.0
    for y in range(len(draft)):
        if tried[y]:
            draft[y] = 0.0
        total += draft[y]
    if total <= 0.0:
        for y in range(len(draft)):
            draft[y] = 0.0 if tried[y] else 1.0
        total = draft.sum()
    for y in range(len(draft)):
        draft[y] /= max(total, 1e-300)
