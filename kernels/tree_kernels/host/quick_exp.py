"""The exponential as vectors compute it: a library's is called for one number at a time."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

PER_HALVING, HIGH = np.float32(1 / math.log(2)), np.float32(355 / 512)
LOW = np.float32(math.log(2) - 355 / 512)
"""log 2 is HIGH + LOW, of which a whole number up to 2^15 times HIGH is exact."""
TERMS = tuple(np.float32(1 / math.factorial(order)) for order in range(7, -1, -1))
"""Factors of the series, the highest power's first: up to log(2) / 2 the next adds 5e-9."""
LEAST = np.float32(-87)
"""The exponential of this is a normal number still."""


@njit(cache=True)
def quick_exp(x: np.float32) -> np.float32:
    """exp(x) of x up to 0, within 2^-23 of it; 0 below `LEAST`; no number of none.

    x is -k log 2 + r with |r| up to log(2) / 2; 2^-k is written as its bits.
    """
    bounded = LEAST if x < LEAST else x
    power = np.floor(bounded * PER_HALVING + np.float32(0.5))
    rest = bounded - power * HIGH - power * LOW
    total = np.float32(0)
    for term in TERMS:
        total = total * rest + term
    bits = (np.int32(power) + np.int32(127)) << np.int32(23)
    return np.float32(0) if x < LEAST else total * np.int32(bits).view(np.float32)
