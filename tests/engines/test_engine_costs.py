"""Costs of an engine's steps: what a start did by chance is no setting's doing."""

from __future__ import annotations

import numpy as np
import pytest

from engines.engine_costs import ended_steps, evened, lone_steps, start_errors
from profiler.journal import Piece


@pytest.mark.parametrize(("limits", "by_start"), [(0.06, 0.0), (0.0, 0.06)])
def test_what_a_start_did_by_chance_is_no_limits_doing(limits: float, by_start: float) -> None:
    """Steps that differ by the most tokens of a chain, and steps that differ by the start alone."""
    rng = np.random.default_rng(1)
    counts = range(1, 17)
    own = dict(zip(counts, np.exp(limits * rng.normal(size=16)), strict=True))
    starts = [
        {
            n: {
                "plain": np.full(12, 3.0),
                "drafted": np.full(12, 3.4 * own[n] * np.exp(by_start * rng.normal())),
                "length": np.zeros(12),
            }
            for n in counts
        }
        for _ in range(3)
    ]
    found = np.log(lone_steps(starts, 3.0)[0].median_ms)
    expected = np.log([3.4 * own[n] for n in counts])
    raw = np.log([np.mean([start[n]["drafted"][0] for start in starts]) for n in counts])
    if limits:
        assert found == pytest.approx(expected, abs=1e-4)
    else:
        assert found.std() < 0.6 * raw.std()


@pytest.mark.parametrize(("limits", "by_start"), [(0.1, 0.0), (0.0, 0.06)])
def test_chains_that_end_early_are_told_apart_by_their_limits_alone(
    limits: float, by_start: float
) -> None:
    """Steps that differ by what a chain may have, and steps that differ by the start alone."""
    rng = np.random.default_rng(2)
    lengths = [1, 2, 3, 4, 6, 8, 12, 16]
    own = {most: np.exp(limits * rng.normal()) for most in lengths}
    true = {most: [(3.0 + k) * own[most] for k in lengths if k <= most] for most in lengths}
    starts = [
        {
            most: {
                "plain": np.full(8, 3.0),
                "drafted": np.array(steps)[:, None] * np.exp(by_start * rng.normal()) * np.ones(8),
            }
            for most, steps in true.items()
        }
        for _ in range(3)
    ]
    found = ended_steps(starts, 3.0)
    assert {most: curve.counts for most, curve in found.items()} == {
        most: [k + 1 for k in lengths if k <= most] for most in lengths
    }
    off = [np.log(np.array(found[most].median_ms) / true[most]) for most in lengths]
    raw = [
        np.log(np.mean([start[most]["drafted"][:, 0] for start in starts], axis=0) / true[most])
        for most in lengths
    ]
    if limits:
        assert np.concatenate(off) == pytest.approx(0.0, abs=1e-4)
    else:
        firsts = [[each[0] for each in some] for some in (off, raw)]
        assert np.std(firsts[0]) < 0.6 * np.std(firsts[1])


def drawn_starts(ratios: dict[int, float], spread: float, seed: int) -> list[dict[int, Piece]]:
    """Five starts of chains with these steps, as multiples of one without a draft."""
    rng = np.random.default_rng(seed)
    return [
        {
            size: {
                "plain": np.full((1, 12), 6.0),
                "drafted": np.full((1, 12), 6.0 * ratio * np.exp(spread * rng.normal())),
                "length": np.full((1, 12), float(size)),
            }
            for size, ratio in ratios.items()
        }
        for _ in range(5)
    ]


def off(starts: list[dict[int, Piece]], ratios: dict[int, float]) -> np.ndarray:
    """Logarithms of the mean steps over the true ones, by length."""
    return np.array(
        [
            np.mean([np.log(start[size]["drafted"][0, 0] / 6.0 / ratio) for start in starts])
            for size, ratio in ratios.items()
        ]
    )


def test_what_a_start_did_by_chance_makes_no_length_the_fastest() -> None:
    """Four lengths on a line: what the luckiest of them promises too much becomes less."""
    ratios = {2: 1.33, 3: 1.45, 4: 1.56, 5: 1.67}
    raw, found = [], []
    for seed in range(200):
        starts = drawn_starts(ratios, 0.05, seed)
        raw.append(off(starts, ratios))
        found.append(off(evened(starts, list(ratios)), ratios))
    assert np.min(found, axis=1).mean() > 0.75 * np.min(raw, axis=1).mean()
    assert np.std(found) < 0.85 * np.std(raw)
    assert np.mean(found, axis=1) == pytest.approx(np.mean(raw, axis=1), abs=1e-12)


def test_how_busy_the_memory_was_makes_no_length_the_fastest() -> None:
    """Starts in which plain decoding was slowed down, and a chain's steps two thirds as much."""
    rng, ratios = np.random.default_rng(3), {2: 1.33, 3: 1.45, 4: 1.56, 5: 1.67}
    starts: list[dict[int, Piece]] = []
    for _ in range(5):
        start = {}
        for size, ratio in ratios.items():
            busy, noise = rng.uniform(0, 0.5), 0.01 * rng.normal(size=(2, 1, 12))
            start[size] = {
                "plain": 3.0 * np.exp(busy + noise[0]),
                "drafted": 3.0 * ratio * np.exp(0.67 * busy + noise[1]),
            }
        starts.append(start)

    def scatter(starts: list[dict[int, Piece]]) -> float:
        logs = [
            [np.log((start[n]["drafted"] / start[n]["plain"]).mean() / true) for start in starts]
            for n, true in ratios.items()
        ]
        return float(np.std(np.mean(logs, axis=1)))

    assert scatter(starts) > 0.015
    assert scatter(evened(starts, list(ratios))) < 0.005


def test_a_staircase_that_every_start_shows_stays() -> None:
    ratios = {13: 2.3, 14: 2.34, 15: 2.35, 16: 2.9, 17: 2.95}
    starts = drawn_starts(ratios, 0.01, 0)
    assert off(evened(starts, list(ratios)), ratios) == pytest.approx(0.0, abs=0.01)
    assert evened(starts[:1], [13, 16])[0][13]["drafted"] == pytest.approx(starts[0][13]["drafted"])


def test_starts_that_differ_widen_the_interval() -> None:
    """Five starts, each by so much faster or slower than another as long as it runs."""
    rng = np.random.default_rng(0)

    def started(spread: float) -> list[dict[int, dict[str, np.ndarray]]]:
        return [
            {
                size: {
                    "plain": np.full((1, 12), 6.0),
                    "drafted": 9.0
                    * np.exp(spread * rng.normal() + 0.08 * rng.normal(size=(1, 12))),
                }
                for size in range(1, 40)
            }
            for _ in range(5)
        ]

    (none,) = start_errors(started(0.0), range(1, 40))
    (some,) = start_errors(started(0.05), range(1, 40))
    assert none < 0.015
    assert some == pytest.approx(0.05 * np.sqrt(1 + 1 / 5), rel=0.15)
