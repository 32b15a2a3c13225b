"""Uniform trees: those all of whose nodes of a level have as many children."""

from __future__ import annotations

import numpy as np
import pytest

from planner import Tree
from planner.estimates.law import AcceptanceLaw
from planner.estimates.step_costs import step_costs
from planner.optimizer import solve
from planner.optimizer.solvers.uniform import best_uniform_trees, uniform_tree

from . import factory
from .choosing import VECTOR, made
from .twins import all_trees, product_sum


def is_uniform(tree: Tree) -> bool:
    """The same question, level by level."""
    counts = [tree.num_children[tree.depths == depth] for depth in range(tree.depth + 1)]
    return all(len(set(level.tolist())) == 1 for level in counts)


UNIFORM = [tree for size in range(2, 10) for tree in all_trees(size) if is_uniform(tree)]


@pytest.mark.parametrize(
    ("branching", "parents"),
    [
        ([], [-1]),
        ([1, 1, 1], [-1, 0, 1, 2]),
        ([3], [-1, 0, 0, 0]),
        ([2, 1, 2], [-1, 0, 0, 1, 2, 3, 3, 4, 4]),
    ],
)
def test_trees_by_their_branching(branching, parents):
    tree = uniform_tree(branching)
    assert tree.parents.tolist() == parents
    assert tree.is_uniform


@pytest.mark.parametrize("size", range(1, 8))
def test_whether_a_tree_is_uniform(size):
    for tree in all_trees(size):
        assert tree.is_uniform == is_uniform(tree)


@pytest.mark.parametrize("seed", range(4))
def test_of_every_size_and_depth_the_best_is_found(seed):
    """Rates differ by depth, number of siblings and rank; sizes below ten, by brute force."""
    rng = np.random.default_rng(seed)
    rates = rng.dirichlet(np.ones(4), size=(2, 3))[:, :, :3]
    law = AcceptanceLaw(rates * np.tril(np.ones((3, 3))))
    best: dict[tuple[int, int], float] = {}
    for tree in UNIFORM:
        if tree.num_children.max() <= 3:
            place = (tree.num_nodes, tree.depth)
            best[place] = max(best.get(place, 0.0), law.expected_tokens(tree))
    found = {(tree.num_nodes, tree.depth): tokens for tokens, tree in best_uniform_trees(law, 9, 9)}
    assert found == pytest.approx(best, rel=1e-12)
    for tokens, tree in best_uniform_trees(law, 9, 9):
        assert law.expected_tokens(tree) == pytest.approx(tokens, rel=1e-12)
        assert is_uniform(tree)


def test_no_uniform_tree_beats_the_plan():
    """Draft passes cost the same at any width here."""
    bumpy = {1: 10, 2: 10.5, 3: 12, 4: 11, 5: 14, 6: 11.5, 7: 12, 8: 10.7, 9: 11.2}
    profile = made(factory.costs(verify=bumpy.__getitem__, counts=list(bumpy)))
    costs = step_costs(profile)
    best = max(
        product_sum(tree, VECTOR) / costs.step_ms(tree)
        for tree in UNIFORM
        if tree.num_children.max() <= len(VECTOR)
    )
    plan = solve(profile, solver="uniform")
    assert plan.tree.is_uniform
    assert product_sum(plan.tree, VECTOR) / costs.step_ms(plan.tree) == pytest.approx(best)
