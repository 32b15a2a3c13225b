"""The lead of one over the best of others, the luck of the best left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import sem


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
    """The fraction by which it was faster than these on the other half."""
    error: float
    """Standard error."""


def lead(one: MeasuredSpeed, others: Sequence[MeasuredSpeed]) -> Lead:
    """The lead of `one` over the best of `others`.

    The fastest of many is in part the luckiest.  So it is picked on every second sample of each
    kind and compared on the rest, and the other way round; of one rival this is the plain ratio.
    What halves say is known to first order, by influences.
    """
    moved = [
        [mine - theirs for mine, theirs in zip(one.influences, each.influences, strict=True)]
        for each in others
    ]
    plain = np.log(one.speedup / np.array([each.speedup for each in others]))
    leads = np.array(
        [
            plain + [sum(kind[half::2].mean() * len(kind) for kind in kinds) for kinds in moved]
            for half in (0, 1)
        ]
    )
    rivals = leads.argmin(axis=1)
    gain = np.expm1((leads[0, rivals[1]] + leads[1, rivals[0]]) / 2)
    compared = [kind[half::2] for half in (0, 1) for kind in moved[rivals[1 - half]]]
    error = np.sqrt(sum(len(kind) ** 2 * sem(kind) ** 2 for kind in compared))
    return Lead((int(rivals[0]), int(rivals[1])), float(gain), float(error))
