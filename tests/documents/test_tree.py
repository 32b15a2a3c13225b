"""The laws of the token tree, against worked examples and slow twins."""

import numpy as np
import pytest

from planner import PlannerError, Tree

#        0
#      / | \
#     1  2  3
#    / \    |
#   4   5   6
#           |
#           7
EXAMPLE = Tree([-1, 0, 0, 0, 1, 1, 3, 6])


def test_everything_derived_on_a_worked_example():
    assert EXAMPLE.parents.dtype == np.int32
    assert EXAMPLE.num_nodes == len(EXAMPLE) == 8
    assert EXAMPLE.depth == 3
    assert EXAMPLE.depths.tolist() == [0, 1, 1, 1, 2, 2, 2, 3]
    assert EXAMPLE.ranks.tolist() == [0, 0, 1, 2, 0, 1, 0, 0]
    assert EXAMPLE.num_children.tolist() == [3, 2, 0, 1, 0, 0, 1, 0]
    assert EXAMPLE.children[0] == (1, 2, 3)
    assert EXAMPLE.children[2] == ()
    assert EXAMPLE.level_sizes.tolist() == [1, 3, 3, 1]
    assert EXAMPLE.widths.tolist() == [1, 2, 1]
    assert EXAMPLE.ancestors[7].tolist() == [True, False, False, True, False, False, True, True]


def test_lone_root_drafts_nothing():
    root = Tree([-1])
    assert (root.num_nodes, root.depth, root.widths.tolist()) == (1, 0, [])
    assert root.ancestors.tolist() == [[True]]


def random_tree(num_nodes: int, rng: np.random.Generator) -> Tree:
    parents = [-1, *sorted(int(rng.integers(node)) for node in range(1, num_nodes))]
    return Tree([min(parent, node - 1) for node, parent in enumerate(parents)])


@pytest.mark.parametrize("num_nodes", [1, 2, 7, 63, 100])
def test_derived_arrays_equal_walking_up(num_nodes):
    tree = random_tree(num_nodes, np.random.default_rng(num_nodes))
    for node in range(num_nodes):
        path, walker = {node}, node
        while tree.parents[walker] >= 0:
            walker = int(tree.parents[walker])
            path.add(walker)
        assert set(np.flatnonzero(tree.ancestors[node])) == path
        assert tree.depths[node] == len(path) - 1
    assert tree.num_children.sum() == num_nodes - 1
    assert tree.level_sizes.sum() == num_nodes
    assert tree.widths.sum() == np.count_nonzero(tree.num_children)
    for siblings in tree.children:
        assert [int(tree.ranks[child]) for child in siblings] == list(range(len(siblings)))


@pytest.mark.parametrize(
    ("parents", "words"),
    [
        ([], "non-empty list of integers"),
        ([-1, 0.5], "non-empty list of integers"),
        ([[-1]], "non-empty list of integers"),
        ([0, 0], "expected -1 for the root"),
        ([-1, 1], r"parents\[1\]: got 1, expected a node before it \(0..0\)"),
        ([-1, 0, -1], r"parents\[2\]: got -1"),
        ([-1, 2, 0], r"parents\[1\]: got 2"),
        ([-1, 0, 1, 0], r"parents\[3\]: got 0 after 1, expected level order"),
        ([-1, 0, 0, 2, 1], r"parents\[4\]: got 1 after 2, expected level order"),
    ],
)
def test_wrong_parents_are_named(parents, words):
    with pytest.raises(PlannerError, match=words) as caught:
        Tree(parents)
    assert "\n" not in str(caught.value)


def test_trees_are_values():
    assert Tree([-1, 0]) == Tree(np.array([-1, 0]))
    assert Tree([-1, 0]) != Tree([-1])
    assert len({Tree([-1, 0]), Tree([-1, 0]), Tree([-1])}) == 2
    with pytest.raises(ValueError, match="read-only"):
        EXAMPLE.parents[0] = 5
