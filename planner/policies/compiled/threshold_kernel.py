"""Fill every slot whose value exceeds the threshold; one draft pass a level.

Once there are `num_nodes` nodes no further slot is filled, and what is filled stays.  Within a
level the slots of largest value come first, so that the limit cuts the least.  Without the limit
the tree is that of `greedy_kernel` whose last slot is the last one above the threshold.
"""

from __future__ import annotations

from ...compiling import compiled
from . import slots
from .memory import Memory
from .slots import Heap, Nodes, Requests
from .uncounted import uncounted


@compiled(inline="always")
def state_in(memory: Memory) -> tuple[Nodes, Heap, Heap, Requests]:
    """The tree so far, the slots of the level that is expanded, those below it, the answer."""
    level, below = slots.heap_in(memory, 0), slots.heap_in(memory, 1)
    return slots.nodes_in(memory), level, below, slots.requests_in(memory)


@compiled
def advanced(memory, told, threshold, max_depth):  # type: ignore[no-untyped-def]
    """Take in what was told, go on, and return how many requests there are; see `SlotPolicy`."""
    fresh, drawn, _ = told
    nodes, level, below, requests = state_in(Memory(*memory))
    if fresh:
        start(nodes, level, below, max_depth)
    if len(drawn) > 0:
        if fresh:
            advance(nodes, level, below, requests, threshold, max_depth)
        slots.fill_drawn(nodes, requests, drawn)
    advance(nodes, level, below, requests, threshold, max_depth)
    return requests.count[0]


@uncounted
def start(nodes: Nodes, level: Heap, below: Heap, max_depth: int) -> None:
    """A lone root with its slot, if anything may be drafted below it."""
    slots.fill_lone_root(nodes)
    level.size[0] = 0
    below.size[0] = 0
    if max_depth > 0:
        slots.push(below, 1.0, 0)


@uncounted
def advance(
    nodes: Nodes, level: Heap, below: Heap, requests: Requests, threshold: float, max_depth: int
) -> None:
    """Fill the slots of the level that has been expanded, then ask for the next one's draft pass.

    level  slots below nodes of the level that has been expanded
    below  slots below their children
    """
    requests.count[0] = 0
    num_nodes = len(nodes.depths)
    while level.size[0] > 0 and nodes.count[0] < num_nodes:
        value, node = slots.pop(level)
        slots.ask(requests, node, 1)
        child = slots.reveal(nodes, node, value)
        drawn = nodes.drawn[node, nodes.revealed[node] - 1]
        if nodes.depths[child] < max_depth and value * drawn > threshold:
            slots.push(below, value * drawn, child)
        if nodes.revealed[node] < nodes.drawn.shape[1] and value * (1 - drawn) > threshold:
            slots.push(level, value * (1 - drawn), node)
    # Every node that is expanded gets a child, so no more than there is room for.
    for _ in range(min(below.size[0], num_nodes - nodes.count[0])):
        value, node = slots.pop(below)
        slots.push(level, value, node)
        slots.ask(requests, node, 0)
    below.size[0] = 0
