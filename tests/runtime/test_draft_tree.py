"""Trees that are kept, one after the other, in the same arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from planner.documents.tree import Tree
from runtime.draft_tree import FIRST_CAPACITY, DraftTree, Room

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
    """The ancestors, found by walking up from every node."""
    found = np.zeros((len(parents), len(parents)), bool)
    for node in range(len(parents)):
        above = node
        while above >= 0:
            found[node, above] = True
            above = parents[above]
    return found


def drawn_tree(levels, room: Room) -> DraftTree:
    """Exactly the children are drawn."""
    tree = DraftTree(5, room)
    for level in levels:
        first, counts = tree.num_nodes, [count for _, count in level]
        nodes = tree.add(level)
        tree.draw(nodes, torch.zeros(len(nodes), 3), counts, torch.full((sum(counts),), first))
    return tree


def candidate_tree(levels, room: Room) -> DraftTree:
    """Five candidates are drawn below every node, of which some are revealed then."""
    tree = DraftTree(5, room)
    for level in levels:
        nodes = tree.add([(node, 0) for node, _ in level])
        tokens = torch.full((5 * len(nodes),), tree.num_nodes)
        tree.draw(nodes, torch.zeros(len(nodes), 3), [5] * len(nodes), tokens)
        assert tree.add(level) == []
    return tree


class AsOnADevice(Room):
    """Drawn tokens are not seen as an array."""

    def keep_drawn(self, drawn):
        self.drawn, self.host_drawn = drawn, None


@pytest.mark.parametrize("kind", [Room, AsOnADevice])
@pytest.mark.parametrize("kept", [drawn_tree, candidate_tree])
def test_nothing_of_an_earlier_tree_is_left_in_its_room(kept, kind):
    """Large after small, small after large, beyond the first capacity and back."""
    rng = np.random.default_rng(0)
    room = kind(CPU)
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
    room = Room(CPU, 2)
    levels = [[(0, 3)], [(1, 1), (3, 4)], [(8, 2)]]
    tree = candidate_tree(levels, room)
    assert np.array_equal(tree.ancestors, slow_ancestors(parents_of(levels)))
    assert tree.tokens.tolist() == [5, 1, 1, 1, 4, 4, 4, 4, 4, 9, 9]


def test_a_lone_root_has_its_token():
    assert DraftTree(7, Room(CPU)).tokens.tolist() == [7]


@pytest.mark.parametrize("kind", [Room, AsOnADevice])
@pytest.mark.parametrize("seed", range(20))
def test_children_take_the_first_tokens_of_their_parents_rows(seed, kind):
    """However they are asked for: before their row is drawn and after, in one answer or in many,
    level by level or not.  Against dictionaries."""
    rng = np.random.default_rng(seed)
    tree = DraftTree(99, kind(CPU, 2))
    rows: dict[int, list[int]] = {}
    families: dict[int, list[int]] = {0: []}
    while len(families) < 90:
        requests = []
        for node in rng.permutation(len(families))[:4].tolist():
            count = int(rng.integers(0, 5 - len(families[node])))
            requests.append((node, count))
            for child in range(len(families), len(families) + count):
                families[node].append(child)
                families[child] = []
        new = [node for node, _ in requests if node not in rows]
        assert tree.add(requests) == new
        if new:
            drawn = rng.integers(0, 1000, size=(len(new), 4))
            q = torch.rand(len(new), 3)
            tree.draw(new, q, [4] * len(new), torch.from_numpy(drawn.ravel()))
            rows |= dict(zip(new, drawn.tolist(), strict=True))
            for node, each in zip(new, q, strict=True):
                assert torch.equal(tree.draft_probs(node), each)
        parents, tokens = [-1] * len(families), [99] * len(families)
        for node, family in families.items():
            assert tree.children[node] == family
            for rank, child in enumerate(family):
                parents[child], tokens[child] = node, rows[node][rank]
        some = rng.permutation(len(families))[:5].tolist()
        assert tree.tokens.tolist() == tree.host_tokens.tolist() == tokens
        assert tree.tokens_of(some).tolist() == [tokens[node] for node in some]
        assert tree.parents.tolist() == parents
        assert np.array_equal(tree.ancestors, slow_ancestors(parents))
        assert tree.depths.tolist() == [int(row.sum()) - 1 for row in tree.ancestors]
        assert tree.expanded == list(rows)
