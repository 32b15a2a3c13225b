"""The best tree of n nodes: against every tree, a plain recursion, and published values."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import PlannerError
from planner.estimates.law import AcceptanceLaw
from planner.optimizer import best_tree, expected_tokens, frontier
from planner.trees.best_first import BestFirst
from planner.trees.programme import Programme

from .twins import all_trees, best_by_recursion, catalan, product_sum

EPS = np.finfo(float).eps
REFERENCE = Path(__file__).parents[3] / "shared" / "data" / "sequoia_demo_acceptance.json"

VECTORS = {
    "falling": [0.6, 0.2, 0.1],
    "rising": [0.1, 0.2, 0.6],
    "hole": [0.5, 0.0, 0.3],
    "zeros": [0.0, 0.0, 0.0],
    "leading zero": [0.0, 0.9],
    "one rank": [0.7],
    "ties": [0.25, 0.25, 0.25, 0.25],
    "certain": [1.0],
    "long": [0.3, 0.05, 0.2, 0.0, 0.1, 0.04, 0.05, 0.01],
}


@st.composite
def vectors(draw, most_ranks=6):
    """Vectors summing to at most 1, with zeros and rises."""
    weights = draw(st.lists(st.sampled_from([0, 0, 1, 2, 5, 9]), min_size=1, max_size=most_ranks))
    total = max(sum(weights), 1)
    return np.array(weights) / total * draw(st.sampled_from([0.3, 0.9, 1.0]))


def rounding(num_nodes, value):
    """Sums of `num_nodes` products taken in two orders differ by roundings of each partial sum."""
    return 4 * num_nodes * EPS * max(value, 1)


@pytest.mark.parametrize("size", range(1, 9))
def test_the_brute_force_sees_every_tree(size):
    trees = all_trees(size)
    assert len(set(trees)) == len(trees) == catalan(size - 1)


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_no_tree_beats_the_frontier(name, size):
    acceptance = VECTORS[name]
    table = frontier(acceptance, size, size)
    scores = dict.fromkeys(range(size + 1), -np.inf)
    for tree in all_trees(size):
        if tree.num_children.max() <= len(acceptance):
            for depth in range(tree.depth, size + 1):
                scores[depth] = max(scores[depth], product_sum(tree, acceptance))
    for depth, score in scores.items():
        if score == -np.inf:
            assert table[size, depth] == -np.inf
        else:
            assert table[size, depth] == pytest.approx(score, abs=rounding(size, score))


@pytest.mark.parametrize("name", VECTORS)
def test_frontier_is_the_plain_recursion(name):
    acceptance = VECTORS[name]
    table = frontier(acceptance, 17, 5)
    for size in (1, 2, 6, 11, 17):
        for depth in range(6):
            slow = best_by_recursion(tuple(acceptance), size, depth)
            if slow == -np.inf:
                assert table[size, depth] == -np.inf
            else:
                assert table[size, depth] == pytest.approx(slow, abs=rounding(size, slow))


@pytest.mark.skipif(not REFERENCE.exists(), reason="reference values do not ship with the project")
@pytest.mark.parametrize("layers", [10, 24])
def test_published_vector_gives_the_reference_values(layers):
    reference = json.loads(REFERENCE.read_text())
    values = reference["expected_tokens"]["values"][f"layers={layers}"]
    table = frontier(reference["acceptance"], max(map(int, values)), layers - 1)
    for num_nodes, value in values.items():
        assert table[int(num_nodes), layers - 1] == pytest.approx(value, abs=1e-9)
        tree = best_tree(reference["acceptance"], int(num_nodes), layers - 1)
        assert tree.depth <= layers - 1
        assert expected_tokens(tree, reference["acceptance"]) == pytest.approx(value, abs=1e-9)


def test_four_nodes_by_hand():
    """The second of chain 1+.6+.36+.216, 1+.6+.3+.36 and 1+.6+.3+.1 is the best."""
    assert frontier([0.6, 0.3, 0.1], 4, 3)[4].tolist() == pytest.approx([-np.inf, 2.0, 2.26, 2.26])
    assert best_tree([0.6, 0.3, 0.1], 4).parents.tolist() == [-1, 0, 0, 1]


def test_a_useless_first_child_is_still_needed_by_a_useful_second():
    """Three nodes of [0, .9]: root with two children 1 + 0 + .9; any chain scores 1."""
    assert best_tree([0.0, 0.9], 3).parents.tolist() == [-1, 0, 0]
    assert frontier([0.0, 0.9], 3, 2)[3].tolist() == [-np.inf, 1.9, 1.9]


def test_one_rank_gives_chains():
    table = frontier([0.5], 6, 4)
    for size in range(1, 7):
        for depth in range(5):
            feasible = size <= depth + 1
            assert table[size, depth] == (2 - 0.5 ** (size - 1) if feasible else -np.inf)


@given(vectors(), st.integers(1, 40), st.integers(0, 6))
@settings(max_examples=40, deadline=None)
def test_frontier_laws(acceptance, max_nodes, max_depth):
    table = frontier(acceptance, max_nodes, max_depth)
    assert table.shape == (max_nodes + 1, max_depth + 1)
    assert table.dtype == np.float64
    assert not np.isnan(table).any()
    assert (table[0] == -np.inf).all()
    assert (table[1] == 1.0).all()
    finite = np.where(np.isfinite(table), table, -1.0)
    assert (np.diff(finite, axis=1) >= -rounding(max_nodes, finite.max())).all()
    k = len(acceptance)
    for depth in range(max_depth + 1):
        capacity = sum(k**level for level in range(depth + 1))
        exists = np.isfinite(table[1:, depth])
        assert exists.tolist() == [size <= capacity for size in range(1, max_nodes + 1)]


@given(vectors(), st.integers(1, 30), st.integers(0, 8))
@settings(max_examples=60, deadline=None)
def test_best_tree_is_on_the_frontier(acceptance, num_nodes, depth):
    value = frontier(acceptance, num_nodes, depth)[num_nodes, depth]
    if value == -np.inf:
        with pytest.raises(PlannerError, match=f"{num_nodes}.*fill at most"):
            best_tree(acceptance, num_nodes, depth)
        return
    tree = best_tree(acceptance, num_nodes, depth)
    assert tree.num_nodes == num_nodes
    assert tree.depth <= depth
    assert (np.diff(tree.parents) >= 0).all()  # level order, siblings together
    assert tree == best_tree(acceptance, num_nodes, depth)
    tokens = expected_tokens(tree, acceptance)
    assert tokens == pytest.approx(value, abs=rounding(num_nodes, value))


@given(vectors(), st.integers(1, 60), st.integers(0, 7))
@settings(max_examples=40, deadline=None)
def test_best_first_is_the_programme_where_acceptance_falls(acceptance, max_nodes, max_depth):
    acceptance = np.sort(acceptance)[::-1].copy()
    law = AcceptanceLaw.by_rank(acceptance)
    fast = BestFirst(law, max_nodes, max_depth).expected_tokens
    slow = Programme(law, max_nodes, max_depth).expected_tokens
    assert (np.isfinite(fast) == np.isfinite(slow)).all()
    reached = np.isfinite(fast)
    assert np.allclose(fast[reached], slow[reached], rtol=0, atol=rounding(max_nodes, fast.max()))


@pytest.mark.parametrize("search", [BestFirst, Programme])
@pytest.mark.parametrize("name", ["falling", "ties", "one rank", "certain"])
def test_drafting_time_is_that_of_the_levels_below_the_root(search, name):
    draft_ms = np.array([np.nan, 1.0, 1.5, 7.0, 2.0, 2.5, 2.25] + [np.inf] * 30)
    trees = search(AcceptanceLaw.by_rank(VECTORS[name]), 23, 5)
    table = trees.drafting_ms(draft_ms)
    for size in range(1, 24):
        for depth in range(6):
            tree = trees.tree(size, depth)
            if tree is None:
                assert table[size, depth] == np.inf
            else:
                spent = sum(draft_ms[width] for width in tree.widths[1:])
                assert table[size, depth] == pytest.approx(spent, rel=24 * EPS)


@pytest.mark.parametrize("acceptance", [[0.9, 0.001, 0.05], [0.9, 0.05, 0.001]])
def test_best_tree_without_a_depth_goes_as_deep_as_pays(acceptance):
    deep = best_tree(acceptance, 100)
    value = frontier(acceptance, 100, 99)[100, 99]
    assert deep.depth > 32
    assert expected_tokens(deep, acceptance) == pytest.approx(value, abs=rounding(100, value))


@pytest.mark.parametrize(
    ("acceptance", "fault"),
    [
        ([0.5, np.nan], "acceptance: contains NaN"),
        ([0.5, -0.1], "acceptance: contains -0.1"),
        ([0.7, 0.4], "acceptance: sums to 1.1, 0.1 above 1"),
        ([], "acceptance: got an array of shape"),
        ([[0.5]], "acceptance: got an array of shape"),
        ("high", "acceptance: got 'high'"),
        ([0.5, np.inf], "acceptance: contains NaN or infinity"),
    ],
)
def test_wrong_acceptance_is_named(acceptance, fault):
    for call in (lambda: frontier(acceptance, 4, 2), lambda: best_tree(acceptance, 4)):
        with pytest.raises(PlannerError, match=fault):
            call()


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ((0, 2), "max_nodes: got 0"),
        ((2, -1), "max_depth: got -1"),
        ((2.5, 1), "max_nodes: got 2.5"),
        ((True, 1), "max_nodes: got True"),
        ((10**400, 2), r"max_nodes: got 10*, expected 1\.\.65536"),
        ((2, 10**400), r"max_depth: got 10*, expected 0\.\.65536"),
    ],
)
def test_wrong_limits_are_named(arguments, fault):
    with pytest.raises(PlannerError, match=fault):
        frontier([0.5], *arguments)


def test_a_tree_of_more_nodes_than_anyone_verifies_is_refused():
    with pytest.raises(PlannerError, match=r"num_nodes: got 10*, expected 1\.\.65536"):
        best_tree([0.5], 10**400)


def test_float32_rounding_of_a_sum_is_no_fault():
    acceptance = np.full(7, 1 / 7, np.float32)
    assert acceptance.astype(np.float64).sum() != 1
    assert frontier(acceptance, 8, 1)[8, 1] == pytest.approx(2, abs=7 * 2.0**-24)
