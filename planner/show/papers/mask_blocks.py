"""Blocks of a tree's attention mask in an order of its nodes (DySpec, appendix C).

Counted by the mask itself: the slow, obvious twin of what the kernel's package does without one.
"""

from __future__ import annotations

import numpy as np

from ...documents.tree import Tree

BLOCK = 32
"""Queries and keys of a block."""


def num_blocks(parents: np.ndarray, order: np.ndarray, *, prefix: int = 0) -> int:
    """Blocks in which any node sees a node, or a token of the text before.

    parents  integers [n], parents before their children, -1 for the root
    order    integers [n]: the node at each place
    prefix   tokens of that text, a multiple of 32
    """
    count = len(parents)
    size = -(-count // BLOCK) * BLOCK
    mask = np.zeros((size, size), bool)
    mask[:count, :count] = ordered_mask(parents, order)
    blocks = mask.reshape(size // BLOCK, BLOCK, -1, BLOCK).any(axis=(1, 3))
    return int(blocks.sum()) + (size // BLOCK) * (prefix // BLOCK)


def ordered_mask(parents: np.ndarray, order: np.ndarray) -> np.ndarray:
    """bool [n, n]: entry (i, j) says that the node at place i sees the one at place j."""
    return _ancestors(parents)[np.ix_(order, order)]


def heavy_path(parents: np.ndarray) -> np.ndarray:
    """int64 [n]: the nodes depth first, the child of the largest subtree first."""
    sizes = np.ones(len(parents), np.int64)
    children: list[list[int]] = [[] for _ in parents]
    for node in range(len(parents) - 1, 0, -1):
        sizes[parents[node]] += sizes[node]
        children[parents[node]].append(node)
    order, stack = [], [0]
    while stack:
        node = stack.pop()
        order.append(node)
        below = sorted(children[node])
        if below:
            heavy = max(below, key=lambda child: sizes[child])  # of equals the first
            stack += [child for child in reversed(below) if child != heavy] + [heavy]
    return np.array(order)


def best_first(tree: Tree, acceptance: np.ndarray) -> np.ndarray:
    """int64 [n]: parents of the nodes in the order of `drafted_order`."""
    order = drafted_order(tree, acceptance)
    places = np.argsort(order, kind="stable")
    return np.array([-1, *places[tree.parents[order[1:]]]])


def drafted_order(tree: Tree, acceptance: np.ndarray) -> np.ndarray:
    """int64 [n]: the nodes in the order of their reach, as a heap takes them."""
    reach = np.ones(tree.num_nodes)
    for node in range(1, tree.num_nodes):
        reach[node] = reach[tree.parents[node]] * acceptance[tree.ranks[node]]
    return np.argsort(-reach, kind="stable")


def random_tree(num_nodes: int) -> np.ndarray:
    """int64 [n]: parents, each drawn from all nodes before."""
    rng = np.random.default_rng(num_nodes)
    return np.array([-1, *(rng.integers(node) for node in range(1, num_nodes))])


def _ancestors(parents: np.ndarray) -> np.ndarray:
    """bool [n, n]: entry (i, j) says that j is i or an ancestor of i."""
    seen = np.eye(len(parents), dtype=bool)
    for node in range(1, len(parents)):
        seen[node] |= seen[parents[node]]
    return seen
