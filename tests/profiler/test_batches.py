"""Times of requests that decode together are those of real passes over all their rows."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from engines import PROGRAMS, Files
from engines.measuring import measure_engine_profile
from planner import Tree
from planner.documents.document import PlannerError
from planner.documents.sampling import Sampling
from planner.export import export
from planner.optimizer import solve
from planner.policies.fixed import FixedTree
from planner.verifiers import VERIFIERS
from profiler import Pair, measure_profile
from profiler.times.batches import Rows, grid_at
from profiler.times.cost_grid import CostGrid
from profiler.times.sweeps import CostSweeps
from runtime import TableModel, session
from runtime.language_model import PassOutput
from runtime.randomness import seeded_source
from tests.export.made_up import profile_at
from tests.optimizer import factory

from .test_measure import PROMPTS, SMALL, V, table

PASS, ROW, WALK = 10.0, 1.0, 100.0
"""Seconds that the clock below is put forward by a pass, by each row of it, and by a walk."""


class Timed(TableModel):
    """A table whose passes take their time on the test's clock, one for several texts as one."""

    def __init__(self, plain: TableModel, now: list[float]) -> None:
        super().__init__(plain._table.view(V, V, V))
        self.now = now

    def forward(self, tokens, *others, num_logits=None):
        self.now[0] += PASS + ROW * len(tokens)
        return super().forward(tokens, *others, num_logits=num_logits)

    def forward_batch(self, inputs):
        self.now[0] += PASS + ROW * sum(len(asked.tokens) for asked in inputs)
        plain = super().forward
        return [PassOutput(plain(*asked[1:5], num_logits=asked.num_logits)) for asked in inputs]


@pytest.fixture
def timed(monkeypatch) -> Pair:
    """Two models and a verifier by whose work alone time passes."""
    now = [0.0]
    monkeypatch.setattr(session, "perf_counter", lambda: now[0])
    walk = type(VERIFIERS["rrsw"]).walk

    def slow(*arguments):
        now[0] += WALK
        return walk(*arguments)

    monkeypatch.setattr(type(VERIFIERS["rrsw"]), "walk", slow)
    return Pair(Timed(table(0), now), Timed(table(1), now))


def rows_of(pair: Pair, batch_size: int) -> Rows:
    return Rows(
        (pair.target, pair.draft), [0, 1, 2],
        replace(CostGrid.up_to(4, V), batch_size=batch_size), verifier=VERIFIERS["rrsw"],
        sampling=Sampling(temperature=1.0), rng=seeded_source(0, torch.device("cpu")),
    )  # fmt: skip


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_a_shared_step_has_one_pass_over_all_rows_and_every_texts_walk(timed, batch_size):
    rows = rows_of(timed, batch_size)
    for _ in range(2):  # the caches are, each time, what they were
        step = rows.step(partial(FixedTree, Tree([-1, 0, 0, 1, 1, 2])))
        passes = [1e3 * (PASS + ROW * batch_size * width) for width in (1, 2, 6)]
        assert [*step.draft_ms, step.verify_ms] == pytest.approx(passes)
        assert step.accept_ms == pytest.approx(1e3 * WALK * batch_size)
        assert step.total_ms == pytest.approx(sum(passes) + step.accept_ms)
        assert step.widths == (1, 2)


def test_a_sweep_tells_times_by_what_each_request_has(timed):
    grid = replace(CostGrid.up_to(4, V, ("rrsw",)), batch_size=3)
    sweeps = CostSweeps(timed, [0, 1, 2], grid, Sampling(temperature=1.0), seed=0)
    times = sweeps.sweep()
    of = {name: each / 1e3 for name, each in times.items()}
    np.testing.assert_allclose(of["verify"][0], [PASS + 3 * ROW * n for n in (1, 2, 3, 4)])
    np.testing.assert_allclose(of["draft"], [PASS + 3 * ROW * width for width in (1, 2)])
    np.testing.assert_allclose(of["overhead/rrsw"][0], 3 * WALK)
    np.testing.assert_allclose(of["target_step"], PASS + 3 * ROW + 3 * WALK)
    assert sweeps.costs([times] * 2).batch_size == 3


