"""Every verifier returns the target's distribution at one node, exactly."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from planner import PlannerError
from runtime import VERIFIERS, Verifier
from tests.runtime.exact_source import law
from tests.verifiers.broken_verifiers import BROKEN

EXACT = 1e-12
"""Sums of at most some thousand products of float64, each wrong by a few 1e-16."""


def fitting(verifier: Verifier, k: int) -> int:
    """The number of children, of k, that the verifier serves."""
    return k if verifier.max_children is None else min(k, verifier.max_children)


def node_law(verifier: Verifier, p: torch.Tensor, q: torch.Tensor, k: int) -> np.ndarray:
    """float64 [V]: the exact law of the token that `verifier` goes on with at one node."""

    def experiment(rng):
        drafts = verifier.sample(q, k, rng) if k else torch.empty(0, dtype=torch.long)
        rank, token = verifier.verify(p, q, drafts, rng)
        assert rank == -1 or drafts[rank] == token
        return token

    masses = law(experiment)
    return np.array([masses.get(token, 0.0) for token in range(len(p))])


def pairs(num_tokens: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(p, q) of every awkward kind: smooth, peaked, with zeros, one-hot, disjoint, equal."""
    rng = np.random.default_rng(num_tokens)
    smooth = rng.dirichlet(np.ones(num_tokens), 2)
    peaked = rng.dirichlet(np.full(num_tokens, 0.1), 2)
    holes = rng.dirichlet(np.ones(num_tokens), 2) * (rng.random((2, num_tokens)) < 0.5)
    holes[:, 0] += 0.1
    first, last = np.eye(num_tokens)[[0, -1]]
    low = np.arange(num_tokens) < num_tokens // 2
    halves = smooth * [low, ~low]
    found = [smooth, peaked, holes, halves, [first, last], [first, first], [smooth[0], smooth[0]]]
    found += [[smooth[0], first], [last, smooth[1]], [holes[0], halves[1]]]
    return [(torch.tensor(p / p.sum()), torch.tensor(q / q.sum())) for p, q in map(np.array, found)]


@pytest.mark.parametrize("num_tokens", [2, 3, 4, 5])
@pytest.mark.parametrize("verifier", VERIFIERS.values(), ids=lambda verifier: verifier.name)
def test_one_node_law_is_the_target(verifier, num_tokens):
    most = fitting(verifier, 3 if verifier.name == "lookahead" and num_tokens == 5 else 4)
    for k in range(min(most, num_tokens) + 1):
        for p, q in pairs(num_tokens):
            assert node_law(verifier, p, q, k) == pytest.approx(p.numpy(), abs=EXACT)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("verifier", VERIFIERS.values(), ids=lambda verifier: verifier.name)
def test_one_node_law_is_the_target_with_six_tokens(verifier, k):
    if fitting(verifier, k) < k:
        pytest.skip(f"serves {verifier.max_children} children at most")
    for p, q in pairs(6)[:4]:
        assert node_law(verifier, p, q, k) == pytest.approx(p.numpy(), abs=EXACT)


@pytest.mark.parametrize(("dtype", "least"), [(torch.float32, 1e-42), (torch.float64, 1e-310)])
@pytest.mark.parametrize("verifier", VERIFIERS.values(), ids=lambda verifier: verifier.name)
def test_one_node_law_is_the_target_where_the_rest_of_the_draft_is_below_normal_numbers(
    verifier, dtype, least
):
    """At low temperatures all but one of a draft's probabilities are: 1 over their sum is no
    number of the type."""
    p = torch.tensor([0.25, 0.375, 0.25, 0.125], dtype=dtype)
    q = torch.tensor([1.0, 0.0, 3 * least, least], dtype=dtype)
    for k in range(1, fitting(verifier, 3) + 1):
        assert node_law(verifier, p, q, k) == pytest.approx(p.numpy(), abs=1e-6)


@pytest.mark.parametrize("verifier", VERIFIERS.values(), ids=lambda verifier: verifier.name)
def test_a_token_without_a_chance_never_comes_where_both_are_equal_up_to_rounding(verifier):
    """What the target has less than the draft elsewhere is below the type's precision."""
    p, q = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([1.0, 1e-8, 1e-9])
    for k in range(1, fitting(verifier, 3) + 1):
        assert node_law(verifier, p, q, k)[1:].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("verifier", BROKEN, ids=lambda verifier: type(verifier).__name__)
