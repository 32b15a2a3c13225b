"""The best tree of n nodes under any acceptance law: Sequoia's dynamic programme.

F[l, d, m]: expected tokens of the best subtree of exactly m nodes and at most d levels below its
root, which stands at level l of the tree.  W[b, m]: the same among those whose root has exactly b
children (ranks 0 .. b-1), a(l, b, r) being the acceptance of rank r among b children at level l.

    W[0, 1] = 1,  W[0, m > 1] = -inf
    W[b, m] = max over s of  W[b-1, m-s] + a(l, b, b-1) * F[l+1, d-1, s]
    F[l, d, m] = max over b of  W[b, m],   F[l, 0, 1] = 1,  F[l, 0, m > 1] = -inf

(Sequoia, Algorithm 5, which prints 0 where an impossible tree must score -inf.)  The law is one and
the same from some level on, and there F is too: as many tables as the law has levels.  Where
acceptance depends on the number of siblings, W is built anew for each number.  O(n^2 d k) for n
nodes, d levels, k ranks (k^2 / 2 for k where siblings matter): the maximum over b is taken once per
(d, m), not inside the loop over s.
"""

from __future__ import annotations

import numpy as np

from ..compiling import compiled
from ..documents.tree import Tree
from ..estimates.law import AcceptanceLaw


class Programme:
    """Best trees of up to `max_nodes` nodes and `max_depth` levels, under any law."""

    def __init__(self, law: AcceptanceLaw, max_nodes: int, max_depth: int) -> None:
        rates = law.limited(max(max_nodes - 1, 1)).rates
        shape = (len(rates), max_depth + 1, max_nodes + 1)
        num_choices = _first_choice(rates.shape[1]) + rates.shape[2]
        self._tables = np.full(shape, -np.inf)
        num_children = np.zeros(shape, np.int32)
        last_size = np.zeros((*shape[:2], num_choices, shape[2]), np.int32)
        self._choices = num_children, last_size, law.by_rank_alone
        self._tables[:, :, 1] = 1.0
        settled = _fill_tables(rates, self._tables, num_children, last_size)
        self._tables[:, settled + 1 :] = self._tables[:, settled : settled + 1]
        self._settled = settled

    @property
    def _best(self) -> np.ndarray:
        """float64 [max_depth+1, max_nodes+1]: of whole trees."""
        return self._tables[0]

    @property
    def is_settled(self) -> bool:
        """Would more depth change nothing, for any size up to `max_nodes`?"""
        depth = self._settled
        return depth > 0 and np.array_equal(self._tables[:, depth], self._tables[:, depth - 1])

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
        _fill_tree(self._choices, num_nodes, depth, (parents, levels, sizes))
        return Tree(parents)

    def drafting_ms(self, draft_ms: np.ndarray) -> np.ndarray:
        """float64 [max_nodes+1, max_depth+1]: time of each tree's draft passes below the root.

        draft_ms  float64 [> largest width]  time of one draft pass by width; inf if unknown
        """
        table = np.full(self._best.T.shape, np.inf)
        _fill_drafting_ms(self._best, self._choices, self._settled, draft_ms, table)
        return table


@compiled
def _first_choice(count):  # type: ignore[no-untyped-def]
    """The place where a node of `count` children keeps its subtrees' sizes, if siblings matter."""
    return count * (count - 1) // 2


@compiled
def _fill_tables(rates, best, num_children, last_size):  # type: ignore[no-untyped-def]
    """Fill the tables, which hold trees of one node already, up to the depth from which on a deeper
    tree is no better; return that.
    """
    num_levels, max_depth = best.shape[0], best.shape[1] - 1
    for depth in range(1, max_depth + 1):
        for level in range(num_levels):
            _fill_row(
                rates[level],
                best[min(level + 1, num_levels - 1), depth - 1],
                best[level, depth],
                num_children[level, depth],
                last_size[level, depth],
            )
        if np.array_equal(best[:, depth], best[:, depth - 1]):
            return depth
    return max_depth


@compiled
def _fill_row(rates, below, best, num_children, last_size):  # type: ignore[no-untyped-def]
    """Best subtrees of one level and depth, from the best of the level `below` it.

    With one row of rates, every number of children is a partial result of one pass; with a row for
    each number, each needs its own pass.
    """
    num_counts, num_ranks = rates.shape
    max_nodes = len(best) - 1
    for row in range(num_counts):
        most = num_ranks if num_counts == 1 else row + 1
        first = 0 if num_counts == 1 else _first_choice(most)
        before = np.full(max_nodes + 1, -np.inf)
        before[1] = 1.0
        for b in range(1, most + 1):
            now = np.full(max_nodes + 1, -np.inf)
            sizes = last_size[first + b - 1]
            for size in range(1, max_nodes + 1 - b):
                if below[size] == -np.inf:  # 0 * -inf would be NaN
                    continue
                gain = rates[row, b - 1] * below[size]
                for rest in range(b, max_nodes + 1 - size):
                    value = before[rest] + gain
                    if value > now[rest + size]:
                        now[rest + size] = value
                        sizes[rest + size] = size
            if num_counts == 1 or b == most:
                for m in range(max_nodes + 1):
                    if now[m] > best[m]:
                        best[m] = now[m]
                        num_children[m] = b
            before = now


@compiled
def _fill_tree(choices, num_nodes, depth, tree):  # type: ignore[no-untyped-def]
    """Write the best tree's parents and levels, in level order; `sizes` is scratch space."""
    num_children, last_size, by_rank_alone = choices
    parents, levels, sizes = tree
    sizes[0] = num_nodes
    levels[0] = 0
    end = 1
    for node in range(num_nodes):
        level = min(levels[node], len(num_children) - 1)
        budget = depth - levels[node]
        size = sizes[node]
        b = num_children[level, budget, size]
        first = 0 if by_rank_alone else _first_choice(b)
        for rank in range(b - 1, -1, -1):
            child = end + rank
            parents[child] = node
            levels[child] = levels[node] + 1
            sizes[child] = last_size[level, budget, first + rank, size]
            size -= sizes[child]
        end += b


@compiled
def _fill_drafting_ms(best, choices, settled, draft_ms, table):  # type: ignore[no-untyped-def]
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
            _fill_tree(choices, num_nodes, depth, (parents, levels, sizes))
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
