"""Orders of a tree's nodes: against slow twins, and what they do to the blocks of the mask."""

from __future__ import annotations

import heapq
import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import FunctionType

import numpy as np
import pytest

from tree_kernels.host import ordering
from tree_kernels.host.ordering import ORDERS, pack_ancestors, reorder

SIZES = (1, 2, 7, 31, 32, 33, 63, 100, 257)


def random_tree(rng: np.random.Generator, num_nodes: int) -> np.ndarray:
    """A random recursive tree: every earlier node is as probable a parent."""
    return np.array([-1, *(rng.integers(node) for node in range(1, num_nodes))], np.int32)


def greedy_tree(rng: np.random.Generator, num_nodes: int) -> np.ndarray:
    """The most probable node is added next; every node's children have probabilities of their own,
    a softmax over 50 tokens of normal logits with standard deviation 2."""
    parents: list[int] = []
    heap: list[tuple[float, int, int, np.ndarray, int]] = [(-1.0, 0, -1, np.ones(1), 0)]
    while len(parents) < num_nodes:
        above, _, parent, siblings, rank = heapq.heappop(heap)
        node = len(parents)
        parents.append(parent)
        if rank + 1 < len(siblings):
            beside = above * siblings[rank + 1] / siblings[rank]
            heapq.heappush(heap, (beside, 2 * node + 1, parent, siblings, rank + 1))
        logits = 2 * rng.normal(size=50)
        children = np.sort(np.exp(logits) / np.exp(logits).sum())[::-1]
        heapq.heappush(heap, (above * children[0], 2 * node + 2, node, children, 0))
    return np.array(parents, np.int32)


def chain(num_nodes: int) -> np.ndarray:
    return np.arange(-1, num_nodes - 1, dtype=np.int32)


def star(num_nodes: int) -> np.ndarray:
    return np.array([-1] + [0] * (num_nodes - 1), np.int32)


def trees() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [chain, star, lambda n: random_tree(rng, n), lambda n: greedy_tree(rng, n)]
    return [shape(size) for size in SIZES for shape in shapes]


def slow_order(parents: np.ndarray, order: str) -> list[int]:
    """The order by the words of its definition, with lists and recursion."""
    children: list[list[int]] = [[] for _ in parents]
    for node in range(1, len(parents)):
        children[parents[node]].append(node)
    if order == "creation":
        return list(range(len(parents)))
    if order == "breadth-first":
        level, found = [0], []
        while level:
            found += level
            level = [child for node in level for child in children[node]]
        return found
    size = [1] * len(parents)
    for node in range(len(parents) - 1, 0, -1):
        size[parents[node]] += size[node]
    found, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        found.append(node)
        below = children[node]
        if order == "heavy-path" and below:
            heaviest = max(below, key=lambda child: size[child])  # of equals the first
            below = [heaviest, *(child for child in below if child != heaviest)]
        waiting += reversed(below)
    return found


def slow_mask(parents: np.ndarray) -> np.ndarray:
    mask = np.zeros((len(parents), len(parents)), bool)
    for node in range(len(parents)):
        seen = node
        while seen >= 0:
            mask[node, seen] = True
            seen = parents[seen]
    return mask


def slow_blocks(mask: np.ndarray) -> int:
    starts = range(0, len(mask), 32)
    return sum(mask[i : i + 32, j : j + 32].any() for i in starts for j in starts)


def num_blocks(parents: np.ndarray) -> int:
    """Blocks of 32 x 32 entries of the ancestor mask that hold at least one."""
    some = pack_ancestors(parents) != 0
    return int(np.logical_or.reduceat(some, np.arange(0, len(some), 32)).sum())


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_is_what_its_definition_says(order):
    for parents in trees():
        assert reorder(parents, order).nodes.tolist() == slow_order(parents, order)


