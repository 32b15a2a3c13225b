"""The real source draws from the laws that the exact one enumerates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from planner import PlannerError
from runtime.randomness import TorchSource, seeded_source, source_of
from tests.runtime.exact_source import EnumeratingSource, law

NUM_DRAWS = 40_000
LEVEL = 1e-5
"""Chance that a right sampler fails one test; the seeds are fixed, so it fails always or never."""

PROBS = torch.tensor([0.5, 0.0, 0.3, 0.2, 1e-3])


def source(seed: int = 0) -> TorchSource:
    return seeded_source(seed, torch.device("cpu"))


def assert_follows(drawn: list, exact: dict) -> None:
    assert set(drawn) <= exact.keys()
    outcomes = sorted(exact)
    expected = np.array([exact[outcome] for outcome in outcomes]) * len(drawn)
    counts = np.array([drawn.count(outcome) for outcome in outcomes])
    rare = expected < 5
    if rare.any():
        expected = np.append(expected[~rare], expected[rare].sum())
        counts = np.append(counts[~rare], counts[rare].sum())
    assert chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > LEVEL


def test_categorical_follows_its_probabilities():
    drawn = source().categorical(PROBS.expand(NUM_DRAWS, -1)).tolist()
    assert_follows(drawn, law(lambda rng: int(rng.categorical(PROBS))))


def test_with_replacement_draws_independently():
    drawn = source().with_replacement(PROBS.expand(NUM_DRAWS, -1), 2).tolist()
    exact = law(lambda rng: tuple(rng.with_replacement(PROBS[None], 2)[0].tolist()))
    assert_follows(list(map(tuple, drawn)), exact)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_without_replacement_draws_one_after_the_other(k):
    drawn = source().without_replacement(PROBS.expand(NUM_DRAWS, -1), k).tolist()
    exact = law(lambda rng: tuple(rng.without_replacement(PROBS[None], k)[0].tolist()))
    assert_follows(list(map(tuple, drawn)), exact)


def test_without_replacement_is_uniform_over_what_has_no_mass():
    probs = torch.tensor([0.0, 1.0, 0.0, 0.0])
    drawn = source().without_replacement(probs.expand(NUM_DRAWS, -1), 3).tolist()
    exact = law(lambda rng: tuple(rng.without_replacement(probs[None], 3)[0].tolist()))
    assert len(exact) == 6
    assert_follows(list(map(tuple, drawn)), exact)


def test_a_tail_of_tiny_probabilities_gets_its_share():
    """A fifth of the mass spread over 20,000 tokens of 1e-5 each, which half-precision noise
    starves.  The count is binomial; 5 standard deviations on each side."""
    probs = torch.full((20_001,), 0.2 / 20_000)
    probs[0] = 0.8
    num_draws = 200
    firsts = source().without_replacement(probs.expand(num_draws, -1), 2)[:, 0]
    in_tail = int((firsts > 0).sum())
    assert abs(in_tail - 0.2 * num_draws) < 5 * (num_draws * 0.2 * 0.8) ** 0.5


def test_a_token_of_vanishing_probability_is_never_drawn_first():
    """1e-30 against 1, 2,000,000 times: noise that is exactly 0 now and then, as half-precision
    noise is once in 2,000 times, draws one."""
    probs = torch.full((10_000,), 1e-30)
    probs[0] = 1.0
    assert (source().without_replacement(probs.expand(200, -1), 2)[:, 0] == 0).all()
    assert (source().categorical(probs.expand(200, -1)) == 0).all()


def test_zero_probability_is_never_drawn():
    probs = torch.tensor([0.0, 1e-20, 0.0, 1.0, 0.0]).expand(1000, -1)
    assert set(source().categorical(probs).tolist()) <= {1, 3}
    assert set(source().without_replacement(probs, 2).flatten().tolist()) <= {1, 3}


def test_accept_happens_with_the_ratio():
    rng = source()
    accepted = sum(rng.accept(0.3, 0.9) for _ in range(NUM_DRAWS))
    assert abs(accepted - NUM_DRAWS / 3) < 5 * (NUM_DRAWS * 2 / 9) ** 0.5
    assert all(rng.accept(1.0, 1.0) and rng.accept(2.0, 1.0) for _ in range(200))
    assert not any(rng.accept(0.0, 1.0) or rng.accept(0.0, 0.0) for _ in range(200))


def test_the_same_seed_gives_the_same_decisions_and_another_seed_others():
    def decisions(seed):
        rng = source(seed)
        probs = torch.full((3, 1000), 1e-3)
        return (
            rng.categorical(probs).tolist(),
            rng.without_replacement(probs, 4).tolist(),
            [rng.accept(0.5, 1.0) for _ in range(100)],
        )

    assert decisions(5) == decisions(5)
    assert all(a != b for a, b in zip(decisions(5), decisions(6), strict=True))


def test_noise_is_fresh_on_every_call():
    rng = source()
    probs = torch.full((1, 10_000), 1e-4)
    assert len({int(rng.without_replacement(probs, 1)) for _ in range(20)}) > 15


def test_a_bare_generator_becomes_a_source_and_a_source_stays():
    assert isinstance(source_of(torch.Generator()), TorchSource)
    exact = EnumeratingSource([])
    assert source_of(exact) is exact


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, True])
def test_a_wrong_seed_is_refused(seed):
    with pytest.raises(PlannerError, match=r"seed: got .*, expected an integer"):
        seeded_source(seed, torch.device("cpu"))
