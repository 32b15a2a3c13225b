"""The exponential of vectors is numpy's, up to the last bit of 24."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from tree_kernels.host.few_rows import IN_ANY_ORDER
from tree_kernels.host.quick_exp import LEAST, quick_exp


@njit(fastmath=IN_ANY_ORDER)
def _exps(numbers):
    found = np.empty_like(numbers)
    for place in range(len(numbers)):
        found[place] = quick_exp(numbers[place])
    return found


def test_it_is_as_close_as_its_floats():
    """A million numbers as far as they go, and close to 0."""
    many = np.linspace(LEAST, 0, 1_000_001), -np.logspace(-30, 1, 100_000)
    numbers = np.concatenate(many).astype(np.float32)
    exact = np.exp(numbers.astype(np.float64))
    assert (abs(_exps(numbers) - exact) <= 2**-23 * exact).all()


@pytest.mark.parametrize(
    ("number", "expected"), [(0, 1), (-0.0, 1), (-88, 0), (-1e30, 0), (-np.inf, 0)]
)
def test_ends(number, expected):
    assert _exps(np.array([number], np.float32))[0] == expected


def test_what_is_no_number_stays_none():
    """A broken model is not hidden: alone, and among so many that vectors compute them."""
    numbers = np.full(40, -1, np.float32)
    numbers[[0, 17]] = np.nan
    assert np.isnan(_exps(numbers)).nonzero()[0].tolist() == [0, 17]
    assert np.isnan(_exps(numbers[:1])).all()
