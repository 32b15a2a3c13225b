"""The lead of one that is faster than the best of others."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lead import MeasuredSpeed, lead


def measured(logs: np.ndarray, times: np.ndarray) -> MeasuredSpeed:
    """The logarithm of whose speedup is the sum of two means: influences are exact."""
    influences = tuple((each - each.mean()) / len(each) for each in (logs, times))
    return MeasuredSpeed(float(np.exp(logs.mean() + times.mean())), influences)


def samples(seed: int, num_others: int, num_texts: int = 32, num_times: int = 8):
    """float64 [1 + num_others, samples] of texts and of times; nobody is faster than another."""
    rng = np.random.default_rng(seed)
    shape = 1 + num_others
    return rng.normal(size=(shape, num_texts)) / 9, rng.normal(size=(shape, num_times)) / 20


def test_of_one_rival_it_is_the_ratio():
    one, other = (measured(*each) for each in zip(*samples(0, 1), strict=True))
    found = lead(one, [other])
    assert found.rivals == (0, 0)
    assert found.gain == pytest.approx(one.speedup / other.speedup - 1, abs=1e-12)


def test_the_rival_is_picked_on_one_half_and_compared_on_the_other():
    """The slow way: halves by hand."""
    texts, times = samples(1, 5)
    one, *others = (measured(*each) for each in zip(texts, times, strict=True))
    found = lead(one, others)
    speeds = [texts[:, half::2].mean(axis=1) + times[:, half::2].mean(axis=1) for half in (0, 1)]
    picked = [1 + int(speed[1:].argmax()) for speed in speeds]
    assert picked[0] != picked[1]
    assert found.rivals == (picked[0] - 1, picked[1] - 1)
    leads = [speed[0] - speed[rival] for speed, rival in zip(speeds, reversed(picked), strict=True)]
    assert found.gain == pytest.approx(np.expm1(np.mean(leads)), abs=1e-12)


def test_where_all_are_alike_nobody_leads():
    """Over 400 contests: on average nothing, and by more than 1.96 errors behind in 2.5 %; behind
    the plainly fastest of nine it would be nearly always."""
    found = []
    plain = []
    for seed in range(400):
        one, *others = (measured(*each) for each in zip(*samples(seed, 9), strict=True))
        found.append(lead(one, others))
        plain.append(one.speedup / max(each.speedup for each in others) - 1)
    gains = np.array([each.gain for each in found])
    errors = np.array([each.error for each in found])
    assert abs(gains.mean()) < 3 * gains.std() / 20
    assert errors.mean() == pytest.approx(gains.std(), rel=0.15)
    assert 0.005 < (gains < -1.96 * errors).mean() < 0.06
    assert np.mean(plain) < -errors.mean()
