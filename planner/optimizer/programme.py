"""Which tree of n nodes is the best, for any acceptance vector?  Sequoia's dynamic programme.

F[d, m]: expected tokens of the best tree of exactly m nodes and at most d levels below its root.
W[b, m]: the same among trees whose root has exactly b children (ranks 0 .. b-1).

    W[0, 1] = 1,  W[0, m > 1] = -inf
    W[b, m] = max over s of  W[b-1, m-s] + acceptance[b-1] * F[d-1, s]
    F[d, m] = max over b of  W[b, m],   F[0, 1] = 1,  F[0, m > 1] = -inf

(Sequoia, Algorithm 5, which prints 0 where an impossible tree must score -inf.)  O(n^2 d k) for n
nodes, d levels, k ranks: the maximum over b is taken once per (d, m), not inside the loop over s.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..tree import Tree


class Programme:
    """Best trees of up to `max_nodes` nodes and `max_depth` levels, for any acceptance."""

    def __init__(self, acceptance: np.ndarray, max_nodes: int, max_depth: int) -> None:
        shape = (max_depth + 1, max_nodes + 1)
        num_ranks = min(len(acceptance), max_nodes - 1)
        self._best = np.full(shape, -np.inf)
        self._num_children = np.zeros(shape, np.int32)
        self._last_size = np.zeros((max_depth + 1, num_ranks + 1, max_nodes + 1), np.int32)
        self._settled = _fill_tables(
            acceptance[:num_ranks], self._best, self._num_children, self._last_size
        )

    @property
    def is_settled(self) -> bool:
        """Would more depth change nothing, for any size up to `max_nodes`?"""
        depth = self._settled
        return depth > 0 and np.array_equal(self._best[depth], self._best[depth - 1])

    @property
    def expected_tokens(self) -> np.ndarray:
        """float64 [max_nodes+1, max_depth+1], -inf where there is no such tree."""
        return np.ascontiguousarray(self._best.T)

    def tree(self, num_nodes: int, depth: int) -> Tree | None:
        """The best tree of exactly `num_nodes` and at most `depth` levels, if there is one.

        Ties go to fewer children, then to the smaller subtree for the last child.
        """
        if self._best[depth, num_nodes] == -np.inf:
            return None
        parents = np.full(num_nodes, -1, np.int32)
        levels = np.zeros(num_nodes, np.int32)
        sizes = np.zeros(num_nodes, np.int32)
        depth = min(depth, self._settled)
        _fill_tree(self._num_children, self._last_size, num_nodes, depth, parents, levels, sizes)
        return Tree(parents)

    def drafting_ms(self, draft_ms: np.ndarray) -> np.ndarray:
        """float64 [max_nodes+1, max_depth+1]: time of each tree's draft passes below the root.

        draft_ms  float64 [> largest width]  time of one draft pass by width; inf if unknown
        """
        table = np.full(self._best.T.shape, np.inf)
        _fill_drafting_ms(
            self._best, self._num_children, self._last_size, self._settled, draft_ms, table
        )
        return table


@njit(cache=True)
def _fill_tables(acceptance, best, num_children, last_size):  # type: ignore[no-untyped-def]
    """Fill the tables; return the depth from which on a deeper tree is no better."""
    max_depth = best.shape[0] - 1
    max_nodes = best.shape[1] - 1
    best[:, 1] = 1.0
    for depth in range(1, max_depth + 1):
        before = np.full(max_nodes + 1, -np.inf)
        before[1] = 1.0
        for b in range(1, len(acceptance) + 1):
            now = np.full(max_nodes + 1, -np.inf)
            sizes = last_size[depth, b]
            for size in range(1, max_nodes + 1 - b):
                subtree = best[depth - 1, size]
                if subtree == -np.inf:  # 0 * -inf would be NaN
                    continue
                gain = acceptance[b - 1] * subtree
                for rest in range(b, max_nodes + 1 - size):
                    value = before[rest] + gain
                    if value > now[rest + size]:
                        now[rest + size] = value
                        sizes[rest + size] = size
            for m in range(max_nodes + 1):
                if now[m] > best[depth, m]:
                    best[depth, m] = now[m]
                    num_children[depth, m] = b
            before = now
        if np.array_equal(best[depth], best[depth - 1]):
            for deeper in range(depth + 1, max_depth + 1):
                best[deeper] = best[depth]
            return depth
    return max_depth


@njit(cache=True)
def _fill_tree(num_children, last_size, num_nodes, depth, parents, levels, sizes):  # type: ignore[no-untyped-def]
    """Write the best tree's parents and levels, in level order; `sizes` is scratch space."""
    sizes[0] = num_nodes
    levels[0] = 0
    end = 1
    for node in range(num_nodes):
        budget = depth - levels[node]
        size = sizes[node]
        b = num_children[budget, size]
        for rank in range(b - 1, -1, -1):
            child = end + rank
            parents[child] = node
            levels[child] = levels[node] + 1
            sizes[child] = last_size[budget, rank + 1, size]
            size -= sizes[child]
        end += b


@njit(cache=True)
def _fill_drafting_ms(best, num_children, last_size, settled, draft_ms, table):  # type: ignore[no-untyped-def]
    max_depth = best.shape[0] - 1
    max_nodes = best.shape[1] - 1
    parents = np.zeros(max_nodes, np.int32)
    levels = np.zeros(max_nodes, np.int32)
    sizes = np.zeros(max_nodes, np.int32)
    table[1, :] = 0.0
    for depth in range(1, max_depth + 1):
        for num_nodes in range(2, max_nodes + 1):
            if best[depth, num_nodes] == -np.inf:
                continue
            if depth > settled:
                table[num_nodes, depth] = table[num_nodes, settled]
                continue
            _fill_tree(num_children, last_size, num_nodes, depth, parents, levels, sizes)
            widths = np.zeros(depth, np.int64)
            node = 1
            while node < num_nodes:
                if node == 1 or parents[node] != parents[node - 1]:
                    widths[levels[parents[node]]] += 1
                node += 1
            spent = 0.0
            for width in widths[1:]:
                if width > 0:
                    spent += draft_ms[width]
            table[num_nodes, depth] = spent
