"""Fill the slot of largest value again and again, until the tree has `num_nodes` nodes.

The draft is evaluated lazily and in batches: when the next slot lies below a node that is not
expanded, others are expanded in the same pass.
"""

from __future__ import annotations

import numpy as np

from ...compiling import compiled
from . import slots
from .memory import Memory
from .slots import Heap, Nodes, Requests
from .uncounted import uncounted

NO_NODE = -1


@compiled(inline="always")
def state_in(memory: Memory) -> tuple[Nodes, Heap, np.ndarray, Requests]:
    """The tree so far, its slots, int64 [1] the node that waits to be expanded with a child below
    it (`NO_NODE`: none), the answer."""
    waiting = memory.wholes[10, :1]
    return slots.nodes_in(memory), slots.heap_in(memory, 0), waiting, slots.requests_in(memory)


@compiled
def advanced(memory, told, max_depth):  # type: ignore[no-untyped-def]
    """Take in what was told, go on, and return how many requests there are; see `SlotPolicy`."""
    fresh, drawn, _ = told
    nodes, heap, waiting, requests = state_in(Memory(*memory))
    if fresh:
        start(nodes, heap, waiting, max_depth)
    if len(drawn) > 0:
        if fresh:
            advance(nodes, heap, waiting, requests, max_depth)
        slots.fill_drawn(nodes, requests, drawn)
    advance(nodes, heap, waiting, requests, max_depth)
    return requests.count[0]


@uncounted
def start(nodes: Nodes, heap: Heap, waiting: np.ndarray, max_depth: int) -> None:
    """A lone root with its slot, if anything may be drafted below it."""
    slots.fill_lone_root(nodes)
    heap.size[0] = 0
    waiting[0] = NO_NODE
    if max_depth > 0:
        slots.push(heap, 1.0, 0)


@uncounted
def advance(
    nodes: Nodes, heap: Heap, waiting: np.ndarray, requests: Requests, max_depth: int
) -> None:
    """Fill slots until a draft pass is needed; writes `requests`, none of them at the end."""
    requests.count[0] = 0
    if waiting[0] != NO_NODE:
        _push_both(nodes, heap, waiting[0], max_depth)
        waiting[0] = NO_NODE
    while heap.size[0] > 0 and nodes.count[0] < len(nodes.depths):
        value, node = slots.pop(heap)
        slots.ask(requests, node, 1)
        slots.reveal(nodes, node, value)
        if not nodes.expanded[node]:
            waiting[0] = node
            if nodes.count[0] < len(nodes.depths):
                _ask_others(nodes, heap, value, requests)
            return
        _push_both(nodes, heap, node, max_depth)


@uncounted
def _push_both(nodes: Nodes, heap: Heap, node: int, max_depth: int) -> None:
    """The slots below and beside the child revealed last, which lies below `node`."""
    child = nodes.count[0] - 1
    value, drawn = nodes.values[child], nodes.drawn[node, nodes.revealed[node] - 1]
    if nodes.depths[child] < max_depth:
        slots.push(heap, value * drawn, child)
    if nodes.revealed[node] < nodes.drawn.shape[1]:
        slots.push(heap, value * (1 - drawn), node)


@uncounted
def _ask_others(nodes: Nodes, heap: Heap, value: float, requests: Requests) -> None:
    """Expand with the node whose slot of `value` was filled last what may well be filled later.

    Those whose slots can still be filled, being among the m largest where m nodes are left, and are
    likely to be.  As filling a slot hands its whole value on, h slots of total value S become h + m
    slots of that total, none of which exceeds the last one filled: below S / (h + m) nothing is
    filled, but for value that is lost at the limits of depth and children.  Which nodes share a
    pass changes no tree: evaluating a node fills no slot.
    """
    size, left = heap.size[0], len(nodes.depths) - nodes.count[0]
    total = value
    for place in range(size):
        total += heap.values[place]
    least = total / (size + 1 + left)
    if size > left:
        least = max(least, heap.room[slots.largest(heap, left) - 1])
    for place in range(size):
        node = heap.nodes[place]
        if heap.values[place] >= least and not nodes.expanded[node]:
            slots.ask(requests, node, 0)
