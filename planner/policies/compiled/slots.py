"""The places where a tree may grow next, by how often they are reached: the arrays of one step.

A *slot* is the next sibling below a node: it becomes a child once it is filled.  Its value is the
chance that decoding comes to it if every node accepted as its draft distribution says.  Filling
the slot of value v with a candidate of drawn probability D leaves two slots behind:

    below the new child, v D;    beside it, v (1 - D)        (DySpec, Algorithm 1)

A value is settled before the slot's candidate is looked at, which keeps the output the target's.
A slot is named by the node that it lies below: there is one a node, for the rank after the last.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compiling import compiled
from .memory import Memory
from .uncounted import uncounted


class Heap(NamedTuple):
    """Slots, the one of largest value first; among equals the one below the earlier node."""

    size: np.ndarray
    """int64 [1]"""
    values: np.ndarray
    """float64 [capacity]"""
    nodes: np.ndarray
    """int64 [capacity]"""
    room: np.ndarray
    """float64 [capacity]: for values in their order (`largest`)"""


class Nodes(NamedTuple):
    """The tree so far."""

    count: np.ndarray  # type: ignore[assignment]  # a tuple's own `count` is not needed
    """int64 [1]"""
    depths: np.ndarray
    """int64 [num_nodes]"""
    expanded: np.ndarray
    """bool [num_nodes]"""
    revealed: np.ndarray
    """int64 [num_nodes]: children"""
    drawn: np.ndarray
    """float64 [num_nodes, max_children]; only what is revealed may be read"""
    values: np.ndarray
    """float64 [num_nodes]: of the slot that each node filled; the root's is 1"""


class Requests(NamedTuple):
    """An answer under way."""

    count: np.ndarray  # type: ignore[assignment]  # a tuple's own `count` is not needed
    """int64 [1]"""
    nodes: np.ndarray
    """int64 [2 num_nodes]"""
    children: np.ndarray
    """int64 [2 num_nodes]"""


@compiled(inline="always")
def nodes_in(memory: Memory) -> Nodes:
    """Rows 0, 1, 2 of the whole numbers, 0 of the others."""
    num_nodes = len(memory.drawn)
    return Nodes(
        memory.wholes[0, :1],
        memory.wholes[1, :num_nodes],
        memory.flags[0, :num_nodes],
        memory.wholes[2, :num_nodes],
        memory.drawn,
        memory.reals[0, :num_nodes],
    )


@compiled(inline="always")
def requests_in(memory: Memory) -> Requests:
    """Rows 3, 4, 5 of the whole numbers: at most every node once for a child and once for a draft
    pass."""
    return Requests(memory.wholes[3, :1], memory.wholes[4], memory.wholes[5])


@compiled(inline="always")
def heap_in(memory: Memory, which: int) -> Heap:
    """The first (0): rows 6, 7 of the whole numbers, 1 and 6 of the others; the second: 8, 9, 2
    and 7."""
    place = 6 + 2 * which
    values, room = memory.reals[1 + which], memory.reals[6 + which]
    return Heap(memory.wholes[place, :1], values, memory.wholes[place + 1], room)


@compiled
def fill_drawn(nodes: Nodes, requests: Requests, drawn: np.ndarray) -> np.ndarray:
    """Write what a draft pass found, float64 [w, at least max_children].

    Returns int64 [w]: the nodes that `requests` wants expanded, in the order in which it names
    them.
    """
    places = np.empty(len(drawn), np.int64)
    num = 0
    for i in range(requests.count[0]):
        node = requests.nodes[i]
        if not nodes.expanded[node]:
            nodes.expanded[node] = True
            for rank in range(nodes.drawn.shape[1]):  # an assigned slice takes long to compile
                nodes.drawn[node, rank] = drawn[num, rank]
            places[num] = node
            num += 1
    return places


@uncounted
def fill_lone_root(nodes: Nodes) -> None:
    """Back to a lone root that is not expanded."""
    nodes.count[0] = 1
    nodes.values[0] = 1.0
    for node in range(len(nodes.expanded)):
        nodes.expanded[node] = False
        nodes.revealed[node] = 0


@uncounted
def push(heap: Heap, value: float, node: int) -> None:
    """Add a slot, unless it is never reached (or NaN)."""
    if not value > 0.0:
        return
    place = heap.size[0]
    heap.size[0] += 1
    while place > 0:
        above = (place - 1) // 2
        if not _before(value, node, heap.values[above], heap.nodes[above]):
            break
        heap.values[place] = heap.values[above]
        heap.nodes[place] = heap.nodes[above]
        place = above
    heap.values[place] = value
    heap.nodes[place] = node


@uncounted
def pop(heap: Heap) -> tuple[float, int]:
    """Take the first slot out of a heap that is not empty: (value, node)."""
    top_value, top_node = heap.values[0], heap.nodes[0]
    heap.size[0] -= 1
    size = heap.size[0]
    value, node = heap.values[size], heap.nodes[size]
    place = 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _before(
            heap.values[child + 1], heap.nodes[child + 1], heap.values[child], heap.nodes[child]
        ):
            child += 1
        if not _before(heap.values[child], heap.nodes[child], value, node):
            break
        heap.values[place] = heap.values[child]
        heap.nodes[place] = heap.nodes[child]
        place = child
    heap.values[place] = value
    heap.nodes[place] = node
    return top_value, top_node


@uncounted
def largest(heap: Heap, most: int) -> int:
    """Write the `most` largest values into the heap's room, falling; returns how many there are."""
    num, room = 0, heap.room
    for i in range(heap.size[0]):
        value = heap.values[i]
        if num < most:
            num += 1
        elif most == 0 or not value > room[num - 1]:
            continue
        place = num - 1
        while place > 0 and room[place - 1] < value:
            room[place] = room[place - 1]
            place -= 1
        room[place] = value
    return num


@uncounted
def _before(value: float, node: int, other_value: float, other_node: int) -> bool:
    return value > other_value or (value == other_value and node < other_node)


@uncounted
def ask(requests: Requests, node: int, children: int) -> None:
    """Add a request; a further child of the node asked for last joins that request."""
    last = requests.count[0] - 1
    if last >= 0 and requests.nodes[last] == node and requests.children[last] > 0:
        requests.children[last] += children
        return
    requests.nodes[last + 1] = node
    requests.children[last + 1] = children
    requests.count[0] += 1


@uncounted
def reveal(nodes: Nodes, node: int, value: float) -> int:
    """Fill the slot of `value` below `node`; returns the number of the child, whose drawn value may
    be read from now on."""
    child = nodes.count[0]
    nodes.count[0] += 1
    nodes.depths[child] = nodes.depths[node] + 1
    nodes.values[child] = value
    nodes.revealed[node] += 1
    return child
