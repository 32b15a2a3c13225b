"""Repeated times on a machine that is faster and slower: what is left of that, and what is not."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from planner.documents.sampling import Sampling
from profiler import Pair
from profiler.journal import Piece
from profiler.times import sweeps as sweeps_module
from profiler.times.batches import Rows
from profiler.times.cost_grid import CostGrid
from profiler.times.pace import at_one_pace, curve, paces
from profiler.times.sweeps import (
    ALONE,
    COLD_MS,
    IN_A_ROW,
    MOST_COLD_MS,
    NUM_ALONE,
    NUM_COLD_LARGE,
    NUM_SMALL,
    ROWS_ALONE,
    SMALL_SIZES,
    CostSweeps,
    _in_a_row,
    _overhead_ms,
    _rows,
)
from runtime import TableModel
from runtime.session import StepRecord

TIMES = np.array([1.0, 2.5, 0.3, 7.0, 4.0, 0.8, 12.0, 5.0])


def sweeps_at(pace: np.ndarray, error: float, seed: int) -> np.ndarray:
    """Sweeps over `TIMES` at these paces, each time with an error of its own."""
    rng = np.random.default_rng(seed)
    return TIMES * pace[:, None] * np.exp(error * rng.standard_normal((len(pace), len(TIMES))))


@pytest.mark.parametrize("pace", [[1.0], [1.0, 1.4], [1.0, 1.3, 0.8, 1.0, 1.1], [2.0] * 4])
def test_a_pace_is_found_exactly_where_nothing_else_disturbs(pace):
    pace = np.array(pace)
    np.testing.assert_allclose(paces(sweeps_at(pace, 0.0, 0)), pace / np.median(pace), rtol=1e-12)


def test_what_disturbs_single_passes_moves_no_pace():
    pace = np.array([1.0, 1.3, 1.0, 1.3, 1.0, 1.3, 1.0])
    times = sweeps_at(pace, 0.0, 0)
    times[2, 1] *= 40
    times[5, 6] *= 3
    times[0, 4] = np.nan
    np.testing.assert_allclose(paces(times), pace, rtol=1e-12)


def test_ratios_survive_slow_spells_that_would_turn_quartiles_by_chance():
    """Five in eight sweeps are slow ones, and one pass in six is disturbed: of some times the lower
    quartile is a fast one, and of others a slow one."""
    pace = np.where(np.arange(24) % 10 < 3, 1.0, 1.3)

    def worst(brought_to_one_pace: bool, seed: int) -> float:
        times = sweeps_at(pace, 0.03, seed)
        times *= np.where(np.random.default_rng(seed + 1000).random(times.shape) < 1 / 6, 1.3, 1)
        slow = paces(times) if brought_to_one_pace else np.ones(len(times))
        low = curve([*range(1, len(TIMES) + 1)], times / slow[:, None]).low_ms
        ratios = np.array(low) / TIMES
        return float(ratios.max() / ratios.min() - 1)

    worsts = np.array([[worst(mended, seed) for mended in (False, True)] for seed in range(50)])
    plain, mended = np.median(worsts, axis=0)
    assert mended < 0.06 < 0.15 < plain


def sweeps_up_to(max_nodes: int, vocab_size: int) -> CostSweeps:
    """The sweeps of a pair of two tables."""
    shape = (vocab_size, vocab_size)
    models = [
        TableModel(torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double())
        for seed in (0, 1)
    ]
    return CostSweeps(
        Pair(*models), [0, 1, 2, 3], CostGrid.up_to(max_nodes, vocab_size, ("rrsw",)),
        Sampling(temperature=1), seed=0,
    )  # fmt: skip


def test_a_profile_is_of_one_pace_and_names_those_of_its_sweeps():
    sweeps = sweeps_up_to(4, vocab_size=6)
    measured = sweeps.sweep()
    steady = sweeps.costs([measured] * 3)
    assert steady.pace == [1, 1, 1]
    scaled = sweeps.costs(
        [
            {name: ms * (rest if "overhead" in name else pace) for name, ms in measured.items()}
            for pace, rest in ((1, 1.1), (1.4, 1), (0.7, 1))
        ]
    )
    assert scaled.pace == [1, 1.4, 0.7]
    assert scaled.model_copy(update={"pace": steady.pace}) == steady


def test_a_slow_target_is_timed_at_fewer_sizes_once_and_behind_any_step(monkeypatch):
    grids = [CostGrid.up_to(64, 30, ("rrsw", "topk"), slow=slow) for slow in (False, True)]
    quick, slow = grids
    assert slow.num_nodes == (*range(1, 9), 12, 16, 24, 32, 48, 64)
    assert replace(slow, num_nodes=quick.num_nodes, slow=False) == quick
    pair, taken = Pair(*(TableModel(torch.zeros(30, 30)) for _ in range(2))), []
    step = Rows.step
    monkeypatch.setattr(Rows, "step", lambda rows, policy: taken.append(1) or step(rows, policy))
    pieces = []
    for grid in grids:
        sweeps = CostSweeps(pair, [0] * 4, grid, Sampling(temperature=1), seed=0)
        taken.clear()
        pieces.append((sweeps.sweep(), len(taken)))
        assert sweeps.costs([pieces[-1][0]] * 2).verify.counts == list(grid.num_nodes)
    (_, many), (piece, few) = pieces
    assert piece["verify"].shape == (1, len(slow.num_nodes))
    assert np.isfinite(piece["verify"]).all()
    assert few < many / 2


def swept(monkeypatch: pytest.MonkeyPatch) -> tuple[Piece, list[StepRecord]]:
    """One sweep, and all the steps that it took: the k-th in 1000 ms and k."""
    sweeps, taken = sweeps_up_to(SMALL_SIZES + 2, vocab_size=30), []
    step = Rows.step

    def told(rows, policy):
        taken.append(replace(step(rows, policy), total_ms=1000.0 + len(taken)))
        return taken[-1]

    monkeypatch.setattr(Rows, "step", told)
    return sweeps.sweep(), taken


def test_what_is_timed_stands_behind_steps_like_it(monkeypatch):
    """A tree behind one of less than twice its size and of more than half of it."""
    times, taken = swept(monkeypatch)
    records = enumerate(taken)
    places = {(record.verify_ms, _overhead_ms(record)): place for place, record in records}
    timed = np.stack([times[name] for name in ("verify", "overhead/rrsw")], axis=-1)
    for size in range(1, SMALL_SIZES + 3):
        for pair in timed[np.isfinite(timed[:, size - 1, 0]), size - 1]:
            place = places[tuple(pair)]
            assert taken[place].num_nodes == size
            assert size / 2 < taken[place - 1].num_nodes < 2 * size


@pytest.mark.parametrize("name", ALONE)
def test_a_model_alone_is_timed_in_rows_apart_from_each_other(name, monkeypatch):
    times, taken = swept(monkeypatch)
    places = (times[name] - 1000).astype(int)
    assert places.shape == (ROWS_ALONE, NUM_ALONE)
    assert all(taken[place].num_nodes == 1 for place in places.ravel())
    assert (np.diff(places, axis=1) == 1).all()
    assert (np.diff(np.sort(places[:, 0])) > NUM_ALONE).all()


@pytest.mark.parametrize("counts", [range(1, 40), (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64), (5,)])
def test_neighbours_share_a_row(counts):
    rows = _rows(list(counts))
    assert [place for row in rows for place in row] == list(range(len(counts)))
    for row in rows:
        assert len(row) <= IN_A_ROW
        assert counts[row[-1]] < 2 * counts[row[0]] or len(row) == 1
    for one, other in pairwise(rows):
        assert len(one) == IN_A_ROW or counts[other[0]] >= 2 * counts[one[0]]


@pytest.mark.parametrize(
    ("ms", "num_cold", "untimed"),
    [
        (0.3, 1, 14), (1.5, 1, 3), (COLD_MS, 1, 1), (100.0, 1, 1),
        (0.3, 12, 14), (1.5, 12, 12), (30.0, 12, 7), (MOST_COLD_MS, 12, 1),
    ],
)  # fmt: skip
def test_a_row_begins_behind_steps_that_are_not_timed(monkeypatch, ms, num_cold, untimed):
    clock, taken = [0.0], []

    class Clocked:
        def step(self, policy):
            clock[0] += 1e-3 * ms
            taken.append(policy)
            return len(taken)

    monkeypatch.setattr(sweeps_module, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(sweeps_module, "COLD_MS", COLD_MS)
    steps = _in_a_row(Clocked(), ["first", "second", "third"], num_cold)
    assert taken == ["second"] * untimed + ["first", "second", "third"]
    assert steps == [untimed + 1, untimed + 2, untimed + 3]


def test_few_steps_settle_large_trees_and_none_is_settled_to_warm_up(monkeypatch):
    asked = []

    def in_a_row(rows, policies, num_cold=1):
        asked.append((policies, num_cold))
        return _in_a_row(rows, policies)

    sweeps = sweeps_up_to(4 * SMALL_SIZES, vocab_size=30)
    monkeypatch.setattr(sweeps_module, "NUM_COLD", 12)
    monkeypatch.setattr(sweeps_module, "_in_a_row", in_a_row)
    sweeps.warm_up()
    assert {num_cold for _, num_cold in asked} == {1}
    asked.clear()
    sweeps.warm_up()
    assert not asked  # trees have been run; plain steps go on for a while
    sweeps.sweep()
    settled = {
        each.args[0].num_nodes: (num_cold, min(one.args[0].num_nodes for one in policies))
        for policies, num_cold in asked
        if num_cold > 1
        for each in policies
    }
    assert min(settled) == 1
    assert max(settled) == 4 * SMALL_SIZES
    for num_cold, smallest in settled.values():
        assert num_cold == (12 if smallest <= SMALL_SIZES else NUM_COLD_LARGE)
    assert {num_cold for num_cold, _ in settled.values()} == {12, NUM_COLD_LARGE}


def test_small_trees_are_timed_again_in_every_sweep():
    """Their times count one by one; a larger tree has one a sweep, and no empty one moves it."""
    sweeps = sweeps_up_to(SMALL_SIZES + 2, vocab_size=30)
    done = [sweeps.sweep() for _ in range(3)]
    for name in ("verify", "overhead/rrsw"):
        known = np.isfinite(done[0][name])
        assert known.sum(axis=0).tolist() == [NUM_SMALL] * SMALL_SIZES + [1, 1]
    for sweep in done:
        sweep["verify"][:, 0] = np.geomspace(0.1, 0.9, NUM_SMALL)
        sweep["verify"][0, -1] = 0.4
    costs = sweeps.costs(done)
    steady, _ = at_one_pace(done, [name for name in done[0] if "overhead" not in name])
    every = np.concatenate([sweep["verify"] for sweep in steady])
    assert costs.verify.median_ms[0] == pytest.approx(np.median(every[:, 0]), abs=1e-6)
    assert costs.verify.median_ms[-1] == pytest.approx(np.nanmedian(every[:, -1]), abs=1e-6)
    assert costs.verify.repeats == 3
