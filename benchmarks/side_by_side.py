"""How do two ways to the same end compare in time?  They take turns in one run, and are checked.

A busy machine slows both, so that the ratio of the medians says more than either time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .outputs import markdown


@dataclass(frozen=True)
class SideBySide:
    """One way to do it: how long it takes, beside another way or a goal."""

    what: str
    ms: float
    against: str | None = None
    against_ms: float | None = None
    extrapolated: bool = False
    """Is `against_ms` read off a fitted power law instead of a clock?"""
    goal_ms: float | None = None
    """`ms` should be below this."""
    goal_times: float | None = None
    """`ms` should be at most so many times `against_ms`."""

    @property
    def met(self) -> bool | None:
        """Is the goal met?  None: there is none."""
        if self.goal_ms is not None:
            return self.ms < self.goal_ms
        if self.goal_times is not None and self.against_ms is not None:
            return self.ms <= self.goal_times * self.against_ms
        return None

    @property
    def words(self) -> list[str]:
        against = its_time = ratio = goal = "–"
        if self.against is not None and self.against_ms is not None:
            against, its_time = self.against, duration(self.against_ms)
            ratio = comparison(self.against_ms / self.ms)
            if self.extrapolated:
                its_time, ratio = f"{its_time}, extrapolated", f"{ratio}, extrapolated"
        if self.goal_ms is not None:
            goal = f"< {duration(self.goal_ms)}"
        elif self.goal_times is not None:
            goal = f"≤ {self.goal_times:g} × that"
        met = {True: "met", False: "**missed**", None: "–"}[self.met]
        return [self.what, duration(self.ms), against, its_time, ratio, goal, met]


def table(rows: Sequence[SideBySide]) -> str:
    """All rows, in Markdown."""
    head = ("what", "time", "against", "its time", "ratio", "goal", "goal met")
    return markdown(head, [row.words for row in rows])


def medians_ms(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Median time of each call: all once for warming up, then all in turn, `rounds` times."""
    for call in calls:
        call()
    times = np.zeros((rounds, len(calls)))
    for each in times:
        for place, call in enumerate(calls):
            start = time.perf_counter()
            call()
            each[place] = 1e3 * (time.perf_counter() - start)
    return [float(median) for median in np.median(times, axis=0)]


def same(name: str, ours: np.ndarray, theirs: np.ndarray, tolerance: float) -> None:
    """End the run if the two differ by more than `tolerance`, or are -inf in different places."""
    if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=0, atol=tolerance):
        raise SystemExit(f"{name}: values differ, by more than {tolerance:g}")


def duration(ms: float) -> str:
    """Three significant digits, in the unit that suits."""
    if ms >= 1e3:
        return f"{ms / 1e3:.3g} s"
    return f"{ms:.3g} ms"


def comparison(times_as_fast: float) -> str:
    """Two significant digits of how much faster; of what is slower, how much longer it takes."""
    if times_as_fast < 1:
        return f"{1 / times_as_fast:.2f} × its time"
    return f"{float(f'{times_as_fast:.2g}'):,.10g} × as fast"


def progress(text: str) -> None:
    print(f"{text} ...", file=sys.stderr, flush=True)
