"""The compiled decisions of `planner.policies.greedy`."""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import Memory
from .slots import (
    Heap,
    Nodes,
    Requests,
    ask,
    asked_for,
    fill_drawn,
    fill_lone_root,
    heap_in,
    nodes_in,
    pop,
    push,
    requests_in,
    reveal,
)
from .uncounted import uncounted

NO_NODE = -1


@njit(cache=True)
def state_in(memory: Memory) -> tuple[Nodes, Heap, tuple[np.ndarray, np.ndarray], Requests]:
    """The tree so far, its slots, the child that waits for its parent (`start`), the answer."""
    waiting = memory.wholes[10, :1], memory.reals[3, :1]
    return nodes_in(memory), heap_in(memory, 0), waiting, requests_in(memory)


@njit(cache=True)
def advanced(memory, told, max_depth):  # type: ignore[no-untyped-def]
    """Take in what was told, go on, and return how many requests there are; see `SlotPolicy`.

    memory  a plain tuple of `Memory`'s arrays
    told    (fresh, drawn, features)
    """
    fresh, drawn, _ = told
    nodes, heap, waiting, requests = state_in(Memory(*memory))
    if fresh:
        start(nodes, heap, waiting, max_depth)
    if len(drawn) > 0:
        if fresh:
            advance(nodes, heap, waiting, requests, max_depth)
        fill_drawn(nodes, asked_for(nodes, requests), drawn)
    advance(nodes, heap, waiting, requests, max_depth)
    return requests.count[0]


@uncounted
def start(nodes: Nodes, heap: Heap, waiting: tuple[np.ndarray, np.ndarray], max_depth: int) -> None:
    """A lone root with its slot, if anything may be drafted below it.

    waiting  int64 [1], float64 [1]: the child whose own probability is not known yet because its
             parent is being expanded (`NO_NODE`: none), and the value of the slot that it filled
    """
    fill_lone_root(nodes)
    heap.size[0] = 0
    waiting[0][0] = NO_NODE
    if max_depth > 0:
        push(heap, 1.0, 0)


@njit(cache=True)
def advance(
    nodes: Nodes,
    heap: Heap,
    waiting: tuple[np.ndarray, np.ndarray],
    requests: Requests,
    max_depth: int,
) -> None:
    """Fill slots until a draft pass is needed; writes `requests`, none of them at the end."""
    requests.count[0] = 0
    if waiting[0][0] != NO_NODE:
        parent = waiting[0][0]
        waiting[0][0] = NO_NODE
        # The child of an unexpanded node was the last one revealed.
        _push_both(nodes, heap, waiting[1][0], parent, nodes.count[0] - 1, max_depth)
    while heap.size[0] > 0 and nodes.count[0] < len(nodes.depths):
        value, node = pop(heap)
        ask(requests, node, 1)
        child = reveal(nodes, node, value)
        if not nodes.expanded[node]:
            waiting[0][0], waiting[1][0] = node, value
            if nodes.count[0] < len(nodes.depths):
                _ask_others(nodes, heap, value, requests)
            return
        _push_both(nodes, heap, value, node, child, max_depth)


@uncounted
def _push_both(
    nodes: Nodes, heap: Heap, value: float, node: int, child: int, max_depth: int
) -> None:
    """The slots below and beside `child`, the latest below `node`, which filled one of `value`."""
    drawn = nodes.drawn[node, nodes.revealed[node] - 1]
    if nodes.depths[child] < max_depth:
        push(heap, value * drawn, child)
    if nodes.revealed[node] < nodes.drawn.shape[1]:
        push(heap, value * (1 - drawn), node)


@njit(cache=True)
def _ask_others(nodes: Nodes, heap: Heap, value: float, requests: Requests) -> None:
    """Expand with the node whose slot of `value` was filled last what may well be filled later."""
    size, left = heap.size[0], len(nodes.depths) - nodes.count[0]
    values = heap.values[:size]
    least = (values.sum() + value) / (size + 1 + left)
    if size > left:
        least = max(least, np.partition(values, size - left)[size - left])
    for place in range(size):
        node = heap.nodes[place]
        if heap.values[place] >= least and not nodes.expanded[node]:
            ask(requests, node, 0)
