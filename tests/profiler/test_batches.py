"""Costs of requests that decode together are read off those of one with as many rows."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from engines import PROGRAMS, Files
from engines.measuring import measure_engine_profile
from planner.documents.document import PlannerError
from planner.export import export
from planner.optimizer import solve
from profiler import Pair, measure_profile
from profiler.times.batches import QUARTILES, at_batch, batch_sizes
from tests.export.made_up import profile_at
from tests.optimizer import factory

from .test_measure import PROMPTS, SMALL, table

ONE = factory.costs(
    verify=lambda n: 10.0 + n,
    draft=lambda width: 1.0 + width / 8,
    root=1.5,
    overhead=lambda n: 0.1 * n,
    step=11.5,
    counts=range(1, 17),
    spread=0.1,
)


@pytest.fixture(scope="module")
def pair() -> Pair:
    return Pair(table(0), table(1))


def test_a_pass_over_nodes_of_each_request_is_one_over_them_all() -> None:
    four = at_batch(ONE, 4)
    assert (four.batch_size, four.by_rows) == (4, True)
    assert four.verify.counts == four.draft.counts == [1, 2, 3, 4]
    assert four.verify.low_ms == [14.0, 18.0, 22.0, 26.0]
    assert four.draft.low_ms == [1.5, 2.0, 2.5, 3.0]
    assert four.draft_root.low_ms == [1.5 + (1.5 - 1.125)]
    # every request's token is drawn by itself: .5 beside the pass over its row
    assert four.target_step.low_ms == [14.0 + 4 * 0.5]
    assert four.draft_step.low_ms == [1.5]
    assert four.overhead["rrsw"].counts == ONE.overhead["rrsw"].counts
    assert four.overhead["rrsw"].low_ms[2] == pytest.approx(4 * 0.3)
    type(four).model_validate_json(four.model_dump_json())


def test_a_first_pass_takes_as_long_as_later_ones_however_disturbed_these_were() -> None:
    slow = ONE.draft.model_copy(update={name: list(getattr(ONE.draft, name)) for name in QUARTILES})
    for name in QUARTILES:
        getattr(slow, name)[0] += 5.0  # somebody took the core from the passes over one row
    four = at_batch(ONE.model_copy(update={"draft": slow}), 4)
    assert four.draft_root.low_ms == [1.5] == four.draft.low_ms[:1]


def test_one_request_is_measured() -> None:
    assert at_batch(ONE, 1) is ONE
    assert batch_sizes([1, 2, 3, 4, 6, 8], [1, 2, 3, 4, 5, 6, 7, 8]) == [1, 2, 3, 4]


def test_schedules_are_made_of_them() -> None:
    dear = factory.costs(verify=lambda n: 10 + n * n / 4, counts=range(1, 17))
    many = [at_batch(dear, size) for size in (1, 2, 4)]
    profile = profile_at(0.0).model_copy(update={"costs": many})
    plan = solve(profile, solver="fixed")
    made = json.loads(export(plan, "vllm", profile=profile, draft="DRAFT").content)
    lengths = [length for *_, length in made["num_speculative_tokens_per_batch_size"]]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


def test_a_profile_tells_them_and_plans_are_made(pair) -> None:
    profile = measure_profile(pair, PROMPTS, replace(SMALL, batch_sizes=(2,)))
    sizes = [(costs.batch_size, costs.context) for costs in profile.costs]
    assert sizes == [(1, 3), (1, 8), (2, 3), (2, 8)]
    assert profile.costs[2].verify.counts == [1, 2, 3]
    assert solve(profile, temperature=1.0, batch_size=2).made_from.batch_size == 2


def test_other_batches_are_refused_in_one_line(pair) -> None:
    with pytest.raises(PlannerError, match="batch_size: got 5, expected one of 1, 2, 3"):
        measure_profile(pair, PROMPTS, replace(SMALL, batch_sizes=(1, 5)))
    alone = PROGRAMS["hf"](Files("target", "draft"), 64)
    with pytest.raises(PlannerError, match="batch_size: got 2, expected 1 alone: hf is asked"):
        measure_engine_profile(pair, PROMPTS, replace(SMALL, batch_sizes=(2,)), engine=alone)
