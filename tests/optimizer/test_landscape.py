"""The landscape holds the best tree of every size and depth, by brute force over all trees."""

from __future__ import annotations

import numpy as np
import pytest

from planner.optimizer import solve
from planner.optimizer.landscape import landscape
from tests.cli.profiles import two_verifiers

from .twins import all_trees, product_sum


def test_trees_are_the_best_of_their_size_and_depth():
    profile = two_verifiers()
    plan = solve(profile, solver="fixed")
    found = landscape(profile, plan)
    acceptance = np.array(plan.predicted.acceptance)
    places = {(each.tree.num_nodes, each.tree.depth): each for each in found.candidates}
    assert len(places) == len(found.candidates)
    for size in (2, 3, 4, 5, 6):
        best: dict[int, float] = {}
        for tree in all_trees(size):
            if tree.num_children.max() <= len(acceptance):
                tokens = product_sum(tree, acceptance)
                best[tree.depth] = max(best.get(tree.depth, 0.0), tokens)
        for depth, tokens in best.items():
            held = places.get((size, depth))
            if held is not None:
                assert held.tokens_per_step.value == pytest.approx(tokens, rel=1e-12)
        assert (size, min(best)) in places


def test_the_plan_stands_in_it_and_the_best_of_a_size_is_the_fastest():
    profile = two_verifiers()
    plan = solve(profile, solver="fixed")
    found = landscape(profile, plan)
    fastest = max(found.best, key=lambda each: each.tokens_per_ms)
    assert fastest.speedup.value == pytest.approx(plan.predicted.speedup.value, rel=1e-12)
    for each in found.best:
        alike = [c for c in found.candidates if c.tree.num_nodes == each.tree.num_nodes]
        assert each.tokens_per_ms == max(c.tokens_per_ms for c in alike)
    assert sum(map(len, found.by_depth.values())) == len(found.candidates)
