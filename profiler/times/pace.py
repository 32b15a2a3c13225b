"""How repeated measurements become a curve: interleaved repetitions, one pace, quartiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from planner.documents.times import Curve


def curve(counts: list[int], samples_ms: np.ndarray, repeats: int | None = None) -> Curve:
    """The curve of repeated times.

    counts      strictly increasing, [c]
    samples_ms  float64 [repetitions, c], one row per interleaved one, NaN where not measured
    repeats     independent ones of the count that was measured least often, if not one a row

    A median and quartiles per count: a few slow outliers (another process waking up) move neither.
    """
    low, median, high = np.nanpercentile(samples_ms, [25, 50, 75], axis=0)
    return Curve(
        counts=counts,
        median_ms=[round(float(ms), 6) for ms in median],
        low_ms=[round(float(ms), 6) for ms in low],
        high_ms=[round(float(ms), 6) for ms in high],
        repeats=repeats or len(samples_ms),
    )


def at_one_pace(
    sweeps: Sequence[Mapping[str, np.ndarray]], names: Sequence[str]
) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    """Each sweep's times of these names, as if all had been taken at the pace of the median sweep;
    and the sweeps' `paces`."""
    every = [np.concatenate([sweep[name].ravel() for name in names]) for sweep in sweeps]
    pace = paces(np.stack(every))
    paired = zip(sweeps, pace, strict=True)
    return [{name: sweep[name] / slow for name in names} for sweep, slow in paired], pace


def paces(sweeps_ms: np.ndarray) -> np.ndarray:
    """How many times as long as usual everything took, sweep by sweep: float64 [sweeps], median 1.

    sweeps_ms  float64 [sweeps, times]: the same times in each, NaN where not measured

    Who shares the machine slows all passes for seconds or minutes.  Where every second sweep is a
    slow one, a quantile of a time is of either kind by chance, and a tree looks cheap because its
    own quantile is of the fast kind; ratios of times of one sweep stay what they are.  So times are
    compared, on the logarithmic scale, with their own means, and a sweep's pace is the median of
    that: what disturbs single passes moves none.
    """
    measured = (sweeps_ms > 0).any(axis=0)
    logs = np.log(np.where(sweeps_ms > 0, sweeps_ms, np.nan)[:, measured])
    pace = np.exp(np.nanmedian(logs - np.nanmean(logs, axis=0), axis=1))
    return pace / np.median(pace)
