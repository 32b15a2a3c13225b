"""Every rule returns the target's distribution at one node, exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from planner import PlannerError
from planner.plan import VERIFIER_TRAITS
from runtime import VERIFIERS, Verifier
from tests.runtime.broken_rules import BROKEN
from tests.runtime.exact_source import law

EXACT = 1e-12
"""Sums of at most some thousand products of float64, each wrong by a few 1e-16."""


def node_law(rule: Verifier, p: torch.Tensor, q: torch.Tensor, k: int) -> np.ndarray:
    """float64 [V]: the exact law of the token that `rule` goes on with at one node."""

    def experiment(rng):
        drafts = rule.sample(q, k, rng) if k else torch.empty(0, dtype=torch.long)
        rank, token = rule.verify(p, q, drafts, rng)
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
@pytest.mark.parametrize("rule", VERIFIERS.values(), ids=lambda rule: rule.name)
def test_one_node_law_is_the_target(rule, num_tokens):
    most = min(rule.max_children or 4, 4, num_tokens)
    for k in range(most + 1):
        for p, q in pairs(num_tokens):
            assert node_law(rule, p, q, k) == pytest.approx(p.numpy(), abs=EXACT)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("rule", VERIFIERS.values(), ids=lambda rule: rule.name)
def test_one_node_law_is_the_target_with_six_tokens(rule, k):
    for p, q in pairs(6)[:4]:
        assert node_law(rule, p, q, k) == pytest.approx(p.numpy(), abs=EXACT)


@pytest.mark.parametrize("rule", BROKEN, ids=lambda rule: rule.name)
def test_the_check_sees_a_biased_rule(rule):
    worst = max(
        np.abs(node_law(rule, p, q, k) - p.numpy()).max() for k in (1, 2) for p, q in pairs(4)
    )
    assert worst > 0.01


def test_chain_accepts_with_the_overlap_of_the_distributions():
    """Leviathan et al.: one draw from q is accepted with probability sum min(p, q)."""
    for p, q in pairs(5):
        accepted = law(lambda rng, p=p, q=q: accepted_rank("rrsw", p, q, 1, rng)).get(0, 0.0)
        assert accepted == pytest.approx(float(torch.minimum(p, q).sum()), abs=EXACT)


def test_rrsw_accepts_as_in_the_worked_example():
    """SpecHub's example: p = (.1, .6, .3), q = (.5, .3, .2), two children: rejected with .06."""
    p, q = torch.tensor([0.1, 0.6, 0.3]).double(), torch.tensor([0.5, 0.3, 0.2]).double()
    ranks = law(lambda rng: accepted_rank("rrsw", p, q, 2, rng))
    assert ranks[0] == pytest.approx(0.1 + 0.3 + 0.2, abs=1e-7)  # the inputs are float32 decimals
    assert ranks[-1] == pytest.approx(0.06, abs=1e-7)


def test_topk_accepts_rank_r_with_the_target_probability_of_that_token():
    for p, q in pairs(5):
        ranks = law(lambda rng, p=p, q=q: accepted_rank("topk", p, q, 3, rng))
        drafts = VERIFIERS["topk"].sample(q, 3, torch.Generator())
        for rank, token in enumerate(drafts.tolist()):
            assert ranks.get(rank, 0.0) == pytest.approx(float(p[token]), abs=EXACT)


@pytest.mark.parametrize("rule", VERIFIERS.values(), ids=lambda rule: rule.name)
def test_children_are_different_tokens_and_rows_are_independent_samples(rule):
    rng = torch.Generator().manual_seed(0)
    q = torch.rand(7, 11, generator=rng).softmax(-1)
    q[3] = torch.eye(11)[4]
    drafts = rule.sample(q, 5, rng)
    assert drafts.shape == (7, 5)
    assert all(len(set(row)) == 5 for row in drafts.tolist())
    assert drafts[3, 0] == 4
    assert rule.sample(q[0], 5, rng).shape == (5,)


@pytest.mark.parametrize("rule", VERIFIERS.values(), ids=lambda rule: rule.name)
def test_incremental_means_that_a_smaller_sample_is_the_start_of_a_larger(rule):
    if not rule.incremental:
        pytest.skip("draws its children together")
    _, q = pairs(4)[0]
    two = law(lambda rng: tuple(rule.sample(q, 2, rng).tolist()))
    of_three = law(lambda rng: tuple(rule.sample(q, 3, rng).tolist()[:2]))
    assert two == pytest.approx(of_three, abs=EXACT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rule", VERIFIERS.values(), ids=lambda rule: rule.name)
def test_never_a_token_that_the_target_excludes(rule, dtype):
    rng = torch.Generator().manual_seed(1)
    for p, q in pairs(5):
        p, q = p.to(dtype), q.to(dtype)
        for _ in range(50):
            rank, token = rule.verify(p, q, rule.sample(q, 4, rng), rng)
            assert p[token] > 0
            assert -1 <= rank < 4


def test_equal_distributions_accept_the_first_child_whatever_the_rounding():
    rng = torch.Generator().manual_seed(2)
    for _ in range(200):
        p = torch.randn(1000, generator=rng).softmax(-1)
        rank, _ = VERIFIERS["rrsw"].verify(p, p, VERIFIERS["rrsw"].sample(p, 3, rng), rng)
        assert rank == 0


def test_verifying_leaves_its_inputs_unchanged():
    rng = torch.Generator().manual_seed(3)
    for rule in VERIFIERS.values():
        p, q = torch.rand(9, generator=rng).softmax(-1), torch.rand(9, generator=rng).softmax(-1)
        before = p.clone(), q.clone()
        drafts = rule.sample(q, 6, rng)
        for _ in range(20):
            rule.verify(p, q, drafts, rng)
        assert torch.equal(p, before[0])
        assert torch.equal(q, before[1])


def test_the_table_agrees_with_what_planning_knows():
    assert VERIFIERS.keys() == VERIFIER_TRAITS.keys()
    for name, rule in VERIFIERS.items():
        traits = VERIFIER_TRAITS[name]
        assert rule.name == name
        assert (rule.max_children, rule.incremental) == (traits.max_children, traits.incremental)


def accepted_rank(name, p, q, k, rng) -> int:
    rule = VERIFIERS[name]
    return rule.verify(p, q, rule.sample(q, k, rng), rng)[0]


@pytest.mark.parametrize("rule", VERIFIERS.values(), ids=lambda rule: rule.name)
def test_nan_is_an_error_and_not_a_token(rule):
    rng = torch.Generator().manual_seed(4)
    q, nan = torch.tensor([0.5, 0.3, 0.2]), torch.full((3,), torch.nan)
    with pytest.raises(PlannerError, match="logits: got NaN or infinity"):
        rule.verify(nan, q, torch.tensor([0, 1]), rng)
    with pytest.raises(PlannerError, match="logits: got NaN or infinity"):
        rule.verify(nan, q, torch.tensor([], dtype=torch.long), rng)


def test_a_draft_of_nan_is_an_error():
    rng = torch.Generator().manual_seed(4)
    p, nan = torch.tensor([0.5, 0.3, 0.2]), torch.full((3,), torch.nan)
    with pytest.raises(PlannerError, match="logits: got NaN or infinity"):
        VERIFIERS["rrsw"].verify(p, nan, torch.tensor([0, 1]), rng)
