"""Acceptance of one profile, times from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from planner import PlannerError, Profile
from planner.documents.engine import EngineFacts
from planner.documents.given_costs import GivenCosts
from planner.documents.origin import Execution
from planner.estimates.other_costs import with_costs
from planner.estimates.step_costs import SITTING_ERROR, THREADS_ERROR, step_costs
from planner.optimizer import solve
from tests.documents.samples import costs_content
from tests.export.made_up import profile_at
from tests.optimizer import factory
from tests.optimizer.factory import costs, positional

DATA = Path(__file__).parent.parent.parent / "notebooks" / "data"
RANKS = [0.6, 0.2, 0.05]
ENGINE = EngineFacts(
    name="llamacpp", version="1", verifier="topk", solvers=["chain"], most_tokens=7,
    target="t.gguf", draft="d.gguf",
)  # fmt: skip


def base(*verifiers: str) -> Profile:
    entries = [positional([RANKS, [*RANKS[:2], 0.1]], verifier=name) for name in verifiers]
    return factory.profile(entries, [costs(spread=0.1)])


def given(**changes: object) -> GivenCosts:
    content = costs_content()
    content["costs"][0] |= changes
    return GivenCosts.parse(content, "given")


def test_given_times_are_those_of_a_profile_that_measured_the_same_ones():
    """The slow twin: a profile made anew, all its curves straight and without any spread."""
    counts = (1, 4, 8)
    own = costs(
        verify=lambda n: 9 + n, draft=lambda w: 1 + w / 10, overhead=lambda n: 0.0, step=10.0,
        counts=counts, context=32,
    )  # fmt: skip
    twin = factory.profile([positional([RANKS] * 2)], [own])
    other = given(
        verify={"counts": counts, "ms": [10.0, 13.0, 17.0]},
        draft={"counts": counts, "ms": [1.1, 1.4, 1.8]},
    )
    one, two = solve(twin), solve(with_costs(factory.profile([positional([RANKS] * 2)]), other))
    assert two.drafting == one.drafting
    assert two.predicted == one.predicted
    assert two.made_from.costs_from == other.origin
    assert one.made_from.costs_from is None


def test_between_two_counts_times_lie_on_the_line_and_outside_there_are_none():
    times = step_costs(with_costs(base("rrsw"), given()), verifier="rrsw")
    assert [times.verify_ms(n) for n in (1, 2, 4, 6)] == [10.0, 11.0, 13.0, 13.5]
    assert times.draft_ms(2) == pytest.approx(1.2)
    assert (times.max_nodes, times.overhead_ms(5)) == (8, 0.0)
    assert times.autoregressive == (10.0, 0.0)
    assert times.draft_root == (1.0, 0.0)
    for wrong in (lambda: times.verify_ms(9), lambda: times.draft_ms(5)):
        with pytest.raises(PlannerError, match="stay within"):
            wrong()


def test_what_is_left_out_can_be_said():
    said = given(
        target_step_ms=8.0, draft_root_ms=2.0, overhead={"counts": [1, 6], "ms": [0.5, 1.0]}
    )
    times = step_costs(with_costs(base("rrsw"), said), verifier="rrsw")
    assert (times.autoregressive_ms, times.draft_root.ms) == (8.0, 2.0)
    assert (times.max_nodes, times.overhead_ms(6)) == (6, 1.0)


def test_of_times_that_were_given_the_interval_says_only_that_sittings_differ():
    plan = solve(with_costs(base("rrsw"), given()))
    step, tokens, speedup = (
        getattr(plan.predicted, name) for name in ("step_ms", "tokens_per_step", "speedup")
    )
    assert np.log(step.high / step.value) == pytest.approx(1.96 * SITTING_ERROR)
    assert tokens.low < tokens.value < tokens.high
    wide = [np.log(each.high / each.value) for each in (tokens, step)]
    assert np.log(speedup.high / speedup.value) == pytest.approx(np.hypot(*wide))


def test_another_profile_lends_its_times_machine_and_engine():
    other = factory.profile([positional([RANKS], verifier="topk")], [costs(step=99.0)])
    timed = other.costs[0].model_copy(update={"overhead": {"topk": other.costs[0].verify}})
    machine = other.machine.model_copy(update={"cpu": "another", "num_threads": 2})
    other = other.model_copy(update={"costs": [timed], "engine": ENGINE, "machine": machine})
    first = base("rrsw", "topk")
    both = with_costs(first, other)
    assert [entry.verifier for entry in both.acceptance] == ["topk"]
    assert (both.machine.cpu, both.engine, both.target) == ("another", ENGINE, first.target)
    assert "another, float32 by llamacpp" in both.costs_from.source
    plan = solve(both)
    assert plan.predicted.autoregressive_ms.value == 99.0
    own = step_costs(both, verifier="topk")  # timed on two threads
    assert own.shared_error == THREADS_ERROR
    assert plan.made_from.costs_from.sha256 == other.fingerprint()
    with pytest.raises(PlannerError, match="hold times under topk, but the profile the accept"):
        with_costs(base("rrsw"), other)
    again = with_costs(first, both)  # times that were lent already keep their source
    assert again.costs_from == both.costs_from


def test_the_target_is_held_as_where_its_times_are_from_in_the_precision_of_its_acceptance():
    here = Execution(dtype="float32", attention="sdpa", target_memory=1.0)
    there = Execution(dtype="bfloat16", attention="sdpa", tensor_parallel=2)
    first, other = (
        base("rrsw").model_copy(update={"execution": execution}) for execution in (here, there)
    )
    planned = solve(with_costs(first, other)).made_from.execution
    assert planned == there.model_copy(update={"dtype": "float32"})


def test_trees_that_grow_are_played_at_the_times_given():
    profile = profile_at(0.6)
    plan = solve(
        with_costs(profile, given(context=64, draft={"counts": [1, 4], "ms": [0.1, 0.1]})),
        solver="grown",
    )
    assert plan.grows
    assert plan.predicted.autoregressive_ms.value == 10.0


def test_offloaded_a_plan_of_hundreds_of_nodes_is_made_and_keeps_the_arithmetic():
    """Sequoia's Table 5 in the acceptance of the pair: 768 nodes are within reach."""
    other = GivenCosts.load(DATA.parent.parent / "docs/costs/sequoia-l40-offloaded.json")
    profile = with_costs(Profile.load(DATA / "as-it-is" / "profile.json"), other)
    few, some, most = (
        solve(profile, solver="sequoia", verifier="rrsw", max_nodes=nodes)
        for nodes in (128, 256, None)
    )
    assert 256 < most.tree.num_nodes <= 768
    speedups = [plan.predicted.speedup.value for plan in (few, some, most)]
    assert speedups == sorted(speedups)
    step = 5600 + 641 * (most.tree.num_nodes - 1) / 767 + 29.2 * most.tree.depth
    assert most.predicted.step_ms.value == pytest.approx(step, rel=1e-9)
    assert most.predicted.optimality_gap < 0.01


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c["costs"][0]["verify"].update(counts=[2, 4, 8]),
         "target_step_ms, or verify.counts from 1, not from 2"),
        (lambda c: c["costs"][0]["draft"].update(counts=[2, 4]),
         "draft_root_ms, or draft.counts from 1, not from 2"),
        (lambda c: c["costs"][0]["verify"]["ms"].pop(), "of one length, not 3 and 2"),
        (lambda c: c["costs"][0]["verify"].update(counts=[1, 8, 4]), "strictly increasing"),
        (lambda c: c["costs"][0]["draft"].update(ms=[0.0, 1.0]), "draft.ms above 0"),
        (lambda c: c["costs"].append(c["costs"][0]), "batch_size 1 and context 32 once"),
        (lambda c: c.update(source=""), "source: got ''"),
        (lambda c: c.update(costs=[]), "costs: got []"),
    ],
)  # fmt: skip
def test_wrong_costs_name_their_fault(change, words):
    content = costs_content()
    change(content)
    with pytest.raises(PlannerError) as caught:
        GivenCosts.parse(json.loads(json.dumps(content)), "costs.json")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_head_that_was_not_timed_is_not_asked():
    profile = profile_at(0.6)
    replay = profile.replays[0]
    head = {"file": "head.safetensors", "sha256": "0" * 64}
    scored = replay.model_validate(replay.model_dump() | {"head": head})
    profile = profile.model_copy(update={"replays": [scored]})
    assert [each.head for each in with_costs(profile, given()).replays] == [None]


def test_an_engine_still_carries_out_what_is_planned_at_given_costs():
    profile = base("topk").model_copy(update={"engine": ENGINE})
    plan = solve(with_costs(profile, given()))
    assert (plan.made_from.engine, plan.made_from.solver) == (ENGINE, "chain")
    assert plan.made_from.costs_from.source == "a paper"