def test_the_check_sees_a_biased_rule(verifier):
    worst = max(
        np.abs(node_law(verifier, p, q, k) - p.numpy()).max() for k in (1, 2) for p, q in pairs(4)
    )
    assert worst > 0.01


def test_chain_accepts_with_the_overlap_of_the_distributions():
    """Leviathan et al.: one draw from q is accepted with probability sum min(p, q)."""
    for p, q in pairs(5):
        accepted = law(lambda rng, p=p, q=q: accepted_rank("rrsw", p, q, 1, rng)).get(0, 0.0)
        assert accepted == pytest.approx(float(torch.minimum(p, q).sum()), abs=EXACT)


def test_rrsw_accepts_as_in_the_worked_example():
    """SpecHub's example: p = (.1, .6, .3), q = (.5, .3, .2), two children: rejected with .06."""
    ranks = law(lambda rng: accepted_rank("rrsw", *worked_example(), 2, rng))
    assert ranks[0] == pytest.approx(0.1 + 0.3 + 0.2, abs=EXACT)
    assert ranks[-1] == pytest.approx(0.06, abs=EXACT)


def test_topk_accepts_rank_r_with_the_target_probability_of_that_token():
    for p, q in pairs(5):
        ranks = law(lambda rng, p=p, q=q: accepted_rank("topk", p, q, 3, rng))
        drafts = VERIFIERS["topk"].sample(q, 3, torch.Generator())
        for rank, token in enumerate(drafts.tolist()):
            assert ranks.get(rank, 0.0) == pytest.approx(float(p[token]), abs=EXACT)


@pytest.mark.parametrize("verifier", VERIFIERS.values(), ids=lambda verifier: verifier.name)
def test_rows_are_samples_and_children_different_tokens_where_that_is_the_law(verifier):
    rng = torch.Generator().manual_seed(0)
    k = fitting(verifier, 5)
    q = torch.rand(7, 11, generator=rng).softmax(-1)
    q[3] = torch.eye(11)[4]
    drafts = verifier.sample(q, k, rng)
    assert drafts.shape == (7, k)
    distinct = [len(set(row)) == k for row in drafts.tolist()]
    assert all(distinct) == verifier.distinct
    assert drafts[3, 0] == 4
    assert verifier.sample(q[0], k, rng).shape == (k,)


@pytest.mark.parametrize("verifier", VERIFIERS.values(), ids=lambda verifier: verifier.name)
def test_children_are_independent_where_they_need_not_differ(verifier):
    if verifier.distinct:
        pytest.skip("its children differ")
    _, q = pairs(3)[0]
    found = law(lambda rng: tuple(verifier.sample(q, 2, rng).tolist()))
    for one, other in product(range(3), repeat=2):
        assert found[one, other] == pytest.approx(float(q[one] * q[other]), abs=EXACT)


