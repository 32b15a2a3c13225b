"""Paths of rejected tokens: enumerated or drawn, what they leave, how sure their mean is.

Where acceptance depends on which tokens were rejected before, it is averaged over such paths.  No
accept coin is ever flipped: a path carries its chance and the *expected* acceptance at each rank.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..compiling import compiled

MAX_ENUMERATED = 1_000_000
"""Most paths, V^num_children, that are enumerated rather than drawn."""

_NUM_PATHS = 32


def rates_over_paths(
    p: np.ndarray,
    q: np.ndarray,
    num_children: int,
    uniforms: tuple[np.random.Generator, int],
    add_enumerated: Callable[..., None],
    fill_paths: Callable[..., None],
) -> tuple[np.ndarray, np.ndarray]:
    """(rates, standard errors), float64 [P, num_children]: by rank, unconditional.

    p, q            float64 [P, V]
    uniforms        the generator of paths, and how many numbers it gives for each
    add_enumerated  compiled: (R, D, tried, weight, rank, rates [ranks]), every path to the last
                    rank; cheap for two ranks
    fill_paths      compiled: (p, q, uniforms, paths [32, num_children]), sampled ones

    The first two ranks are exact; so are the rest where all their paths are enumerated.
    """
    rates = np.zeros((len(p), num_children))
    errors = np.zeros_like(rates)
    num_exact = num_children if p.shape[1] ** num_children <= MAX_ENUMERATED else 2
    for i in range(len(p)):
        tried = np.zeros(p.shape[1], np.bool_)
        add_enumerated(p[i], q[i], tried, 1.0, 0, rates[i, :num_exact])
        if num_exact < num_children:
            paths = np.zeros((_NUM_PATHS, num_children))
            fill_paths(p[i], q[i], _stratified(*uniforms), paths)
            mean, error = _mean_and_error(paths)
            rates[i, 2:], errors[i, 2:] = mean[2:], error[2:]
    return rates, errors


def _stratified(rng: np.random.Generator, num_draws: int) -> np.ndarray:
    """float64 [32, num_draws]: one row per path; the first draw is stratified, a stratum a path.

    The first rejected token is thus spread evenly over its law: less noise, no bias.
    """
    uniforms = rng.random((_NUM_PATHS, num_draws))
    uniforms[:, 0] = (np.arange(_NUM_PATHS) + uniforms[:, 0]) / _NUM_PATHS
    return uniforms


def _mean_and_error(paths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(mean, standard error), float64 [k] each, of an even number of stratified rows [paths, k].

    Neighbouring strata are paired up (collapsed strata): half the squared difference of a pair
    estimates the variance of each of its rows, plus what their strata differ by, so that the error
    is never understated on average.
    """
    differences = paths[0::2] - paths[1::2]
    return paths.mean(axis=0), np.sqrt((differences**2).sum(axis=0)) / len(paths)


@compiled
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


@compiled
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
    if total > 0.0:
        draft /= total
