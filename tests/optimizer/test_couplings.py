"""Acceptance at one node: against every draw, every token set and a linear programme."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from planner import PlannerError
from planner.optimizer import acceptance_rates, optimal_acceptance
from planner.optimizer.couplings import COUPLINGS
from planner.optimizer.rejection import _fill_sampled, _second_rate

from .twins import law_of_children, rrsw_by_enumeration

EPS = np.finfo(float).eps


def pairs(vocabulary=5, count=6, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(vocabulary, 0.6), size=count)
    q = rng.dirichlet(np.full(vocabulary, 0.6), size=count)
    hot = np.eye(vocabulary)
    even = np.full(vocabulary, 1 / vocabulary)
    half = np.zeros(vocabulary)
    half[:2] = 0.5
    special = [
        (p[0], p[0]),
        (hot[0], hot[0]),
        (hot[0], hot[1]),
        (p[0], hot[-1]),
        (hot[-1], q[0]),
        (even, half),
        (half, even),
        (half[::-1], half),
        (even, even),
    ]
    return [*zip(p, q, strict=True), *special]


@pytest.mark.parametrize("num_children", [1, 2, 3, 4, 5])
def test_rrsw_is_the_enumeration_of_every_draw(num_children):
    for p, q in pairs():
        rates = acceptance_rates(p, q, "rrsw", num_children)
        assert rates == pytest.approx(rrsw_by_enumeration(p, q, num_children), abs=1e3 * EPS)


@pytest.mark.parametrize("vocabulary", [2, 7, 63])
def test_second_rank_by_sorting_is_the_sum_over_rejected_tokens(vocabulary):
    for p, q in pairs(vocabulary):
        excess, lack = np.maximum(q - p, 0), np.maximum(p - q, 0)
        slow = 0.0
        for x in np.flatnonzero(excess) if lack.sum() > 0 else []:
            draft = np.where(np.arange(vocabulary) == x, 0, q)
            if draft.sum() == 0:
                draft = (np.arange(vocabulary) != x).astype(float)
            slow += excess[x] * np.minimum(lack / lack.sum(), draft / draft.sum()).sum()
        assert _second_rate(p, q) == pytest.approx(slow, abs=1e3 * vocabulary * EPS)


def test_second_rank_survives_a_draft_that_is_nearly_certain():
    """q leaves 1e-12 to two tokens; after the first is rejected they share it 3 : 1.

    p on those two is even, so R1 = (1/2, 1/2), D = (3/4, 1/4): acceptance (1 - 1e-12) * 3/4.
    """
    q = np.array([1 - 1e-12, 0.75e-12, 0.25e-12])
    rates = acceptance_rates([0.0, 0.5, 0.5], q, "rrsw", 2)
    assert rates[1] == pytest.approx(0.75, abs=1e-11)


def test_sampled_ranks_are_unbiased():
    """32 paths, 300 times over: mean within 5 standard errors of the enumeration."""
    p, q = pairs(6, seed=3)[0]
    exact = rrsw_by_enumeration(p, q, 5)
    rng = np.random.default_rng(0)
    samples = np.zeros((300, 5))
    for sample in samples:
        _fill_sampled(p, q, rng.random((32, 4)), sample)
    errors = samples.std(axis=0) / np.sqrt(len(samples))
    assert (np.abs(samples.mean(axis=0) - exact)[2:] <= 5 * errors[2:] + 1e-12).all()


def test_large_vocabularies_are_sampled_the_same_way_every_time():
    p, q = pairs(100)[0]
    first = acceptance_rates(p, q, "rrsw", 7)
    assert np.array_equal(first, acceptance_rates(p, q, "rrsw", 7))
    other = acceptance_rates(p, q, "rrsw", 7, np.random.default_rng(5))
    assert np.array_equal(first[:2], other[:2])
    assert not np.array_equal(first[2:], other[2:])


def test_topk_takes_the_targets_mass_on_the_drafts_favourites():
    p, q = [0.1, 0.2, 0.3, 0.4], [0.3, 0.1, 0.3, 0.3]
    assert acceptance_rates(p, q, "topk", 4).tolist() == [0.1, 0.3, 0.4, 0.2]


def test_spechubs_worked_example():
    """q = [.5, .3, .2], p = [.1, .6, .3]: rrsw rejects both with probability .06, the optimum 0."""
    p, q = [0.1, 0.6, 0.3], [0.5, 0.3, 0.2]
    assert 1 - acceptance_rates(p, q, "rrsw", 2).sum() == pytest.approx(0.06, abs=16 * EPS)
    assert optimal_acceptance(p, q, 2, False) == pytest.approx(1, abs=16 * EPS)


@pytest.mark.parametrize("verifier", COUPLINGS)
def test_acceptance_laws(verifier):
    for p, q in pairs(7):
        whole = acceptance_rates(p, q, verifier, 6)
        assert (whole >= 0).all()
        assert whole.sum() <= 1 + 64 * EPS
        for k in range(1, 6):  # earlier ranks do not know how many follow
            part = acceptance_rates(p, q, verifier, k)
            assert part == pytest.approx(whole[:k], abs=1e3 * EPS)


@pytest.mark.parametrize("num_children", [1, 2, 3, 4])
def test_no_verifier_beats_the_optimum(num_children):
    for p, q in pairs(6):
        rates = acceptance_rates(p, q, "rrsw", num_children).sum()
        assert rates <= optimal_acceptance(p, q, num_children, False) + 1e-10


@pytest.mark.parametrize("verifier", COUPLINGS)
def test_equal_models_accept_the_first_child(verifier):
    p = np.eye(5)[3]
    assert acceptance_rates(p, p, verifier, 3).tolist() == [1.0, 0.0, 0.0]
    rates = acceptance_rates(np.full(5, 0.2), np.full(5, 0.2), "rrsw", 2)
    assert rates.tolist() == [1.0, 0.0]


def test_any_leading_shape_is_kept():
    p, q = map(np.array, zip(*pairs(count=3), strict=True))
    p, q = p.reshape(2, 6, 5), q.reshape(2, 6, 5)
    for verifier in COUPLINGS:
        rates = acceptance_rates(p, q, verifier, 3)
        assert rates.shape == (2, 6, 3)
        assert np.array_equal(rates[1, 4], acceptance_rates(p[1, 4], q[1, 4], verifier, 3))
    bounds = optimal_acceptance(p, q, 3, True)
    assert bounds.shape == (2, 6)
    assert bounds[1, 4] == optimal_acceptance(p[1, 4], q[1, 4], 3, True)


CASES = [(1, True), (2, True), (3, True), (5, True), (1, False), (2, False), (3, False), (4, False)]


@pytest.mark.parametrize(("num_children", "replacement"), CASES)
def test_optimum_is_the_smallest_cut_over_all_token_sets(num_children, replacement):
    """Tolerance: sums round off by some EPS; the quadrature is good to 1e-11."""
    for p, q in pairs():
        law = law_of_children(q, num_children, replacement)
        cut = 0.0
        for size in range(1, 6):
            for tokens in itertools.combinations(range(5), size):
                inside = sum(weight for drawn, weight in law.items() if set(drawn) <= set(tokens))
                cut = min(cut, sum(p[x] for x in tokens) - inside)
        bound = optimal_acceptance(p, q, num_children, replacement)
        assert bound == pytest.approx(1 + cut, abs=1e-11)


@pytest.mark.parametrize(("num_children", "replacement"), [(2, True), (2, False), (3, False)])
def test_optimum_is_the_transport_programme(num_children, replacement):
    """Variables: how much of each draw becomes each of its tokens.  Solver tolerance 1e-7."""
    for p, q in pairs(4):
        law = law_of_children(q, num_children, replacement)
        flows = [(d, x) for d, drawn in enumerate(law) for x in sorted(set(drawn))]
        supply = np.array([[d == i for d, _ in flows] for i in range(len(law))], float)
        demand = np.array([[x == y for _, x in flows] for y in range(4)], float)
        found = linprog(
            -np.ones(len(flows)),
            A_ub=np.vstack([supply, demand]),
            b_ub=np.concatenate([list(law.values()), p]),
        )
        bound = optimal_acceptance(p, q, num_children, replacement)
        assert bound == pytest.approx(-found.fun, abs=2e-7)


@pytest.mark.parametrize("replacement", [True, False])
def test_one_child_accepts_the_overlap(replacement):
    for p, q in pairs(63):
        overlap = np.minimum(p, q).sum()
        assert optimal_acceptance(p, q, 1, replacement) == pytest.approx(overlap, abs=256 * EPS)


def test_all_tokens_as_children_cannot_miss():
    for p, q in pairs():
        assert optimal_acceptance(p, q, 5, False) == pytest.approx(1, abs=64 * EPS)


def test_second_child_by_quadrature_is_the_closed_form():
    """The clocks hold for k = 2 as well; cut off at s = 1e-4 they then miss up to 1e-12 / 2."""
    from planner.optimizer.transport_bound import _fill_inside, _inside_without_replacement

    q = np.sort(np.random.default_rng(0).dirichlet(np.ones(100)))[::-1].copy()
    outside = np.append(np.cumsum(q[:0:-1])[::-1], 0.0)
    times = np.exp(np.arange(np.log(1e-4), np.log(40 / outside[-2]), 0.2))
    inside = np.zeros(100)
    _fill_inside(q, outside, times, 2, inside)
    assert inside[:-1] == pytest.approx(_inside_without_replacement(q, 2)[:-1], abs=1e-11)


@pytest.mark.parametrize("call", [
    lambda p, q, k: acceptance_rates(p, q, "rrsw", k),
    lambda p, q, k: optimal_acceptance(p, q, k, False),
])  # fmt: skip
@pytest.mark.parametrize(
    ("p", "q", "num_children", "fault"),
    [
        ([0.5, 0.6], [0.5, 0.5], 1, "p: a distribution sums to 1.1, 0.1 above 1"),
        ([0.5, 0.5], [0.5, 0.4], 1, "q: a distribution sums to 0.9, 0.1 below 1"),
        ([1.5, -0.5], [0.5, 0.5], 1, "p: contains -0.5"),
        ([np.nan, 1], [0.5, 0.5], 1, "p: contains NaN"),
        ([0.0, 0.0], [0.5, 0.5], 1, "p: a distribution sums to 0"),
        ([1.0], [0.5, 0.5], 1, r"q: got shape \(2,\), expected that of p, \(1,\)"),
        ([0.5, 0.5], [0.5, 0.5], 0, r"num_children: got 0, expected 1\.\.2"),
        ([0.5, 0.5], [0.5, 0.5], 3, r"num_children: got 3, expected 1\.\.2"),
        (1.0, 1.0, 1, "p: got an array of shape"),
    ],
)
def test_wrong_input_is_named(call, p, q, num_children, fault):
    with pytest.raises(PlannerError, match=fault):
        call(p, q, num_children)


def test_unknown_verifier_is_refused_with_those_there_are():
    with pytest.raises(PlannerError, match="verifier: got 'magic', expected one of rrsw, topk"):
        acceptance_rates([1.0], [1.0], "magic", 1)


def test_float32_softmax_is_good_input():
    logits = np.random.default_rng(0).normal(size=32_000).astype(np.float32) * 3
    p = np.exp(logits - logits.max())
    p /= p.sum(dtype=np.float32)
    assert acceptance_rates(p, p, "rrsw", 2).tolist() == pytest.approx([1, 0], abs=1e3 * EPS)