def test_a_row_that_cannot_go_on_ends_the_measurement(timed):
    rows = rows_of(Pair(timed.target, TableModel(torch.full((V, V), torch.nan).double())), 2)
    with pytest.raises(PlannerError, match="draft: got probabilities that are no numbers"):
        rows.step(partial(FixedTree, Tree([-1, 0])))


@pytest.mark.parametrize(
    ("context", "positions", "lengths"),
    [
        (3, 100, (3, 3)),  # too short to be shorter
        (40, 100, (30, 50)),
        (100, 200, (84, 116)),
        (40, 48, (39, 41)),  # a chain of seven tokens still has room
    ],
)
def test_texts_go_on_around_their_context(monkeypatch, context, positions, lengths):
    models = [table(0), table(1)]
    for model in models:
        monkeypatch.setattr(model, "max_positions", positions)
    grid = replace(CostGrid.up_to(8, V), batch_size=2)
    rows = Rows(
        (models[0], models[1]), [0] * context, grid, verifier=VERIFIERS["rrsw"],
        sampling=Sampling(temperature=1.0), rng=seeded_source(0, torch.device("cpu")),
    )  # fmt: skip
    seen = set()
    for _ in range(200):
        seen |= {len(each.tokens) for each in rows._sessions}
        rows.step(partial(FixedTree, Tree([-1, 0, 0, 1])))
    assert (min(seen), max(seen)) == lengths


def test_schedules_are_made_of_them() -> None:
    dear = [
        factory.costs(verify=lambda n, b=b: 10 + b * n * n / 4, counts=range(1, 17), batch_size=b)
        for b in (1, 4, 16)
    ]
    profile = profile_at(0.0).model_copy(update={"costs": dear})
    plan = solve(profile, solver="fixed")
    made = json.loads(export(plan, "vllm", profile=profile, draft="DRAFT").content)
    lengths = [length for *_, length in made["num_speculative_tokens_per_batch_size"]]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


def test_a_profile_tells_them_and_plans_are_made() -> None:
    settings = replace(SMALL, samplings=SMALL.samplings[1:], batch_sizes=(2,), repeats=2)
    profile = measure_profile(Pair(table(0), table(1)), PROMPTS, settings)
    sizes = [(costs.batch_size, costs.context) for costs in profile.costs]
    assert sizes == [(1, 3), (1, 8), (2, 3), (2, 8)]
    two = profile.costs[2]
    assert two.verify.counts == [1, 2, 3]
    assert not two.by_rows
    assert two.growing is not None
    assert two.chains is not None
    assert solve(profile, solver="fixed", batch_size=2).made_from.batch_size == 2


def test_passes_have_no_more_rows_than_the_largest_tree() -> None:
    assert grid_at(1, 64, 99) == CostGrid.up_to(64, 99)
    assert grid_at(8, 64, 99) == replace(CostGrid.up_to(8, 99), batch_size=8)
    assert grid_at(32, 64, 99).num_nodes == (1, 2)


def test_other_batches_are_refused_in_one_line() -> None:
    pair = Pair(table(0), table(1))
    with pytest.raises(PlannerError, match="batch_size: got 5, expected at most 3: with") as said:
        measure_profile(pair, PROMPTS, replace(SMALL, batch_sizes=(1, 5)))
    assert "\n" not in str(said.value)
    alone = PROGRAMS["hf"](Files("target", "draft"), 64)
    with pytest.raises(PlannerError, match="batch_size: got 2, expected 1 alone: hf is asked"):
        measure_engine_profile(pair, PROMPTS, replace(SMALL, batch_sizes=(2,)), engine=alone)
