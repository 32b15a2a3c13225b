"""The factor of K-sequential selection: compiled, for many nodes at once, by plain bisection."""

from __future__ import annotations

import numpy as np
import pytest

from planner.verifiers.kseq import selection_factors
from planner.verifiers.selection_factor import BISECTIONS, selection_factor


def surplus(p: np.ndarray, q: np.ndarray, k: int, factor: float) -> float:
    """(1 - g b) - (1-b)^k, which falls in g; the factor is where it is 0, or 1."""
    return np.maximum(p - factor * q, 0).sum() - np.maximum(q - p / factor, 0).sum() ** k


def obvious(p: np.ndarray, q: np.ndarray, k: int) -> float:
    """Every token is looked at every time."""
    low, high = 1.0, float(k)
    if surplus(p, q, k, low) <= 0:
        return low
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if surplus(p, q, k, middle) <= 0 else (middle, high)
    return high


def drawn(rng, size: int, sharpness: float) -> np.ndarray:
    return rng.dirichlet(np.full(size, sharpness))


def without_some(rng, p: np.ndarray) -> np.ndarray:
    kept = p * (rng.random(len(p)) < 0.6)
    kept[rng.integers(len(p))] += 0.1
    return kept / kept.sum()


@pytest.mark.parametrize("k", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("size", [2, 5, 300])
def test_it_accepts_what_plain_bisection_accepts(size, k):
    rng = np.random.default_rng([size, k])
    for sharpness in (0.05, 0.3, 2.0, 50.0):
        for _ in range(8):
            p, q = drawn(rng, size, sharpness), drawn(rng, size, sharpness)
            for target, draft in ((p, q), (without_some(rng, p), q), (p, without_some(rng, q))):
                factor = selection_factor(target, draft, k)
                assert 1 <= factor <= k
                # Where p and q hardly meet it is lost in rounding, what is accepted is not.
                together = selection_factors(target[None], draft[None], k, BISECTIONS)[0, -1]
                for twin in (obvious(target, draft, k), together):
                    accepted = np.minimum(draft, target / factor)
                    assert np.abs(accepted - np.minimum(draft, target / twin)).max() < 1e-12
                # A last bisection moves the factor by so much, and it weighs at most 1 + k.
                rounding = size * np.finfo(float).eps * (1 + k)
                step = (k - 1) / 2**BISECTIONS * (1 + k)
                assert surplus(target, draft, k, factor) <= rounding
                assert factor == 1 or surplus(target, draft, k, factor) >= -step - rounding


def test_worked_by_hand():
    """p = (1, 0), q = (1/2, 1/2), k = 2: 1 - g/2 = 1/4 where only the second token is in excess."""
    assert selection_factor(np.array([1.0, 0.0]), np.array([0.5, 0.5]), 2) == pytest.approx(1.5)


@pytest.mark.parametrize("k", [2, 8])
def test_equal_and_disjoint_distributions(k):
    p = np.array([0.25, 0.5, 0.25, 0.0])
    assert selection_factor(p, p, k) == 1
    q = np.array([0.0, 0.0, 0.0, 1.0])
    assert selection_factor(p, q, k) == 1  # nothing is accepted at any factor
    nearly = p * (1 + np.array([1, -1, 1, 0]) * 1e-16)
    assert selection_factor(p, nearly / nearly.sum(), k) == pytest.approx(1, abs=1e-12)