@pytest.mark.parametrize("verifier", VERIFIERS.values(), ids=lambda verifier: verifier.name)
def test_a_smaller_sample_is_the_start_of_a_larger(verifier):
    _, q = pairs(4)[0]
    most = fitting(verifier, 3)
    for k in range(1, most):
        fewer = law(lambda rng, k=k: tuple(verifier.sample(q, k, rng).tolist()))
        start = law(lambda rng, k=k: tuple(verifier.sample(q, most, rng).tolist()[:k]))
        assert fewer == pytest.approx(start, abs=EXACT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("verifier", VERIFIERS.values(), ids=lambda verifier: verifier.name)
def test_never_a_token_that_the_target_excludes(verifier, dtype):
    rng = torch.Generator().manual_seed(1)
    k = fitting(verifier, 4)
    for p, q in pairs(5):
        p, q = p.to(dtype), q.to(dtype)
        for _ in range(50):
            rank, token = verifier.verify(p, q, verifier.sample(q, k, rng), rng)
            assert p[token] > 0
            assert -1 <= rank < k


@pytest.mark.parametrize("name", ["chain", "rrs", "kseq", "rrsw", "lookahead"])
def test_equal_distributions_accept_the_first_child_whatever_the_rounding(name):
    rng, verifier = torch.Generator().manual_seed(2), VERIFIERS[name]
    for _ in range(200):
        p = torch.randn(1000, generator=rng).softmax(-1)
        assert verifier.verify(p, p, verifier.sample(p, fitting(verifier, 3), rng), rng)[0] == 0


def test_verifying_leaves_its_inputs_unchanged():
    rng = torch.Generator().manual_seed(3)
    for verifier in VERIFIERS.values():
        p, q = torch.rand(9, generator=rng).softmax(-1), torch.rand(9, generator=rng).softmax(-1)
        before = p.clone(), q.clone()
        drafts = verifier.sample(q, fitting(verifier, 6), rng)
        for _ in range(20):
            verifier.verify(p, q, drafts, rng)
        assert torch.equal(p, before[0])
        assert torch.equal(q, before[1])


def accepted_rank(name, p, q, k, rng) -> int:
    verifier = VERIFIERS[name]
    return verifier.verify(p, q, verifier.sample(q, k, rng), rng)[0]


@pytest.mark.parametrize("verifier", VERIFIERS.values(), ids=lambda verifier: verifier.name)
def test_nan_is_an_error_and_not_a_token(verifier):
    rng = torch.Generator().manual_seed(4)
    q, nan = torch.tensor([0.5, 0.3, 0.2]), torch.full((3,), torch.nan)
    with pytest.raises(PlannerError, match="logits: got NaN or infinity"):
        verifier.verify(nan, q, torch.tensor([0, 1]), rng)
    with pytest.raises(PlannerError, match="logits: got NaN or infinity"):
        verifier.verify(nan, q, torch.tensor([], dtype=torch.long), rng)


LOOK_AT_THE_DRAFT = [
    name for name, each in VERIFIERS.items() if not each.deterministic and name != "naive"
]
"""The others sample the target first, and compare."""


@pytest.mark.parametrize("name", LOOK_AT_THE_DRAFT)
def test_a_draft_of_nan_is_an_error(name):
    rng = torch.Generator().manual_seed(4)
    p, nan = torch.tensor([0.5, 0.3, 0.2]), torch.full((3,), torch.nan)
    with pytest.raises(PlannerError, match="logits: got NaN or infinity"):
        VERIFIERS[name].verify(p, nan, torch.tensor([0, 1]), rng)


def worked_example() -> tuple[torch.Tensor, torch.Tensor]:
    return (
        torch.tensor([0.1, 0.6, 0.3], dtype=torch.float64),
        torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64),
    )


def test_lookahead_accepts_in_the_worked_example():
    """A case by hand: only token 0 can be rejected, with mass e = .4, all of which the others lack
    (u = .3, .1), and its pairs have A = .5 / (1 - .5) = 1.  give = 1 and take = (1, .5) hand all of
    it over, Z K = 1 (.3 + .1); eight sweeps from K = 1 come within a few hundredths of that."""
    ranks = law(lambda rng: accepted_rank("lookahead", *worked_example(), 2, rng))
    assert ranks[0] == pytest.approx(0.6, abs=EXACT)
    assert 0.34 < 0.39 < ranks[1] <= 0.4  # recursive rejection: .34


@pytest.mark.parametrize("verifier", VERIFIERS.values(), ids=lambda verifier: verifier.name)
def test_incremental_means_that_the_first_child_may_decide_on_a_second(verifier):
    """p lacks tokens 0 and 1 of what q drafts; below token 0 there is only one child."""
    if fitting(verifier, 2) < 2:
        pytest.skip("serves one child at most")
    p = torch.tensor([0.1, 0.2, 0.5, 0.2], dtype=torch.float64)
    q = torch.tensor([0.4, 0.4, 0.1, 0.1], dtype=torch.float64)

    def experiment(rng):
        drafts = verifier.sample(q, 2, rng)
        return verifier.verify(p, q, drafts[: 1 if drafts[0] == 0 else 2], rng)[1]

    masses = law(experiment)
    bias = max(abs(masses[token] - float(p[token])) for token in range(4))
    assert bias < EXACT if verifier.incremental else bias > 1e-3
