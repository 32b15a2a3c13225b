"""Trees that are kept, one after the other, in the same arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from planner.documents.tree import Tree
from runtime.draft_tree import (
    FIRST_CAPACITY,
    CandidateTree,
    DraftTree,
    Room,
)

CPU = torch.device("cpu")


def random_levels(rng, num_nodes: int) -> list[list[tuple[int, int]]]:
    """Requests of a tree that is drafted level by level."""
    levels, above, there = [], [0], 1
    while there < num_nodes:
        counts = rng.integers(0, 4, len(above))
        counts[rng.integers(len(above))] += 1
        levels.append([(node, int(n)) for node, n in zip(above, counts, strict=True) if n])
        above = list(range(there, there + int(counts.sum())))
        there += len(above)
    return levels


def parents_of(levels) -> list[int]:
    return [-1, *(node for level in levels for node, count in level for _ in range(count))]


def slow_ancestors(parents: list[int]) -> np.ndarray:
    """By walking up from every node."""
    found = np.zeros((len(parents), len(parents)), bool)
    for node in range(len(parents)):
        above = node
        while above >= 0:
            found[node, above] = True
            above = parents[above]
    return found


def drawn_tree(levels, room: Room) -> DraftTree:
    tree = DraftTree(5, CPU, room)
    for level in levels:
        nodes = [node for node, _ in level]
        counts = [count for _, count in level]
        tree.expand(nodes, torch.zeros(len(nodes), 3))
        tree.add(nodes, counts, torch.full((sum(counts),), tree.num_nodes))
    return tree


def candidate_tree(levels, room: Room) -> CandidateTree:
    tree = CandidateTree(5, CPU, room, 5)
    for level in levels:
        nodes = [node for node, _ in level]
        candidates = np.full((len(nodes), 5), tree.num_nodes)
        tree.draw(nodes, torch.zeros(len(nodes), 3), candidates)
        tree.reveal(level)
    return tree


@pytest.mark.parametrize("kept", [drawn_tree, candidate_tree])
def test_nothing_of_an_earlier_tree_is_left_in_its_room(kept):
    """Large after small, small after large, beyond the first capacity and back."""
    rng = np.random.default_rng(0)
    room = Room()
    for num_nodes in (9, 40, 3, 150, 20, 1, 60, 200, 12):
        levels = random_levels(rng, num_nodes)
        parents = parents_of(levels)
        tree = kept(levels, room)
        assert tree.parents.tolist() == parents
        assert np.array_equal(tree.ancestors, slow_ancestors(parents))
        assert np.array_equal(tree.ancestors, tree.visible_to_all().numpy())
        assert tree.depths.tolist() == Tree(parents).depths.tolist()
        assert tree.depth == len(levels)
        firsts = [parents.index(level[0][0]) for level in levels]
        sizes = np.diff([*firsts, len(parents)])
        assert tree.tokens.tolist() == [5, *np.repeat(firsts, sizes).tolist()]
    assert room.capacity > FIRST_CAPACITY


def test_a_tree_moves_to_a_larger_room_as_it_is():
    room = Room(2)
    levels = [[(0, 3)], [(1, 1), (3, 4)], [(8, 2)]]
    tree = candidate_tree(levels, room)
    assert np.array_equal(tree.ancestors, slow_ancestors(parents_of(levels)))
    assert tree.tokens.tolist() == [5, 1, 1, 1, 4, 4, 4, 4, 4, 9, 9]


def test_a_lone_root_has_its_token():
    assert DraftTree(7, CPU, Room()).tokens.tolist() == [7]
    assert CandidateTree(7, CPU, Room(), 2).tokens.tolist() == [7]
