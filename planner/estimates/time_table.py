"""Times with their errors, and tables of them by a count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..documents.document import PlannerError
from ..documents.estimate import Estimate
from ..documents.times import Curve
from .intervals import normal

_ERROR_PER_RANGE = 1.2533141 / (2 * 0.6744898)
"""sqrt(pi / 2), for the median of normal times, over the distance of a normal law's quartiles."""


class Time(NamedTuple):
    """Milliseconds and their standard error."""

    ms: float
    error_ms: float

    @property
    def estimate(self) -> Estimate:
        """The time with its 95 % interval."""
        return normal(self.ms, self.error_ms / self.ms)


@dataclass(frozen=True)
class TimeTable:
    """Times for every whole count between the smallest and the largest measured one."""

    what: str
    first: int
    """The smallest count."""
    ms: np.ndarray
    """float64 [num_counts]."""
    error_ms: np.ndarray
    """float64 [num_counts]: standard errors."""

    @property
    def last(self) -> int:
        """The largest count."""
        return self.first + len(self.ms) - 1

    def __call__(self, count: int) -> Time:
        """The time at one count.  Raises PlannerError outside what was measured."""
        self._check(count)
        place = count - self.first
        return Time(float(self.ms[place]), float(self.error_ms[place]))

    def at(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(ms, error_ms) of many counts, with the same errors."""
        for each in counts[(counts < self.first) | (counts > self.last)]:
            self._check(each)
        places = counts - self.first
        return self.ms[places], self.error_ms[places]

    def total(self, often: np.ndarray, *, smaller: bool = False) -> float:
        """Milliseconds of each count so often, float64 [k] from 0 on; inf with one that was not
        measured, smaller ones excepted if they take as long as the smallest."""
        inside, below = often[self.first : self.last + 1], float(often[: self.first].sum())
        if often[self.last + 1 :].any() or (below > 0 and not smaller):
            return np.inf
        return float(inside @ self.ms[: len(inside)]) + below * float(self.ms[0])

    def table(self, last: int) -> np.ndarray:
        """float64 [last + 1]: milliseconds by count, inf where nothing was measured."""
        full = np.full(max(last, self.last) + 1, np.inf)
        full[self.first : self.last + 1] = self.ms
        return full[: last + 1]

    def _check(self, count: int) -> None:
        if not self.first <= count <= self.last:
            raise PlannerError(
                f"{self.what}: got {count}, but the profile measured {self.first}..{self.last}; "
                "stay within, or profile over a wider range"
            )


def table_of(curve: Curve, what: str) -> TimeTable:
    """A measured curve as a table, linear between its counts.

    A median's error follows from the distance of the quartiles (`step_costs`).
    """
    counts = np.asarray(curve.counts)
    every = np.arange(counts[0], counts[-1] + 1)
    distance = np.asarray(curve.high_ms) - np.asarray(curve.low_ms)
    errors = distance * _ERROR_PER_RANGE / np.sqrt(curve.repeats)
    return TimeTable(
        what=what,
        first=int(counts[0]),
        ms=np.interp(every, counts, curve.median_ms),
        error_ms=np.interp(every, counts, errors),
    )


def between(one: TimeTable, two: TimeTable, weight: float) -> TimeTable:
    """(1 - weight) of one and weight of the other, where both were measured."""
    if weight == 0:
        return one
    first, last = max(one.first, two.first), min(one.last, two.last)
    if first > last:
        raise PlannerError(
            f"{one.what}: the two nearest contexts share no measured count "
            f"({one.first}..{one.last} and {two.first}..{two.last}); choose a measured context"
        )
    a, b = (
        slice(first - one.first, last - one.first + 1),
        slice(first - two.first, last - two.first + 1),
    )
    return TimeTable(
        what=one.what,
        first=first,
        ms=(1 - weight) * one.ms[a] + weight * two.ms[b],
        error_ms=(1 - weight) * one.error_ms[a] + weight * two.error_ms[b],
    )
