"""The real source draws from the laws that the exact one enumerates."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from planner import PlannerError
from runtime.randomness import TorchSource, seeded_source, source_of
from tests.runtime.exact_source import EnumeratingSource, law
from tree_kernels.successive import LITTLE_LEFT, by_inversion, by_race

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


def raced(probs: torch.Tensor, k: int) -> torch.Tensor:
    """A source that draws as one on a GPU does."""
    rng = torch.Generator().manual_seed(0)
    return by_race(probs, torch.rand(probs.shape, dtype=torch.float64, generator=rng), k)


WAYS = {"inversion": lambda probs, k: source().without_replacement(probs, k), "race": raced}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_without_replacement_draws_one_after_the_other(way, k):
    drawn = WAYS[way](PROBS.expand(NUM_DRAWS, -1), k).tolist()
    exact = law(lambda rng: tuple(rng.without_replacement(PROBS[None], k)[0].tolist()))
    assert_follows(list(map(tuple, drawn)), exact)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rest", [0.0, 1e-30, LITTLE_LEFT / 30])
def test_what_is_left_of_a_certain_token_is_drawn_by_its_own_law(way, rest):
    """No mass at all: uniform."""
    probs = torch.tensor([rest, 1.0, 3 * rest, rest], dtype=torch.float64)
    drawn = WAYS[way](probs.expand(NUM_DRAWS, -1), 3)[:, 1:].tolist()
    left = (
        torch.tensor([[0.2, 0.0, 0.6, 0.2]]) if rest else torch.tensor([[1.0, 0.0, 1.0, 1.0]]) / 3
    )
    exact = law(lambda rng: tuple(rng.without_replacement(left, 2)[0].tolist()))
    assert len(exact) == 6
    certain = [pair for pair in map(tuple, drawn) if 1 not in pair]
    assert len(certain) > 0.99 * NUM_DRAWS
    assert_follows(certain, exact)


def test_inversion_is_exact_where_every_random_number_comes_once():
    """Masses in twelfths: 12 evenly spread numbers for the first draw and, for the second, as many
    as every possible rest divides."""
    mass = [6, 0, 3, 2, 1]
    ends = [np.arange(count) / count + 0.5 / count for count in (12, 6 * 9 * 10 * 11)]
    uniforms = torch.tensor(np.array(list(product(*ends))))
    drawn = by_inversion(torch.tensor(mass).double().expand(len(uniforms), -1), uniforms)
    found = Counter(map(tuple, drawn.tolist()))
    for one, other in product(range(5), repeat=2):
        chance = mass[one] * mass[other] / (12 * (12 - mass[one])) if one != other else 0
        assert found[one, other] / len(uniforms) == pytest.approx(chance, abs=1e-15)


@pytest.mark.parametrize("way", WAYS)
def test_all_tokens_can_be_drawn(way):
    probs = torch.rand(50, 7, generator=torch.Generator().manual_seed(1)) ** 20
    probs[:, 3] = 0
    drawn = WAYS[way](probs, 7)
    assert (drawn.sort().values == torch.arange(7)).all()
    assert (drawn[:, -1] == 3).all()


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53])
def test_the_ends_of_the_unit_interval_draw_tokens_that_have_mass(uniform):
    probs = torch.tensor([[0.0, 0.1, 0.2, 0.0, 0.3, 0.0]])
    drawn = by_inversion(probs, torch.full((1, 3), uniform, dtype=torch.float64))
    assert sorted(drawn[0].tolist()) == [1, 2, 4]


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


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_probabilities_that_are_no_numbers_are_refused(bad):
    with pytest.raises(PlannerError, match="draft: got probabilities that are no numbers"):
        source().without_replacement(torch.tensor([[0.5, bad, 0.5]]), 2)


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
