"""Other programs on this process's cores while something is measured."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter, sleep
from typing import NamedTuple, TypeVar

import numpy as np
import psutil

from .journal import Piece

T = TypeVar("T")

BESIDE = "beside"
"""Of a piece: float64 [4], the fields of `Beside`."""
WORKING = ("user", "nice", "system", "irq", "softirq", "steal")
"""Kinds of time in which a core is not free, as the system counts them."""


class Beside(NamedTuple):
    """Time of a piece, and of others beside it."""

    seconds: float
    others: float
    """Cores that others held on average."""
    clock_mhz: float = 0.0
    """The cores' mean clock, before and after; 0 where the system does not tell."""
    again: float = 0.0
    """1: taken twice, of which this is the less disturbed one."""


def watched(measure: Callable[[], Piece]) -> Piece:
    """The piece, and beside it how long it took and what others took meanwhile."""
    piece, beside = _beside(measure)
    return piece | {BESIDE: np.array(beside)}


def free_cores(seconds: float = 0.5) -> float:
    """Cores of this process's that no other program holds, on average over the next so many
    seconds."""
    return len(_allowed()) - _beside(lambda: sleep(seconds))[1].others


def _beside(act: Callable[[], T]) -> tuple[T, Beside]:
    clock = _clock_mhz()
    begin, (busy, own) = perf_counter(), core_seconds()
    made = act()
    seconds, (busy_then, own_then) = perf_counter() - begin, core_seconds()
    others = max(0.0, (busy_then - busy) - (own_then - own)) / seconds
    return made, Beside(seconds, others, (clock + _clock_mhz()) / 2)


def _clock_mhz() -> float:
    try:
        found = psutil.cpu_freq()
    except (AttributeError, NotImplementedError, OSError):  # not everywhere
        return 0.0
    return float(found.current) if found else 0.0


def core_seconds() -> tuple[float, float]:
    """Seconds that the cores which this process may use have worked since the system began: for
    anybody, time stolen by a host included; and for this process and those that it started."""
    cores, allowed = psutil.cpu_times(percpu=True), _allowed()
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


def _allowed() -> set[int]:
    """Numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))
