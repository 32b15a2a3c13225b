"""The compiled decisions of `planner.policies.threshold`."""

from __future__ import annotations

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


@njit(cache=True)
def state_in(memory: Memory) -> tuple[Nodes, Heap, Heap, Requests]:
    """The tree so far, the slots of the level that is expanded and those below, the answer."""
    return nodes_in(memory), heap_in(memory, 0), heap_in(memory, 1), requests_in(memory)


@njit(cache=True)
def advanced(memory, told, threshold, max_depth):  # type: ignore[no-untyped-def]
    """Take in what was told, go on, and return how many requests there are; see `SlotPolicy`.

    memory  a plain tuple of `Memory`'s arrays
    told    (fresh, drawn, features)
    """
    fresh, drawn, _ = told
    nodes, level, below, requests = state_in(Memory(*memory))
    if fresh:
        start(nodes, level, below, max_depth)
    if len(drawn) > 0:
        if fresh:
            advance(nodes, level, below, requests, threshold, max_depth)
        fill_drawn(nodes, asked_for(nodes, requests), drawn)
    advance(nodes, level, below, requests, threshold, max_depth)
    return requests.count[0]


@uncounted
def start(nodes: Nodes, level: Heap, below: Heap, max_depth: int) -> None:
    """A lone root with its slot, if anything may be drafted below it."""
    fill_lone_root(nodes)
    level.size[0] = 0
    below.size[0] = 0
    if max_depth > 0:
        push(below, 1.0, 0)


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
