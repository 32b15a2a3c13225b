"""The compiled decisions of `planner.policies.price`, whose docstring says what they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compiling import compiled
from ..policy import COLLISION
from . import slots
from .memory import Memory
from .price_tables import Tables
from .slots import Heap, Nodes, Requests
from .uncounted import uncounted


class Growth(NamedTuple):
    """The tree so far, with what its slots are worth."""

    nodes: Nodes
    """Their values are P(the node is accepted)."""
    tried: np.ndarray
    """float64 [num_nodes]: P(the slot below the node is tried)"""
    left: np.ndarray
    """float64 [num_nodes]: mass of q without the revealed children"""
    squares: np.ndarray
    """float64 [num_nodes]: sum of squares of it"""
    heap: Heap
    """Slots below expanded nodes, by the chance that their candidate is accepted"""
    done: np.ndarray
    """bool [1]: has all been asked for?"""


@compiled(inline="always")
def growth_in(memory: Memory) -> Growth:
    """The tree so far, with rows 3 to 5 of the real numbers and the second of the flags."""
    tried, left, squares = memory.reals[3], memory.reals[4], memory.reals[5]
    done = memory.flags[1, :1]
    return Growth(slots.nodes_in(memory), tried, left, squares, slots.heap_in(memory, 0), done)


@compiled
def advanced(memory, told, tables, price, max_depth):  # type: ignore[no-untyped-def]
    """Take in what was told, go on, and return how many requests there are; see `SlotPolicy`.

    tables  a plain tuple of `Tables`' fields
    """
    fresh, drawn, features = told
    tables = Tables(*tables)
    whole = Memory(*memory)
    growth, requests = growth_in(whole), slots.requests_in(whole)
    if fresh:
        start(growth)
    if len(drawn) > 0:
        if fresh:
            advance(growth, tables, requests, price, max_depth)
        places = slots.fill_drawn(growth.nodes, requests, drawn)
        for i in range(len(places)):
            expand(growth, tables, places[i], features[i, COLLISION])
    advance(growth, tables, requests, price, max_depth)
    return requests.count[0]


@uncounted
def start(growth: Growth) -> None:
    """Back to a lone root, reached for certain."""
    slots.fill_lone_root(growth.nodes)
    growth.heap.size[0] = 0
    growth.done[0] = False


@uncounted
def expand(growth: Growth, tables: Tables, node: int, collision: float) -> None:
    """A node's first slot, `nodes.drawn` having been written."""
    growth.tried[node] = growth.nodes.values[node]
    growth.left[node] = 1.0
    growth.squares[node] = collision
    _push_slot(growth, tables, node)


@uncounted
def advance(
    growth: Growth, tables: Tables, requests: Requests, price: float, max_depth: int
) -> None:
    """Fill what is worth it, then ask for the next draft pass; without one, for the last leaves."""
    requests.count[0] = 0
    if growth.done[0]:
        return
    nodes, heap = growth.nodes, growth.heap
    while heap.size[0] > 0 and heap.values[0] >= tables.node_price:
        if nodes.count[0] == len(nodes.depths):
            break
        _fill_slot(growth, tables, requests)
    if nodes.count[0] < len(nodes.depths) and _ask_pass(growth, tables, requests, price, max_depth):
        return
    while True:
        wanted = _worth_verifying(growth, tables, price)
        if wanted == 0:
            break
        for _ in range(wanted):
            _fill_slot(growth, tables, requests)
    growth.done[0] = True


@uncounted
def _fill_slot(growth: Growth, tables: Tables, requests: Requests) -> None:
    """Fill the likeliest slot and split its chance."""
    nodes = growth.nodes
    _, node = slots.pop(growth.heap)
    slots.ask(requests, node, 1)
    rank = nodes.revealed[node]
    drawn = nodes.drawn[node, rank]
    accepted = _looked_up(tables.knots, tables.after, rank, drawn)
    slots.reveal(nodes, node, growth.tried[node] * accepted)
    growth.tried[node] *= 1.0 - accepted
    growth.squares[node] -= (drawn * growth.left[node]) ** 2
    growth.left[node] *= 1.0 - drawn
    _push_slot(growth, tables, node)


