"""Orders of a tree's nodes, and how many blocks of its mask there are to read in each.

A kernel reads the tree's keys in blocks of 32 and skips a block of the mask, 32 queries by 32 keys,
in which no query sees a key.  A node sees its ancestors, so blocks are few where nodes stand close
to theirs: where subtrees are contiguous.  In such an order the path that is accepted, too, often
stands at the front already, and keeping it moves nothing.  (DySpec, appendix C.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

try:
    from numba import njit
except ImportError:  # not there, or not for this numpy: the same functions as plain Python

    def njit(**settings):  # type: ignore[no-untyped-def]
        return lambda function: function


ORDERS = ("creation", "breadth-first", "depth-first", "heavy-path")
"""creation       as the nodes are numbered
breadth-first  level by level, children behind those of their parent's earlier neighbours
depth-first    every subtree contiguous, children as they are numbered
heavy-path     depth-first, the child of the largest subtree first (of equals the first)"""

BLOCK = 32
"""Queries and keys of a block of the mask, and bits of a word."""


@dataclass(frozen=True)
class Ordered:
    """A tree renumbered: a node's new number is its place.  All int32 [n].

    nodes    the node that stands at each place
    places   the place of each node
    parents  the place of the parent of the node at each place; the root's is -1
    """

    nodes: np.ndarray
    places: np.ndarray
    parents: np.ndarray


def reorder(parents: np.ndarray, order: str = "heavy-path") -> Ordered:
    """The tree with its nodes in another order, parents before their children.

    parents  integers [n]  parents[0] == -1, 0 <= parents[i] < i: parents before their children
    order    one of `ORDERS`

    Takes time O(n).  Raises ValueError for what is no such tree or order.
    """
    tree = _checked(parents)
    if order not in ORDERS:
        raise ValueError(f"order: got {order!r}, expected one of {', '.join(ORDERS)}")
    if order == "creation":
        identity = np.arange(len(tree), dtype=np.int32)
        return Ordered(identity, identity, tree)
    if order == "breadth-first":
        return Ordered(*_breadth_first(tree))
    return Ordered(*_depth_first(tree, order == "heavy-path"))


def pack_ancestors(parents: np.ndarray) -> np.ndarray:
    """Who sees whom: every node its ancestors and itself.

    parents  as for `reorder`

    Returns int32 [n, ceil(n / 32)]: bit j % 32 of word j // 32 of row i: node i sees node j.
    """
    return _packed(_checked(parents))


def _checked(parents: np.ndarray) -> np.ndarray:
    tree = np.ascontiguousarray(parents, dtype=np.int32)
    if tree.ndim != 1 or not _is_tree(tree):
        raise ValueError(
            f"parents: got {parents!r:.80}, expected integers [n] with -1 for the root at the "
            "front and every parent before its children"
        )
    return tree


@njit(cache=True)
def _is_tree(parents: np.ndarray) -> bool:
    if len(parents) == 0 or parents[0] != -1:
        return False
    fits = True
    for node in range(1, len(parents)):
        fits &= 0 <= parents[node] < node
    return fits


@njit(cache=True)
def _breadth_first(parents: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nodes are their own queue: the children of place 0, of place 1, ..."""
    count = len(parents)
    start = np.zeros(count + 1, np.int32)  # of each node's children in `children`
    for node in range(1, count):
        start[parents[node] + 1] += 1
    for node in range(count):
        start[node + 1] += start[node]
    children, filled = np.empty(count, np.int32), start.copy()
    for node in range(1, count):
        children[filled[parents[node]]] = node
        filled[parents[node]] += 1
    nodes, places, moved = np.zeros((3, count), np.int32)
    moved[0] = -1
    end = 1
    for place in range(count):
        node = nodes[place]
        for index in range(start[node], start[node + 1]):
            nodes[end] = children[index]
            places[children[index]] = end
            moved[end] = place
            end += 1
    return nodes, places, moved


@njit(cache=True)
def _depth_first(
    parents: np.ndarray, heavy_first: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A child's place is the next free one in its parent's stretch, as long as the child's subtree.

    Needs neither stack nor recursion: parents come before their children.
    """
    count = len(parents)
    size = np.ones(count, np.int32)  # of each node's subtree
    heavy = np.zeros(count, np.int32)  # its heaviest child; 0: none
    for node in range(count - 1, 0, -1):
        parent = parents[node]
        size[parent] += size[node]
        if heavy[parent] == 0 or size[node] >= size[heavy[parent]]:
            heavy[parent] = node
    nodes, places, moved = np.zeros((3, count), np.int32)
    free = np.empty(count, np.int32)
    moved[0] = -1
    free[0] = 1 + size[heavy[0]] if heavy_first and heavy[0] else 1
    for node in range(1, count):
        parent = parents[node]
        if heavy_first and heavy[parent] == node:
            place = places[parent] + 1
        else:
            place = free[parent]
            free[parent] += size[node]
        places[node] = place
        nodes[place] = node
        moved[place] = places[parent]
        free[node] = place + 1 + (size[heavy[node]] if heavy_first and heavy[node] else 0)
    return nodes, places, moved


@njit(cache=True)
def _packed(parents: np.ndarray) -> np.ndarray:
    count = len(parents)
    num_words = (count + BLOCK - 1) // BLOCK
    words = np.zeros((count, num_words), np.uint32)
    for node in range(count):
        if node > 0:
            parent = parents[node]
            for word in range(parent // BLOCK + 1):  # no ancestor stands behind the parent
                words[node, word] = words[parent, word]
        words[node, node // BLOCK] |= np.uint32(1) << np.uint32(node % BLOCK)
    return words.view(np.int32)
