"""Other programs on this process's cores while something is measured."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np
import psutil

from .journal import Piece

BESIDE = "beside"
"""Of a piece: float64 [3], the fields of `Beside`."""
WORKING = ("user", "nice", "system", "irq", "softirq", "steal")
"""Kinds of time in which a core is not free, as the system counts them."""


class Beside(NamedTuple):
    """Time of a piece, and of others beside it."""

    seconds: float
    others: float
    """Cores that others held on average."""
    again: float = 0.0
    """1: taken twice, of which this is the less disturbed one."""


def watched(measure: Callable[[], Piece]) -> Piece:
    """The piece, and beside it how long it took and what others took meanwhile."""
    begin, (busy, own) = perf_counter(), core_seconds()
    piece = measure()
    seconds, (busy_then, own_then) = perf_counter() - begin, core_seconds()
    others = max(0.0, (busy_then - busy) - (own_then - own)) / seconds
    return piece | {BESIDE: np.array(Beside(seconds, others))}


def core_seconds() -> tuple[float, float]:
    """Seconds that the cores which this process may use have worked since the system began: for
    anybody, time stolen by a host included; and for this process and those that it started."""
    cores = psutil.cpu_times(percpu=True)
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(cores))
    busy = sum(
        getattr(core, kind, 0.0)
        for number, core in enumerate(cores)
        if number in allowed
        for kind in WORKING
    )
    me = psutil.Process()
    ended = me.cpu_times()
    own = getattr(ended, "children_user", 0.0) + getattr(ended, "children_system", 0.0)
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:  # it has just ended
            continue
        own += times.user + times.system
    return busy, own
