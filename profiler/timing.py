"""How repeated measurements become a curve: interleaved repetitions, medians, quartiles."""

from __future__ import annotations

import numpy as np

from planner.profile_times import Curve


def curve(counts: list[int], samples_ms: np.ndarray) -> Curve:
    """The curve of repeated times.

    counts      strictly increasing, [c]
    samples_ms  float64 [repeats, c], one row per interleaved repetition, NaN where not measured

    A median and quartiles per count: a few slow outliers (another process waking up) move neither.
    """
    low, median, high = np.nanpercentile(samples_ms, [25, 50, 75], axis=0)
    return Curve(
        counts=counts,
        median_ms=[round(float(ms), 6) for ms in median],
        low_ms=[round(float(ms), 6) for ms in low],
        high_ms=[round(float(ms), 6) for ms in high],
        repeats=len(samples_ms),
    )
