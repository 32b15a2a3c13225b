"""Acceptance at one node: against every draw, every token set and a linear programme."""

import itertools
import tracemalloc

import numpy as np
import pytest
from scipy.optimize import linprog

from planner import PlannerError
from planner.optimizer import acceptance_rates, optimal_acceptance
from planner.verifiers import VERIFIERS, rejected_paths
from planner.verifiers.rates import estimated_acceptance, most_children
from planner.verifiers.rrsw_rates import LEAST_SORTED, next_rate
from planner.verifiers.transport_lp import best_transport, joint_law

from .distributions import FAMILIES, family, law_of_children, pairs, rrsw_by_enumeration

EPS = np.finfo(float).eps


@pytest.mark.parametrize("num_children", [1, 2, 3, 4, 5])
def test_rrsw_is_the_enumeration_of_every_draw(num_children):
    """The last rank of 17 tokens is sorted, of 5 it is followed."""
    assert 5 < LEAST_SORTED <= 17
    for p, q in [*pairs(), *(pairs(17)[:4] if num_children <= 3 else [])]:
        rates = acceptance_rates(p, q, "rrsw", num_children)
        assert rates == pytest.approx(rrsw_by_enumeration(p, q, num_children), abs=1e3 * EPS)


@pytest.mark.parametrize("vocabulary", [2, 7, 63])
def test_second_rank_by_sorting_is_the_sum_over_rejected_tokens(vocabulary):
    no_token = np.zeros(vocabulary, np.bool_)
    for p, q in pairs(vocabulary):
        excess, lack = np.maximum(q - p, 0), np.maximum(p - q, 0)
        slow = 0.0
        for x in np.flatnonzero(excess) if lack.sum() > 0 else []:
            draft = np.where(np.arange(vocabulary) == x, 0, q)
            if draft.sum() == 0:
                draft = (np.arange(vocabulary) != x).astype(float)
            slow += excess[x] * np.minimum(lack / lack.sum(), draft / draft.sum()).sum()
        found = next_rate(p, q, lack / lack.sum(), no_token) if lack.sum() > 0 else 0.0
        assert found == pytest.approx(slow, abs=1e3 * vocabulary * EPS)


def test_second_rank_survives_a_draft_that_is_nearly_certain():
    """q leaves 1e-12 to two tokens; after the first is rejected they share it 3 : 1.

    p on those two is even, so R1 = (1/2, 1/2), D = (3/4, 1/4): acceptance (1 - 1e-12) * 3/4.
    """
    q = np.array([1 - 1e-12, 0.75e-12, 0.25e-12])
    rates = acceptance_rates([0.0, 0.5, 0.5], q, "rrsw", 2)
    assert rates[1] == pytest.approx(0.75, abs=1e-11)


@pytest.mark.parametrize("verifier", ["rrsw", "lookahead"])
def test_sampled_ranks_are_unbiased_and_know_their_error(verifier, monkeypatch):
    """32 paths, 300 times over: mean within 5 standard errors of the enumeration.

    The error's square is an average over 16 pairs of strata, here over 4,800: about 5 % off.
    """
    p, q = pairs(6, seed=3)[0]
    exact = estimated_acceptance(p, q, verifier, 5)
    assert (exact.standard_errors == 0).all()
    monkeypatch.setattr(rejected_paths, "MAX_ENUMERATED", 0)
    rng = np.random.default_rng(0)
    samples = [estimated_acceptance(p, q, verifier, 5, rng) for _ in range(300)]
    rates = np.array([sample.rates for sample in samples])
    errors = np.array([sample.standard_errors for sample in samples])
    assert rates[:, :2] == pytest.approx(np.tile(exact.rates[:2], (300, 1)), abs=64 * EPS)
    assert (errors[:, :2] == 0).all()
    spread = rates.std(axis=0)[2:]
    off = np.abs(rates.mean(axis=0) - exact.rates)[2:]
    assert (off <= 5 * spread / np.sqrt(300)).all()
    assert np.sqrt((errors**2).mean(axis=0))[2:] == pytest.approx(spread, rel=0.25)


@pytest.mark.parametrize("verifier", ["rrsw", "lookahead"])
def test_large_vocabularies_are_sampled_the_same_way_every_time(verifier):
    p, q = pairs(100)[0]
    first = acceptance_rates(p, q, verifier, 7)
    assert np.array_equal(first, acceptance_rates(p, q, verifier, 7))
    other = acceptance_rates(p, q, verifier, 7, np.random.default_rng(5))
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


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_acceptance_laws(verifier):
    most = min(most_children(verifier, 7) or 6, 6)
    for p, q in pairs(7):
        whole = acceptance_rates(p, q, verifier, most)
        assert (whole >= 0).all()
        assert whole.sum() <= 1 + 64 * EPS
        for k in range(1, most) if verifier not in ("kseq", "spechub") else ():
            part = acceptance_rates(p, q, verifier, k)  # earlier ranks do not know who follows
            assert part == pytest.approx(whole[:k], abs=1e3 * EPS)


@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("kind", FAMILIES)
def test_no_verifier_beats_the_optimum_of_its_law(verifier, kind):
    """Samples have noise: five standard errors of the total are allowed for."""
    rng = np.random.default_rng(0)
    for vocabulary in (2, 3, 7, 30):
        most = min(most_children(verifier, vocabulary) or 5, 5)
        for num_children in {1, min(2, most), most}:
            p, q = family(kind, vocabulary, rng)
            found = estimated_acceptance(p, q, verifier, num_children)
            law = VERIFIERS[verifier].law
            if law in ("hub", "top"):
                best = best_transport(p, joint_law(q, law, num_children)).bound
                assert found.rates.sum() == pytest.approx(best, abs=1e-12)
            else:
                best = float(optimal_acceptance(p, q, num_children, law == "independent"))
            assert found.rates.sum() <= best + 5 * found.standard_errors.sum() + 1e-10


