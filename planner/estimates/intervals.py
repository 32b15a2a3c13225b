"""Arithmetic of numbers with intervals."""

from __future__ import annotations

import numpy as np

from ..documents.estimate import Estimate


def around(value: float, low: float, high: float) -> Estimate:
    """An estimate whose interval may have missed its own middle."""
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def product(*factors: Estimate) -> Estimate:
    """The product of positive, independent numbers.

    Errors are added in squares on the logarithmic scale.
    """
    value = float(np.prod([factor.value for factor in factors]))
    below = np.sqrt(sum(np.log(factor.value / factor.low) ** 2 for factor in factors))
    above = np.sqrt(sum(np.log(factor.high / factor.value) ** 2 for factor in factors))
    return Estimate(
        value=value, low=value * float(np.exp(-below)), high=value * float(np.exp(above))
    )


def inverse(number: Estimate) -> Estimate:
    """One over it."""
    return Estimate(value=1 / number.value, low=1 / number.high, high=1 / number.low)


def relative(number: Estimate) -> Estimate:
    """Its interval around 1."""
    return Estimate(value=1.0, low=number.low / number.value, high=number.high / number.value)
