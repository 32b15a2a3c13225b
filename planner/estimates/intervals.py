"""Arithmetic of numbers with intervals."""

from __future__ import annotations

import numpy as np

from ..documents.estimate import Estimate

_WIDEST = 100.0
"""The most of an interval's half-width on the logarithmic scale: what is wider says nothing either,
and its bounds would leave what a float can hold."""


def around(value: float, low: float, high: float) -> Estimate:
    """An estimate whose interval may have missed its own middle."""
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def normal(value: float, error: float) -> Estimate:
    """A positive number whose logarithm is normal, with the standard deviation `error`."""
    factor = float(np.exp(min(1.96 * error, _WIDEST)))
    return Estimate(value=value, low=value / factor, high=value * factor)


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


def at_least(least: float, number: Estimate) -> Estimate:
    """The number, which cannot be less."""
    value, low, high = (max(each, least) for each in (number.value, number.low, number.high))
    return Estimate(value=value, low=low, high=high)
