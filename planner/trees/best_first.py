"""The best tree of n nodes where acceptance never rises with the rank, at any depth.

Then the reach of a node (the product of acceptance along its path) never rises downwards or to the
right, so that the n nodes of largest reach within a depth form a tree: one best-first search per
depth gives the best tree of *every* size, O(n log n).  Where at most w nodes of a level may be
expanded, the w of largest reach are, as they come first.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..compiling import compiled
from ..documents.tree import Tree
from ..estimates.law import AcceptanceLaw


class BestFirst:
    """Best trees of up to `max_nodes` nodes and `max_depth` levels, under a greedy law.

    widest  most nodes of a level below the root that are expanded; None: any number
    """

    def __init__(
        self, law: AcceptanceLaw, max_nodes: int, max_depth: int, widest: int | None = None
    ) -> None:
        self.acceptance = law.rates[:, 0, :]
        self.max_nodes = max_nodes
        self.max_depth = max_depth
        self.widest = max_nodes if widest is None else widest

    @cached_property
    def expected_tokens(self) -> np.ndarray:
        """float64 [max_nodes+1, max_depth+1], -inf where there is no such tree."""
        table = np.full((self.max_nodes + 1, self.max_depth + 1), -np.inf)
        for depth, (_, _, reach) in enumerate(self._orders):
            table[1 : len(reach) + 1, depth] = np.cumsum(reach)
        return table

    def tree(self, num_nodes: int, depth: int) -> Tree | None:
        """The best tree of exactly `num_nodes` and at most `depth` levels, if there is one."""
        parents, _, _ = _pop_order(self.acceptance, num_nodes, depth, self.widest)
        return Tree(_level_order(parents)) if len(parents) == num_nodes else None

    def drafting_ms(self, draft_ms: np.ndarray) -> np.ndarray:
        """float64 [max_nodes+1, max_depth+1]: time of each tree's draft passes below the root.

        draft_ms  float64 [> largest width]  time of one draft pass by width; inf if unknown
        """
        table = np.full((self.max_nodes + 1, self.max_depth + 1), np.inf)
        for depth, (parents, depths, _) in enumerate(self._orders):
            table[1 : len(parents) + 1, depth] = _drafting_ms(parents, depths, draft_ms)
        return table

    @cached_property
    def _orders(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        depths = range(self.max_depth + 1)
        return [_pop_order(self.acceptance, self.max_nodes, each, self.widest) for each in depths]


def _level_order(parents: np.ndarray) -> list[int]:
    """Parents in pop order -> parents in level order, children of a node together, by rank."""
    children: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents.tolist()[1:], start=1):
        children[parent].append(node)
    ordered = [-1]
    queue = [0]
    for place, node in enumerate(queue):  # grows while it is walked
        queue.extend(children[node])
        ordered.extend([place] * len(children[node]))
    return ordered


def _pop_order(
    acceptance: np.ndarray, max_nodes: int, depth: int, widest: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(parents, depths, reach) of up to `max_nodes` nodes, by falling reach; fewer if that is all.

    acceptance  float64 [num_depths, num_ranks]  by depth of the parent, the last for all deeper

    Ties go to the shallower node, then to the one whose parent came first.
    """
    parents = np.full(max_nodes, -1, np.int32)
    depths = np.zeros(max_nodes, np.int32)
    reach = np.ones(max_nodes)
    size = _fill_pop_order(acceptance, depth, widest, parents, depths, reach)
    return parents[:size], depths[:size], reach[:size]


@compiled
def _fill_pop_order(acceptance, depth, widest, parents, depths, reach):  # type: ignore[no-untyped-def]
    max_nodes = len(parents)
    num_depths, num_ranks = acceptance.shape
    next_rank = np.zeros(max_nodes, np.int64)
    expanded = np.zeros(depth + 1, np.int64)
    offer = np.zeros(max_nodes)  # reach of the next child that a node could still get
    heap = np.zeros(max_nodes, np.int64)  # of nodes, by their offer
    heap_size = 0
    if depth > 0:
        offer[0] = acceptance[0, 0]
        heap_size = 1
    size = 1
    while size < max_nodes and heap_size > 0:
        parent = heap[0]
        if next_rank[parent] == 0:
            if expanded[depths[parent]] == widest:
                heap_size -= 1
                heap[0] = heap[heap_size]
                _sift_down(heap, heap_size, offer, depths)
                continue
            expanded[depths[parent]] += 1
        child = size
        parents[child] = parent
        depths[child] = depths[parent] + 1
        reach[child] = offer[parent]
        size += 1
        next_rank[parent] += 1
        if next_rank[parent] < num_ranks:
            place = min(depths[parent], num_depths - 1)
            offer[parent] = reach[parent] * acceptance[place, next_rank[parent]]
        else:
            heap_size -= 1
            heap[0] = heap[heap_size]
        _sift_down(heap, heap_size, offer, depths)
        if depths[child] < depth:
            offer[child] = reach[child] * acceptance[min(depths[child], num_depths - 1), 0]
            heap[heap_size] = child
            heap_size += 1
            _sift_up(heap, heap_size - 1, offer, depths)
    return size


@compiled
def _before(a, b, offer, depths):  # type: ignore[no-untyped-def]
    if offer[a] != offer[b]:
        return offer[a] > offer[b]
    if depths[a] != depths[b]:
        return depths[a] < depths[b]
    return a < b


@compiled
def _sift_down(heap, heap_size, offer, depths):  # type: ignore[no-untyped-def]
    place = 0
    while True:
        least = place
        for child in (2 * place + 1, 2 * place + 2):
            if child < heap_size and _before(heap[child], heap[least], offer, depths):
                least = child
        if least == place:
            return
        heap[place], heap[least] = heap[least], heap[place]
        place = least


@compiled
def _sift_up(heap, place, offer, depths):  # type: ignore[no-untyped-def]
    while place > 0:
        above = (place - 1) // 2
        if not _before(heap[place], heap[above], offer, depths):
            return
        heap[place], heap[above] = heap[above], heap[place]
        place = above


@compiled
def _drafting_ms(parents, depths, draft_ms):  # type: ignore[no-untyped-def]
    """Drafting time below the root of the first 1, 2, ... nodes of a pop order."""
    total = np.zeros(len(parents))
    widths = np.zeros(len(parents), np.int64)
    has_children = np.zeros(len(parents), np.bool_)
    for node in range(1, len(parents)):
        parent = parents[node]
        if not has_children[parent]:
            has_children[parent] = True
            widths[depths[parent]] += 1
        spent = 0.0  # summed afresh: differences of infinities would be NaN
        level = 1
        while level < len(widths) and widths[level] > 0:
            spent += draft_ms[widths[level]]
            level += 1
        total[node] = spent
    return total
