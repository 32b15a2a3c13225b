"""Laws by depth and by number of siblings: the best trees under them, and how they are read."""

import numpy as np
import pytest

from planner import PlannerError, Tree
from planner.estimates.bootstrap import differ
from planner.estimates.evidence import Traces, recorded
from planner.estimates.law import AcceptanceLaw
from planner.trees.frontier import deep_search, search
from planner.trees.programme import Programme

from . import factory
from .test_acceptance import TREES, random_text
from .twins import all_trees, rounds_by_dictionary

EPS = np.finfo(float).eps


def random_law(seed: int, *, depths: int, num_ranks: int, siblings: bool, falling: bool = False):
    rng = np.random.default_rng(seed)
    rates = np.zeros((depths, num_ranks if siblings else 1, num_ranks))
    for depth, count in np.ndindex(*rates.shape[:2]):
        ranks = count + 1 if siblings else num_ranks
        row = rng.dirichlet(np.full(ranks + 1, 0.5))[:ranks]
        row[rng.random(ranks) < 0.2] = 0.0
        rates[depth, count, :ranks] = np.sort(row)[::-1] if falling else row
    return AcceptanceLaw(rates)


def path_sum(tree: Tree, law: AcceptanceLaw) -> float:
    """Expected tokens, node by node along its path."""
    total = 0.0
    for node in range(len(tree)):
        reach = 1.0
        while node:
            parent = int(tree.parents[node])
            rates = law.of_children(int(tree.depths[parent]), int(tree.num_children[parent]))
            reach *= rates[tree.ranks[node]]
            node = parent
        total += reach
    return total


