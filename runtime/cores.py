"""How many cores do other programs leave to this process?"""

from __future__ import annotations

import math
import os
from time import perf_counter, process_time

import psutil

WORKING = ("user", "nice", "system", "irq", "softirq", "steal")
"""Kinds of time in which a core is not free, as the system counts them."""
EVERY, SHARE = 0.5, 0.001
"""Seconds between two looks, and the share of time that looking may take."""
PAUSE = 0.05
"""Seconds between two passes after which it was something else's turn: another program's, say, or
another engine's in this process."""


def allowed_cores() -> set[int]:
    """Numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def busy_seconds() -> float:
    """Seconds that the cores which this process may use have worked since the system began: for
    anybody, time stolen by a host included."""
    allowed = allowed_cores()
    return math.fsum(
        getattr(core, kind, 0.0)
        for number, core in enumerate(psutil.cpu_times(percpu=True))
        if number in allowed
        for kind in WORKING
    )


class FreeCores:
    """The cores that no other program held lately, looked at while something else is done."""

    def __init__(self) -> None:
        self._free = float(len(allowed_cores()))
        self._seen, self._next = (0.0, 0.0, 0.0), 0.0
        self._left = -math.inf  # so that the first pass looks, and no import does

    def now(self) -> float:
        """The mean between the last two looks with no pause between them; all cores, before there
        are two such.  To be asked before every pass of every model, a prompt's too."""
        now = perf_counter()
        if now - self._left > PAUSE:
            self._seen, self._next = self._look(), now + EVERY
        elif now >= self._next:
            before, self._seen = self._seen, self._look()
            seconds, busy, own = (new - old for new, old in zip(self._seen, before, strict=True))
            if now < self._next + EVERY:
                self._free = len(allowed_cores()) - max(0.0, busy - own) / seconds
            self._next = now + max(EVERY, (perf_counter() - now) / SHARE)
        return self._free

    def too_few(self, threads: int) -> bool:
        """Did others hold cores, when they were last looked at, so that some of so many threads
        would have waited for one, and the rest for them?"""
        return max(1, round(self._free)) < threads

    def done(self) -> None:
        """Tell that the pass is over."""
        self._left = perf_counter()

    @staticmethod
    def _look() -> tuple[float, float, float]:
        """Now, and what the cores and this process have worked until now, in seconds."""
        return perf_counter(), busy_seconds(), process_time()


CORES = FreeCores()
"""The cores as this process sees them."""