@uncounted
def _push_slot(growth: Growth, tables: Tables, node: int) -> None:
    """The slot for the next child of an expanded node, by P(the candidate is accepted)."""
    rank = growth.nodes.revealed[node]
    if rank == growth.nodes.drawn.shape[1]:
        return
    if tables.known:
        accepted = _looked_up(tables.knots, tables.after, rank, growth.nodes.drawn[node, rank])
    else:
        left = growth.left[node]
        collision = growth.squares[node] / (left * left) if left > 1e-6 else 0.0
        accepted = _looked_up(tables.knots, tables.before, rank, min(max(collision, 0.0), 1.0))
    slots.push(growth.heap, growth.tried[node] * accepted, node)


@uncounted
def _ask_pass(
    growth: Growth, tables: Tables, requests: Requests, price: float, max_depth: int
) -> bool:
    """Ask for the draft pass that gains most, if any gains anything."""
    nodes, reach = growth.nodes, growth.nodes.values
    first = requests.count[0]  # candidates are sorted where their requests will stand
    num = 0
    for node in range(nodes.count[0]):
        if nodes.expanded[node] or nodes.depths[node] >= max_depth:
            continue
        place = first + num
        while place > first and _likelier(reach[node], reach[requests.nodes[place - 1]]):
            requests.nodes[place] = requests.nodes[place - 1]
            place -= 1
        requests.nodes[place] = node
        num += 1
    best, best_gain, gain = 0, 0.0, 0.0
    for i in range(min(num, len(tables.draft_ms) - 1)):
        node = requests.nodes[first + i]
        gain += _worth_expanding(tables, reach[node], node == 0)
        cost = tables.draft_root_ms if node == 0 else tables.draft_ms[i + 1]
        if gain - price * cost > best_gain:
            best, best_gain = i + 1, gain - price * cost
    for i in range(best):
        requests.children[first + i] = 0
    requests.count[0] += best
    return best > 0


@uncounted
def _likelier(one: float, other: float) -> bool:
    """Is `one` more?  A chance that is not known (NaN) is the least."""
    return one > other or (one == one and other != other)


@uncounted
def _worth_expanding(tables: Tables, reach: float, is_root: bool) -> float:
    worth = 0.0
    row = 0 if is_root else 1
    for rank in range(tables.ahead.shape[1]):
        worth += max(reach * tables.ahead[row, rank] - tables.node_price, 0.0)
    return tables.lookahead * worth


@uncounted
def _worth_verifying(growth: Growth, tables: Tables, price: float) -> int:
    """How many of the likeliest slots to fill, with what is known now."""
    count = growth.nodes.count[0]
    best, best_gain, gain = 0, 0.0, 0.0
    for i in range(slots.largest(growth.heap, len(tables.verify_ms) - 1 - count)):
        gain += growth.heap.room[i]
        cost = price * (tables.verify_ms[count + i + 1] - tables.verify_ms[count])
        if gain - cost > best_gain:
            best, best_gain = i + 1, gain - cost
    return best


@uncounted
def _looked_up(knots: np.ndarray, table: np.ndarray, rank: int, value: float) -> float:
    """table[rank] at `value`, linear between knots; the last row serves all later ranks."""
    row = min(rank, len(table) - 1)
    if not value > knots[0]:
        return float(table[row, 0]) if value <= knots[0] else np.nan
    for i in range(1, len(knots)):
        if value <= knots[i]:
            share = (value - knots[i - 1]) / (knots[i] - knots[i - 1])
            return float(table[row, i - 1] + share * (table[row, i] - table[row, i - 1]))
    return float(table[row, len(knots) - 1])