@pytest.mark.parametrize("order", ORDERS)
def test_a_renumbered_tree_is_the_same_tree(order):
    for parents in trees():
        found = reorder(parents, order)
        places = np.arange(len(parents))
        assert np.array_equal(found.places[found.nodes], places)
        assert found.parents[0] == -1
        assert (found.parents[1:] < places[1:]).all()
        assert np.array_equal(found.nodes[found.parents[1:]], parents[found.nodes[1:]])


def test_bits_are_the_mask_and_blocks_are_counted_in_it():
    for parents in trees():
        mask = slow_mask(parents)
        words = pack_ancestors(parents)
        assert words.dtype == np.int32
        assert words.shape == (len(parents), -(-len(parents) // 32))
        bits = (words[:, :, None] >> np.arange(32)) & 1
        assert np.array_equal(bits.reshape(len(parents), -1)[:, : len(parents)], mask)
        assert not bits.reshape(len(parents), -1)[:, len(parents) :].any()
        assert num_blocks(parents) == slow_blocks(mask)


def test_every_subtree_is_contiguous_in_depth_first_orders():
    for parents in trees():
        for order in ("depth-first", "heavy-path"):
            below = slow_mask(reorder(parents, order).parents)
            for node in range(len(parents)):
                found = np.flatnonzero(below[:, node])
                assert np.array_equal(found, np.arange(node, node + len(found)))


@pytest.mark.parametrize("num_nodes", SIZES)
def test_blocks_of_a_chain_and_of_a_star_are_known(num_nodes):
    """A chain fills the lower triangle of blocks; a star its diagonal and its first column."""
    side = -(-num_nodes // 32)
    for order in ORDERS:
        assert num_blocks(reorder(chain(num_nodes), order).parents) == side * (side + 1) // 2
        assert num_blocks(reorder(star(num_nodes), order).parents) == 2 * side - 1


@pytest.mark.parametrize(
    ("grown", "num_nodes", "ratio"),
    [
        (random_tree, 256, 1.6),
        (random_tree, 1024, 4.0),
        (greedy_tree, 256, 1.5),
        (greedy_tree, 1024, 2.5),
    ],
)
def test_heavy_paths_have_so_many_times_fewer_blocks(grown, num_nodes, ratio):
    """The sum over 32 trees; the creation order of greedy trees is that of falling probability.

    Nothing could do better than 36 / 15 at 256 nodes and 528 / 63 at 1024: all blocks of the lower
    triangle over those of the root's column and the diagonal.
    """
    rng = np.random.default_rng(num_nodes)
    before = after = 0
    for _ in range(32):
        parents = grown(rng, num_nodes)
        before += num_blocks(parents)
        after += num_blocks(reorder(parents, "heavy-path").parents)
    assert before >= ratio * after


@pytest.mark.parametrize(
    "parents",
    [[], [0], [-1, -1], [-1, 1], [-1, 2, 0], [-1, 0, -2], [[-1, 0]]],
    ids=["empty", "no root", "two roots", "own parent", "child first", "below -1", "two rows"],
)
def test_what_is_no_tree_is_refused(parents):
    for question in (reorder, pack_ancestors):
        with pytest.raises(ValueError, match="expected integers") as caught:
            question(np.array(parents, np.int32))
        assert "\n" not in str(caught.value)


def test_an_unknown_order_is_refused():
    with pytest.raises(ValueError, match="got 'random', expected one of creation, breadth-first"):
        reorder(chain(3), "random")


def test_orders_are_the_same_without_numba(monkeypatch):
    """The ordering as plain Python: once more, where numba cannot be imported."""
    monkeypatch.setitem(sys.modules, "numba", None)
    spec = spec_from_file_location("plain_ordering", ordering.__file__)
    plain = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, plain)
    spec.loader.exec_module(plain)
    assert isinstance(plain._packed, FunctionType)
    tree = random_tree(np.random.default_rng(5), 100)
    for order in ORDERS:
        assert plain.reorder(tree, order).nodes.tolist() == reorder(tree, order).nodes.tolist()
    assert plain.pack_ancestors(tree).tolist() == pack_ancestors(tree).tolist()
