"""Level by level, every slot above a threshold (DySpec, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from ..drafting import ThresholdDrafting
from .base import Request
from .slots import (
    Heap,
    Nodes,
    Requests,
    ask,
    fill_drawn,
    fill_lone_root,
    new_heap,
    new_nodes,
    new_requests,
    pop,
    push,
    reveal,
)


class Threshold:
    """Fill every slot whose value exceeds the threshold; one draft pass a level.

    Up to `num_nodes` nodes: once there are so many no further slot is filled, and what is filled
    stays.  Within a level the slots of largest value come first, so that the limit cuts the least.
    Without the limit the tree is `Greedy`'s whose last slot is the last one above the threshold.
    """

    columns: tuple[str, ...] = ()

    def __init__(self, settings: ThresholdDrafting) -> None:
        self.num_nodes = settings.num_nodes
        self.max_children = settings.max_children
        self._threshold = settings.threshold
        self._limit = settings.max_depth
        self._max_depth = 0
        self._nodes = new_nodes(self.num_nodes, self.max_children)
        self._level = new_heap(self.num_nodes + 1)
        self._below = new_heap(self.num_nodes + 1)
        self._requests = new_requests(self.num_nodes)

    def start(self, max_depth: int) -> None:
        self._max_depth = min(self._limit, max_depth)
        start(self._nodes, self._level, self._below, self._max_depth)

    def grow(self) -> Sequence[Request]:
        advance(
            self._nodes,
            self._level,
            self._below,
            self._requests,
            self._threshold,
            self._max_depth,
        )
        return self._requests.listed()

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        fill_drawn(self._nodes, np.array(nodes, np.int64), drawn)

    @property
    def slot_values(self) -> np.ndarray:
        """float64 [nodes so far]: value of the slot that each filled; the root's is 1."""
        return self._nodes.values[: self._nodes.count[0]].copy()

    def verified(self, path: Sequence[int], step_ms: float) -> None:
        pass


@njit(cache=True)
def start(nodes: Nodes, level: Heap, below: Heap, max_depth: int) -> None:
    """A lone root with its slot, if anything may be drafted below it."""
    fill_lone_root(nodes)
    level.size[0] = 0
    below.size[0] = 0
    if max_depth > 0:
        push(below, 1.0, 0)


@njit(cache=True)
def advance(
    nodes: Nodes,
    level: Heap,
    below: Heap,
    requests: Requests,
    threshold: float,
    max_depth: int,
) -> None:
    """Fill the slots of the level that has been expanded, then ask for the next one's draft pass.

    level  slots below nodes of the level that has been expanded
    below  slots below their children
    """
    requests.count[0] = 0
    num_nodes = len(nodes.depths)
    while level.size[0] > 0 and nodes.count[0] < num_nodes:
        value, node = pop(level)
        ask(requests, node, 1)
        child = reveal(nodes, node, value)
        drawn = nodes.drawn[node, nodes.revealed[node] - 1]
        if nodes.depths[child] < max_depth and value * drawn > threshold:
            push(below, value * drawn, child)
        if nodes.revealed[node] < nodes.drawn.shape[1] and value * (1 - drawn) > threshold:
            push(level, value * (1 - drawn), node)
    # Every node that is expanded gets a child, so no more than there is room for.
    for _ in range(min(below.size[0], num_nodes - nodes.count[0])):
        value, node = pop(below)
        push(level, value, node)
        ask(requests, node, 0)
    below.size[0] = 0
