"""The linear programmes: their laws, their couplings, and the fast forms against them."""

import itertools

import numpy as np
import pytest

from planner import PlannerError
from planner.optimizer import acceptance_rates, optimal_acceptance
from planner.verifiers.transport_lp import LAWS, best_transport, cut_value, joint_law

from . import one_node
from .distributions import FAMILIES, family, pairs

EPS = np.finfo(float).eps
TWINS = {
    "independent": one_node.independent,
    "without replacement": one_node.without_replacement,
    "top": one_node.most_probable,
    "hub": one_node.hub_pairs,
}
MOST_TOKENS = {1: 30, 2: 30, 3: 14, 4: 8, 5: 6}
"""The vocabulary by number of children that keeps a programme within some 20 ms."""


def served(sizes, laws=tuple(LAWS)):
    """(law, vocabulary, num_children), without what the hub's law of pairs does not have."""
    return [(law, *size) for law in laws for size in sizes if law != "hub" or size[1] <= 2]


def fast(p, q, law, num_children):
    if law == "hub":
        return acceptance_rates(p, q, "spechub", num_children).sum()
    return float(optimal_acceptance(p, q, num_children, law == "independent"))


def some(kind, law, count, seed=0):
    """(p, q, law, num_children) of every size that the law and the programme allow."""
    rng = np.random.default_rng([seed, FAMILIES.index(kind), list(LAWS).index(law)])
    for case in range(count):
        num_children = case % (2 if law == "hub" else 5) + 1
        least = 2 if law == "independent" else max(2, num_children)
        vocabulary = int(rng.integers(least, MOST_TOKENS[num_children] + 1))
        yield *family(kind, vocabulary, rng), law, num_children


@pytest.mark.parametrize(
    ("law", "vocabulary", "num_children"), served([(2, 1), (2, 2), (4, 3), (5, 2)])
)
def test_a_law_is_every_draw_with_its_chance(law, vocabulary, num_children):
    for _, q in pairs(vocabulary):
        found = joint_law(q, law, num_children)
        draws = map(tuple, found.draws.tolist())
        expected = TWINS[law]([float(x) for x in q], num_children)
        assert dict(zip(draws, found.weights, strict=True)) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("law", ["independent", "without replacement", "hub"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_fast_optimum_is_the_linear_programmes(kind, law):
    """24 times 25 programmes: at least what is reached, at most what is proven, both within 1e-6.

    For the hub's law the fast form is SpecHub itself: its total is the optimum of its law.
    """
    for p, q, _, num_children in some(kind, law, 25):
        found = best_transport(p, joint_law(q, law, num_children))
        value = fast(p, q, law, num_children)
        assert found.acceptance - 1e-12 <= value <= found.bound + 1e-12
        assert found.bound - found.acceptance <= 1e-6


@pytest.mark.parametrize("law", LAWS)
def test_a_coupling_has_the_laws_it_couples(law):
    for kind in FAMILIES:
        for p, q, _, num_children in some(kind, law, 4 if law != "hub" else 2):
            children = joint_law(q, law, num_children)
            found = best_transport(p, children)
            assert (found.coupling >= 0).all()
            assert found.coupling.sum(axis=1) == pytest.approx(children.weights, abs=64 * EPS)
            assert found.coupling.sum(axis=0) == pytest.approx(p, abs=64 * EPS)
            accepted = found.coupling[children.members].sum()
            assert accepted == pytest.approx(found.acceptance, abs=64 * EPS)


SMALL = [(2, 1), (2, 2), (10, 1), (10, 2), (10, 3), (9, 4), (7, 5)]


@pytest.mark.parametrize(
    ("law", "vocabulary", "num_children"),
    served(SMALL, ["independent", "without replacement", "hub"]),
)
def test_optimum_is_the_smallest_cut_over_all_token_sets(law, vocabulary, num_children):
    rng = np.random.default_rng(0)
    for kind in FAMILIES:
        p, q = family(kind, vocabulary, rng)
        value = fast(p, q, law, num_children)
        every = cuts(p, joint_law(q, law, num_children))
        assert value == pytest.approx(every.min(), abs=1e-12)


def cuts(p, law):
    """float64 [2^V]: 1 + p(H) - P(all children in H) for each set H, a bit a token."""
    inside = np.zeros(1 << law.vocabulary)
    np.add.at(inside, np.bitwise_or.reduce(1 << law.draws, axis=1), law.weights)
    weight = np.zeros(1)
    for token in range(law.vocabulary):  # sums over subsets, a token at a time
        halves = inside.reshape(-1, 2, 1 << token)
        halves[:, 1] += halves[:, 0]
        weight = np.concatenate([weight, weight + p[token]])
    return 1 + weight - inside


def test_all_cuts_are_those_counted_one_by_one():
    for p, q in pairs(4)[:5]:
        law = joint_law(q, "without replacement", 2)
        sets = itertools.product([0, 1], repeat=4)
        slow = [cut_value(p, law, [x for x in range(4) if chosen[3 - x]]) for chosen in sets]
        assert cuts(p, law) == pytest.approx(slow, abs=16 * EPS)


def test_spechubs_worked_example_leaves_nothing():
    p, q = [0.1, 0.6, 0.3], [0.5, 0.3, 0.2]
    assert best_transport(p, joint_law(q, "without replacement", 2)).acceptance == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (lambda: joint_law([0.5, 0.5], "magic", 1), "law: got 'magic', expected one of indep"),
        (lambda: joint_law([0.5, 0.5], "hub", 3), r"num_children: got 3, expected 1\.\.2"),
        (lambda: joint_law([0.5, 0.5], "top", 3), r"num_children: got 3, expected 1\.\.2"),
        (lambda: joint_law(np.full(100, 0.01), "independent", 3), "num_children: got 3 over 100"),
        (lambda: joint_law([0.5, 0.6], "top", 1), "q: a distribution sums to 1.1"),
        (lambda: joint_law([[0.5, 0.5]], "top", 1), r"q: got an array of shape \(1, 2\)"),
        (lambda: best_transport([1.0], joint_law([0.5, 0.5], "top", 1)), "p: got 1 tokens"),
    ],
)
def test_wrong_input_is_named(call, fault):
    with pytest.raises(PlannerError, match=fault):
        call()
