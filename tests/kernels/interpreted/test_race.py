"""The race of tokens, interpreted: times are exponential, rows and tokens independent, and each is
the first as often as it should be."""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats

from tree_kernels.launches import race_speeds

from .guarded import guarded_allocations

FEW = 1e-3
"""Least p-value; seeds are fixed."""


def seeds(number: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(2**62, (number,), generator=torch.Generator().manual_seed(seed))


def speeds(probs: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
    with guarded_allocations():
        found = race_speeds(probs, of)
    return torch.where(found > 0, found * 2.0**-60, found)


def test_times_are_exponential():
    times = 1 / speeds(torch.ones(4, 3000), seeds(4)).double().numpy()
    assert stats.kstest(times.ravel(), "expon").pvalue > FEW
    # Of the smallest, too, which decide a race.
    least = np.sort(times.ravel())[:200] / np.sort(times.ravel())[200]
    assert stats.kstest(least, "uniform").pvalue > FEW
    assert len(np.unique(times)) > 0.99 * times.size  # of 32 bits each


def test_rows_and_tokens_do_not_know_of_each_other():
    ranks = stats.rankdata(speeds(torch.ones(2, 3000), seeds(2)).numpy(), axis=1)
    for one, other in ((ranks[0], ranks[1]), (ranks[0, 1:], ranks[0, :-1])):
        assert stats.spearmanr(one, other).pvalue > FEW


def test_a_seed_gives_its_row_and_a_chance_is_a_factor():
    probs = torch.tensor([[0.5, 0.0, 0.25, 0.125]]).repeat(3, 1)
    known = seeds(2)
    found = speeds(probs, torch.stack([known[0], known[1], known[0]]))
    assert torch.equal(found[0], found[2])
    assert not torch.equal(found[0], found[1])
    even = speeds(torch.ones(3, 4), torch.stack([known[0], known[1], known[0]]))
    torch.testing.assert_close(found[:, [0, 2, 3]], (probs * even)[:, [0, 2, 3]])
    assert (found[:, 1] == -1 / even[:, 1]).all()


def test_the_first_two_are_drawn_one_after_the_other_without_replacement():
    """As often as it should be, and not as another distribution would have it."""
    p = torch.tensor([0.5, 0.3, 0.15, 0.05])
    drawn = speeds(p.repeat(400, 1), seeds(400, 1)).topk(2, dim=-1).indices.numpy()
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    found = [int((drawn == pair).all(1).sum()) for pair in pairs]
    for factor in (1.0, 1.5):
        chances = p.double().numpy() * [factor, 1.0, 1.0, 1.0]
        chances /= chances.sum()
        law = np.array([chances[a] * chances[b] / (1 - chances[a]) for a, b in pairs])
        expected = law / law.sum() * len(drawn)  # but for how sums are rounded, that of law is 1
        assert (stats.chisquare(found, expected).pvalue > FEW) == (factor == 1)


def test_chances_below_the_normal_numbers_are_told_apart():
    """The least float32 and its double: which is the first, and by how much."""
    p = torch.tensor([1.4e-45, 2.8e-45])
    with guarded_allocations():
        found = race_speeds(p.repeat(400, 1), seeds(400, 2))
    first = int((found.argmax(-1) == 0).sum())
    assert stats.binomtest(first, 400, 1 / 3).pvalue > FEW
    assert len(found.unique()) > 700