@pytest.mark.parametrize("siblings", [False, True])
@pytest.mark.parametrize("depths", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_no_tree_beats_the_best_under_any_law(seed, depths, siblings):
    law = random_law(seed, depths=depths, num_ranks=3, siblings=siblings)
    for size in (1, 2, 5, 7):
        table = search(law, size, size).expected_tokens
        for depth in range(size):
            scores = [
                path_sum(tree, law)
                for tree in all_trees(size)
                if tree.depth <= depth and tree.num_children.max() <= 3
            ]
            best = max(scores, default=-np.inf)
            assert table[size, depth] == pytest.approx(best, rel=32 * EPS)
            tree = search(law, size, size).tree(size, depth)
            assert (tree is None) == (best == -np.inf)
            if tree is not None:
                assert tree.depth <= depth
                assert law.expected_tokens(tree) == pytest.approx(best, rel=32 * EPS)


@pytest.mark.parametrize("depths", [1, 2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_best_first_is_the_programme_for_laws_that_fall_at_every_depth(seed, depths):
    law = random_law(seed, depths=depths, num_ranks=5, siblings=False, falling=True)
    assert law.is_greedy
    fast, slow = search(law, 63, 9), Programme(law, 63, 9)
    np.testing.assert_allclose(fast.expected_tokens, slow.expected_tokens, rtol=4 * 63 * EPS)
    tree = fast.tree(63, 9)
    assert law.expected_tokens(tree) == pytest.approx(slow.expected_tokens[63, 9], rel=252 * EPS)


def test_one_law_for_all_depths_is_the_plain_programme():
    law = random_law(3, depths=1, num_ranks=4, siblings=False)
    thrice = AcceptanceLaw(np.repeat(law.rates, 3, axis=0))
    np.testing.assert_array_equal(
        Programme(law, 40, 8).expected_tokens, Programme(thrice, 40, 8).expected_tokens
    )


def test_deep_trees_are_found_without_a_limit_on_depth():
    law = AcceptanceLaw(np.array([[[0.2, 0.5]], [[0.98, 0.001]]]))
    tree = deep_search(law, 60, 59)
    assert tree is not None
    assert tree.depth > 40
    assert tree.parents.tolist()[:3] == [-1, 0, 0]


def test_siblings_can_make_fewer_children_better():
    """A lone child .9; two of them .5 and .1: a chain of three beats the pair, 2.71 to 1.6."""
    rates = np.array([[[0.9, 0.0], [0.5, 0.1]]])
    tree = search(AcceptanceLaw(rates), 3, 2).tree(3, 2)
    assert tree == Tree([-1, 0, 1])
    assert AcceptanceLaw(rates).expected_tokens(tree) == pytest.approx(1 + 0.9 + 0.81)
    assert AcceptanceLaw(rates).expected_tokens(Tree([-1, 0, 0])) == pytest.approx(1.6)


def test_columns_of_a_profile_become_a_law():
    law = AcceptanceLaw.from_columns(np.array([[0.9, 0.5, 0.1, 0.4, 0.2, 0.1]]), False)
    assert law.rates.tolist() == [[[0.9, 0, 0], [0.5, 0.1, 0], [0.4, 0.2, 0.1]]]
    assert law.limited(2).rates.tolist() == [[[0.9, 0], [0.5, 0.1]]]
    assert law.limited(None) is law.limited(3) is law
    assert law.of_children(7, 2).tolist() == [0.5, 0.1]
    ranks = AcceptanceLaw.from_columns(np.array([[0.5, 0.2], [0.6, 0.1]]), True)
    assert ranks.of_children(0, 1).tolist() == [0.5]
    assert ranks.of_children(3, 2).tolist() == [0.6, 0.1]
    assert ranks.limited(1).rates.tolist() == [[[0.5]], [[0.6]]]
    assert ranks != law


def test_a_rise_that_cannot_be_is_evened_out():
    """Least squares under the order: neighbours that are out of order get their mean."""
    law = AcceptanceLaw.by_rank([0.5, 0.1, 0.2, 0.05]).non_increasing()
    assert law.rates[0, 0].tolist() == pytest.approx([0.5, 0.15, 0.15, 0.05])
    siblings = AcceptanceLaw(np.array([[[0.3, 0.0], [0.2, 0.4]]])).non_increasing()
    assert siblings.rates[0].tolist() == [[0.3, 0.0], pytest.approx([0.3, 0.3])]


def test_vectors_that_sum_above_one_are_refused():
    with pytest.raises(PlannerError, match=r"acceptance: sums to 1\.2"):
        AcceptanceLaw.by_rank([0.7, 0.5])


@pytest.mark.parametrize("name", TREES)
def test_rounds_with_siblings_are_the_dictionary_recursion(name):
    """Each node of the tree looks up the column of its own number of siblings."""
    tree, num_ranks, length = TREES[name], 3, 63
    by_count = [random_text(seed, length, count) for seed, count in enumerate(range(1, 4))]
    rows = np.concatenate(by_count, axis=1)
    columns = np.zeros((length, len(tree), num_ranks))
    for node in range(len(tree)):
        count = int(tree.num_children[node])
        if count:
            columns[:, node, :count] = by_count[count - 1]
    evidence = Traces(rows, np.array([0, length]), rows, by_rank_alone=False)
    rounds, visits = rounds_by_dictionary(tree, columns, by_node=True)
    prediction = evidence.predict(tree)
    close = {"rel": 1e3 * length * EPS, "abs": 1e3 * length * EPS}
    assert prediction.tokens_per_step.value == pytest.approx(length / rounds, **close)
    for node in range(len(tree)):
        assert prediction.reach[node] == pytest.approx(visits[node] / rounds, **close)


def test_more_siblings_than_were_measured_are_refused():
    rows = np.full((5, 3), 0.2)
    evidence = Traces(rows, np.array([0, 5]), rows, by_rank_alone=False)
    assert evidence.law.num_ranks == 2
    with pytest.raises(PlannerError, match=r"a node with 3 children, .* have 2 ranks"):
        evidence.predict(Tree([-1, 0, 0, 0]))


def test_expected_acceptance_is_what_counts_where_a_round_comes_by():
    """Two positions; the token's luck decides where rounds start, not what they are worth.

    At 0 the child is accepted with .5 before the token is known, and was (1) given the token: one
    round from 0, none at 1.  Its child is worth .5, so the round is worth 1.5 tokens and not 2.
    """
    evidence = Traces(
        np.array([[1.0], [0.0]]), np.array([0, 2]), expected=np.array([[0.5], [0.25]])
    )
    prediction = evidence.predict(Tree([-1, 0]))
    assert prediction.tokens_per_step.value == 1.5
    assert evidence.law.rates.tolist() == [[[0.375]]]
    assert evidence.law_inside(Tree([-1, 0])).rates.tolist() == [[[0.5]]]


def test_depths_are_told_apart_only_beyond_chance():
    rng = np.random.default_rng(0)
    weights = rng.uniform(1, 3, size=(40, 2))
    noise = rng.normal(0, 0.05, size=(40, 2))
    same = (weights * (0.5 + noise))[:, :, None]
    apart = (weights * (np.array([0.5, 0.7]) + noise))[:, :, None]
    assert not differ(same, weights)
    assert differ(apart, weights)
    assert not differ(apart[:, :1], weights[:, :1])
    assert not differ(apart[:2], weights[:2])


def test_false_alarms_are_as_rare_as_they_should_be():
    """No difference at all: at most 5 % of 400 trials, and 4 standard errors."""
    rng = np.random.default_rng(5)
    alarms = 0
    for _ in range(400):
        weights = rng.uniform(1, 3, size=(30, 3))
        sums = weights * (0.5 + rng.normal(0, 0.1, size=(30, 3)))
        alarms += differ(sums[:, :, None], weights)
    assert alarms / 400 <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 400)


def test_acceptance_by_depth_holds_inside_the_tree():
    """Rounds start on a bad position and go on over good ones: two laws, told apart."""
    rows = np.tile([[0.3], [0.9], [0.9]], (30, 1))
    rng = np.random.default_rng(1)
    texts = [np.clip(rows + rng.normal(0, 0.02, rows.shape), 0, 1) for _ in range(12)]
    profile = factory.profile([factory.traced(texts)])
    evidence = recorded(profile, profile.acceptance[0])
    law = evidence.law_inside(Tree([-1, 0, 1]))
    assert law.rates.shape == (2, 1, 1)
    assert law.rates[0, 0, 0] < law.rates[1, 0, 0]
