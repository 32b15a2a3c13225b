"""Other programs on this process's cores while something is measured."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter, sleep
from typing import NamedTuple, TypeVar

import numpy as np
import psutil

from runtime.cores import allowed_cores, busy_seconds
from runtime.processes import num_launched

from .journal import Piece

T = TypeVar("T")

BESIDE = "beside"
"""A piece's array, float64 [4]: the fields of `Beside`."""


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


def others_held(seconds: float) -> float:
    """Cores of this process's that others hold, on average over the next so many seconds."""
    return _beside(lambda: sleep(seconds))[1].others


def free_cores(seconds: float = 0.5) -> float:
    """Cores of this process's that no other program holds, on average likewise."""
    return len(allowed_cores()) - others_held(seconds)


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
    """`busy_seconds`, and those of this process and of others that it or torchrun has started."""
    busy, me = busy_seconds(), psutil.Process()
    first = me.parent() if num_launched() > 1 else me
    assert first is not None
    ended = me.cpu_times()
    own = getattr(ended, "children_user", 0.0) + getattr(ended, "children_system", 0.0)
    for process in (first, *first.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:  # it has just ended
            continue
        own += times.user + times.system
    return busy, own
