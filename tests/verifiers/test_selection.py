"""The factor of K-sequential selection: compiled, for many nodes at once, by plain bisection."""

from __future__ import annotations

import numpy as np
import pytest

from planner.verifiers.kseq import selection_factors
from planner.verifiers.selection_factor import BISECTIONS, selection_factor


def surplus(p: np.ndarray, q: np.ndarray, k: int, factors: np.ndarray) -> np.ndarray:
    """(1 - g b) - (1-b)^k of every row, which falls in g; the factor is where it is 0, or 1."""
    kept = np.maximum(p - factors[:, None] * q, 0).sum(axis=1)
    return kept - np.maximum(q - p / factors[:, None], 0).sum(axis=1) ** k


def obvious(p: np.ndarray, q: np.ndarray, k: int) -> np.ndarray:
    """Every token of every row is looked at every time."""
    low, high = np.ones(len(p)), np.full(len(p), float(k))
    none = surplus(p, q, k, low) <= 0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        below = surplus(p, q, k, middle) <= 0
        low, high = np.where(below, low, middle), np.where(below, middle, high)
    return np.where(none, 1.0, high)


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
    pairs = []
    for sharpness in (0.05, 0.3, 2.0, 50.0):
        for _ in range(8):
            p, q = drawn(rng, size, sharpness), drawn(rng, size, sharpness)
            pairs += [(p, q), (without_some(rng, p), q), (p, without_some(rng, q))]
    targets, drafts = (np.array(rows) for rows in zip(*pairs, strict=True))
    factors = np.array([selection_factor(*pair, k) for pair in pairs])
    assert ((factors >= 1) & (factors <= k)).all()
    # Where p and q hardly meet it is lost in rounding, what is accepted is not.
    together = selection_factors(targets, drafts, k, BISECTIONS)[:, -1]
    for twins in (obvious(targets, drafts, k), together):
        accepted, expected = (
            np.minimum(drafts, targets / each[:, None]) for each in (factors, twins)
        )
        assert np.abs(accepted - expected).max() < 1e-12
    # A last bisection moves the factor by so much, and it weighs at most 1 + k.
    rounding = size * np.finfo(float).eps * (1 + k)
    step = (k - 1) / 2**BISECTIONS * (1 + k)
    left = surplus(targets, drafts, k, factors)
    assert (left <= rounding).all()
    assert ((factors == 1) | (left >= -step - rounding)).all()


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
