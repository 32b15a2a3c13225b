"""A number and how far it may be off."""

from __future__ import annotations

from math import erfc, exp, pi, sqrt
from typing import Self

from pydantic import model_validator

from .document import Part


class Estimate(Part):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"low <= value <= high, not {self.low}, {self.value}, {self.high}")
        return self

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def hope(mean: float, spread: float) -> float:
    """E max(0, x) of a normal x of this mean and standard deviation."""
    if spread <= 0:
        return max(mean, 0.0)
    z = mean / spread
    return spread * exp(-z * z / 2) / sqrt(2 * pi) + mean * erfc(-z / sqrt(2)) / 2