def test_lookahead_keeps_the_first_rank_and_gains_at_the_second():
    rng = np.random.default_rng(0)
    for kind in FAMILIES:
        for vocabulary in (2, 7, 30):
            p, q = family(kind, vocabulary, rng)
            ahead, plain = (acceptance_rates(p, q, name, 2) for name in ("lookahead", "rrsw"))
            assert ahead[0] == pytest.approx(plain[0], abs=64 * EPS)
            assert ahead[1] >= plain[1] - 1e-3


def test_kseq_survives_a_draft_that_is_the_target_up_to_rounding():
    """Solved from 1 - b, the factor would be off by (1e-16)^(1/k); the first child is accepted."""
    p = np.full(63, 1 / 63)
    q = p * (1 + 1e-15 * (-1.0) ** np.arange(63))
    for num_children in (2, 5, 40):
        assert acceptance_rates(p, q, "kseq", num_children)[0] == pytest.approx(1, abs=1e-13)


@pytest.mark.parametrize("verifier", ["rrs", "kseq"])
def test_independent_children_never_cover_a_one_hot_target(verifier):
    """q even over two tokens, p on the first: 1 - (1/2)^k (Sequoia, appendix C.5)."""
    for num_children in (1, 2, 5):
        total = acceptance_rates([1.0, 0.0], [0.5, 0.5], verifier, num_children).sum()
        assert total == pytest.approx(1 - 0.5**num_children, abs=16 * EPS)


@pytest.mark.parametrize(("verifier", "most"), [("chain", 1), ("spechub", 2), ("lookahead", 5)])
def test_too_many_children_are_refused(verifier, most):
    p = np.full(5, 0.2)
    acceptance_rates(p, p, verifier, most)
    with pytest.raises(PlannerError, match=rf"num_children: got {most + 1}, expected 1\.\.{most}"):
        acceptance_rates(p, p, verifier, most + 1)


def test_independent_children_may_outnumber_the_tokens():
    assert acceptance_rates([0.5, 0.5], [0.5, 0.5], "naive", 7).sum() == 1 - 0.5**7


def test_float32_is_converted_a_few_rows_at_a_time():
    """64 positions at V = 128 k: p and q in float64 at once would take 128 MiB."""
    p = np.full((64, 1 << 17), 2.0**-17, np.float32)
    tracemalloc.start()
    acceptance_rates(p, p, "rrs", 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 12 * 8 * (1 << 20)


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_equal_models_accept_the_first_child(verifier):
    k = min(most_children(verifier, 5) or 3, 3)
    p = np.eye(5)[3]
    assert acceptance_rates(p, p, verifier, k).tolist() == [1.0, 0.0, 0.0][:k]
    if verifier in ("rrs", "kseq", "rrsw", "lookahead"):
        p = np.full(5, 0.2)
        assert acceptance_rates(p, p, verifier, k).tolist() == [1.0, 0.0, 0.0]


def test_any_leading_shape_is_kept():
    p, q = map(np.array, zip(*pairs(count=3), strict=True))
    p, q = p.reshape(2, 6, 5), q.reshape(2, 6, 5)
    for verifier in VERIFIERS:
        k = min(most_children(verifier, 5) or 3, 3)
        rates = acceptance_rates(p, q, verifier, k)
        assert rates.shape == (2, 6, k)
        assert np.array_equal(rates[1, 4], acceptance_rates(p[1, 4], q[1, 4], verifier, k))
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


@pytest.mark.parametrize(("num_children", "replacement"), CASES)
def test_tokens_of_equal_ratio_may_come_in_any_order(num_children, replacement):
    rng = np.random.default_rng(0)
    for vocabulary in (7, 100):
        p, q = family("levels", vocabulary, rng)
        orders = np.array([rng.permutation(vocabulary) for _ in range(10)])
        values = optimal_acceptance(p[orders], q[orders], num_children, replacement)
        assert np.ptp(values) <= 8 * vocabulary * EPS


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
    from planner.verifiers.transport import _both_inside, fill_inside

    q = np.sort(np.random.default_rng(0).dirichlet(np.ones(100)))[::-1].copy()
    outside = np.append(np.cumsum(q[:0:-1])[::-1], 0.0)
    times = np.exp(np.arange(np.log(1e-4), np.log(40 / outside[-2]), 0.2))
    inside = np.zeros(100)
    fill_inside(q, outside, times, 2, inside)
    assert inside[:-1] == pytest.approx(_both_inside(q[None])[0, :-1], abs=1e-11)


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
    with pytest.raises(
        PlannerError, match="verifier: got 'magic', expected one of chain, naive, topk"
    ):
        acceptance_rates([1.0], [1.0], "magic", 1)


def test_float32_softmax_is_good_input():
    logits = np.random.default_rng(0).normal(size=32_000).astype(np.float32) * 3
    p = np.exp(logits - logits.max())
    p /= p.sum(dtype=np.float32)
    assert acceptance_rates(p, p, "rrsw", 2).tolist() == pytest.approx([1, 0], abs=1e3 * EPS)
