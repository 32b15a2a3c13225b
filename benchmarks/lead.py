"""The lead of one over the best of others, the luck of the best left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class MeasuredSpeed:
    """A speedup, and by how much each sample moves its logarithm.

    influences  float64 [samples] each, of sum 0: of texts, of times, ...; these are independent,
                and their samples the same for all that are compared
    """

    speedup: float
    influences: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Lead:
    """How much faster one is than the best of some others."""

    rivals: tuple[int, int]
    """The best on either half of the samples."""
    gain: float
    """By which fraction it was faster than these on the other half."""
    error: float
    """Standard error."""


def lead(one: MeasuredSpeed, others: Sequence[MeasuredSpeed]) -> Lead:
    """The lead of `one` over the best of `others`.

    The fastest of many is in part the luckiest.  So it is picked on every second sample of each
    kind and compared on the rest, and the other way round; of one rival this is the plain ratio.
    What halves say is known to first order, by influences.
    """
    leads = np.array([[_lead_on(half, one, each) for each in others] for half in (0, 1)])
    rivals = leads.argmin(axis=1)
    gain = np.expm1((leads[0, rivals[1]] + leads[1, rivals[0]]) / 2)
    variance = sum(
        _variance(_difference(one, others[rivals[1 - half]], kind)[half::2])
        for half in (0, 1)
        for kind in range(len(one.influences))
    )
    return Lead((int(rivals[0]), int(rivals[1])), float(gain), float(np.sqrt(variance)))


def _lead_on(half: int, one: MeasuredSpeed, other: MeasuredSpeed) -> float:
    """ln of the ratio of speedups on one half of the samples."""
    found = float(np.log(one.speedup / other.speedup))
    for kind in range(len(one.influences)):
        moved = _difference(one, other, kind)
        found += float(moved[half::2].mean() * len(moved))
    return found


def _difference(one: MeasuredSpeed, other: MeasuredSpeed, kind: int) -> np.ndarray:
    return one.influences[kind] - other.influences[kind]


def _variance(moved: np.ndarray) -> float:
    """Of the sum of what independent samples move."""
    return float(((moved - moved.mean()) ** 2).sum() * len(moved) / (len(moved) - 1))
