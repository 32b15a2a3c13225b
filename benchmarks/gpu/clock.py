"""How long does a call take?  On a GPU inside a CUDA graph, over several copies of its inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np
import torch

from .results import Row

GRAPH_US = 400.0
"""A graph is made at least so long by repeating the calls: starting it costs some, too."""
TOTAL_MS = 30.0
"""Replays go on for about so long."""


@dataclass(frozen=True)
class Timing:
    """Microseconds of one call: median and quartiles over replays."""

    median_us: float
    low_us: float
    high_us: float

    @property
    def row(self) -> Row:
        return {name: round(value, 3) for name, value in asdict(self).items()}


def timed(calls: Sequence[Callable[[], object]], device: torch.device) -> Timing:
    """The time of one of `calls`, which do the same on different copies of their inputs.

    A GPU's second-level cache holds a layer's keys and values: calls in turn over many copies find
    them in memory, as a model's layers do.  Raises whatever a call raises, capture included.
    """
    if device.type != "cuda":
        return _timed_by_the_clock(calls)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # compiles, and makes what is made once for a copy
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    once = _replayed(_captured(list(calls)), 3).min() / len(calls)
    repeats = max(1, int(np.ceil(GRAPH_US / (once * len(calls)))))
    graph = _captured(list(calls) * repeats)
    num_calls = repeats * len(calls)
    replays = int(np.clip(1e3 * TOTAL_MS / (once * num_calls), 5, 100))
    return _summary(_replayed(graph, replays) / num_calls)


def _captured(calls: list[Callable[[], object]]) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    # A capture that fails would leave its own stream behind as the current one.
    with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def _replayed(graph: torch.cuda.CUDAGraph, replays: int) -> np.ndarray:
    """float64 [replays]: microseconds of each, one right behind the other: a device that waits for
    the host between them would seem to take longer."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(replays + 1)]
    graph.replay()
    for event in events:
        event.record()
        if event is not events[-1]:
            graph.replay()
    events[-1].synchronize()
    return np.array([1e3 * start.elapsed_time(end) for start, end in pairwise(events)])


def _timed_by_the_clock(calls: Sequence[Callable[[], object]]) -> Timing:
    times = []
    for call in (calls[0], *calls):  # the first one warms up
        start = time.perf_counter()
        call()
        times.append(1e6 * (time.perf_counter() - start))
    return _summary(np.array(times[1:]))


def _summary(times: np.ndarray) -> Timing:
    low, median, high = np.percentile(times, [25, 50, 75]).tolist()
    return Timing(median, low, high)
