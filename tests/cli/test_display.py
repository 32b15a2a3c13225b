"""Words of profiles and reports beside their tables."""

from __future__ import annotations

import pytest

from planner import Plan, Profile, Report
from planner.optimizer import solve
from planner.plans.report import Baseline
from planner.show.document_text import render
from tests.documents import samples

from .profiles import two_verifiers


def run_of(plan: Plan, **conditions) -> Report:
    """A report of `plan`, run from a prompt of 4 tokens to 7, under the plan's own conditions but
    for those given."""
    content = samples.report_content() | {"plan": plan.model_dump(mode="json")}
    content["machine"] = plan.made_from.machine.model_dump() | conditions.get("machine", {})
    content["execution"] = plan.made_from.execution.model_dump() | conditions.get("execution", {})
    return Report.parse(content, "sample")


def test_a_report_says_under_which_other_conditions_its_plan_was_made():
    plan = solve(two_verifiers())
    at = plan.made_from.model_copy(update={"context": 5})
    plan = plan.model_copy(update={"made_from": at})
    assert "differs" not in render(run_of(plan))
    other = run_of(plan, machine={"num_threads": 7}, execution={"dtype": "bfloat16"})
    assert "differs  predicted for float32, 1 thread; run with bfloat16, 7 threads\n" in (
        render(other) + "\n"
    )
    for context, outside in ((3, True), (4, False), (7, False), (8, True)):
        moved = plan.model_copy(update={"made_from": at.model_copy(update={"context": context})})
        words = f"differs  predicted for context {context}; run with contexts 4 to 7"
        assert (words in render(run_of(moved))) == outside
    bare = plan.model_copy(update={"predicted": None})
    assert "differs" not in render(run_of(bare, execution={"dtype": "bfloat16"}))


@pytest.mark.parametrize(
    ("ratio", "told"), [(1.14, False), (1.16, True), (0.88, False), (0.86, True)]
)
def test_a_report_says_where_steps_took_another_time_than_predicted(ratio, told):
    report = run_of(solve(two_verifiers()))
    measured, predicted = report.measured, report.plan.predicted
    ms_per_token = ratio * predicted.step_ms.value / measured.tokens_per_step
    alone = 2 * predicted.autoregressive_ms.value
    report = report.model_copy(
        update={
            "measured": measured.model_copy(update={"ms_per_token": ms_per_token}),
            "baseline": Baseline(num_tokens=8, ms_per_token=alone, speedup=predicted.speedup),
        }
    )
    words = f"pace     steps took {ratio:.2f} times what was predicted"
    assert (f"{words}, the target alone 2.00 times; if" in render(report)) == told
    assert (f"{words}; if" in render(report.model_copy(update={"baseline": None}))) == told
    unknown = report.plan.model_copy(update={"predicted": None})
    assert "pace" not in render(report.model_copy(update={"plan": unknown}))


@pytest.mark.parametrize(("ratio", "told"), [(1.24, False), (1.26, True)])
def test_a_profile_says_where_the_same_passes_took_different_times(ratio, told):
    """Most of them did; of the worst the quartiles are named."""
    content = samples.profile_content()
    verify = content["costs"][0]["verify"]
    verify["high_ms"] = [low * ratio for low in verify["low_ms"]]
    verify["high_ms"][2] = verify["low_ms"][2] * 2
    words = "unsteady: a quarter of the passes over 4 nodes took at most 1.35 ms, a quarter at "
    assert (words in render(Profile.parse(content, "sample"))) == told


@pytest.mark.parametrize(("slow", "told"), [(1.24, False), (1.26, True)])
def test_a_profile_says_that_the_machine_was_faster_and_slower(slow, told):
    content = samples.profile_content()
    content["costs"][0]["pace"] = [1, slow, 1, slow]
    words = "unsteady: a quarter of the sweeps took at least 1.26 times as long as the fastest"
    assert (words in render(Profile.parse(content, "sample"))) == told


def grown(draft, widths, sizes):
    """Times of what a rule decides on."""
    return {
        "draft_root": samples.curve([1], [0.7]),
        "draft": samples.curve(widths, draft),
        "overhead": samples.curve(sizes, [1, 2]),
    }


@pytest.mark.parametrize("largest", [8, 64])
def test_a_profiles_times_can_be_read(largest):
    """Rows of trees and levels, a column for everything that was timed, nothing cut off."""
    content = samples.profile_content()
    costs = content["costs"][0]
    every, few = list(range(1, largest + 1)), [2, largest]
    rules = ["chain", "naive", "topk", "rrs", "kseq", "spechub", "lookahead"]
    costs["verify"] = samples.curve(every, [10 + n for n in every])
    costs["growing"] = grown([0.1, 0.2, 0.3], [1, 2, 4], few)
    costs["chains"] = grown([0.4], [1], few)
    costs["scored"] = {name * 32: grown([0.5], [1], few) for name in ("ab", "cd", "ef")}
    costs["overhead"] = {
        "rrsw": samples.curve(every, [0.5] * largest),
        **{rule: samples.curve(few, [0.25, 0.75]) for rule in rules},
    }
    lines = render(Profile.parse(content, "sample")).splitlines()
    (start,) = (place for place, line in enumerate(lines) if line.startswith("n "))
    assert lines[start].split() == ["n", "verify", "draft", "pass", "growing", "rrsw", *rules]
    assert max(map(len, lines)) <= 110
    assert "…" not in "".join(lines)
    end = lines.index("", start)
    rows = {line.split()[0]: line.split()[1:] for line in lines[start + 1 : end]}
    assert list(map(int, rows)) == (every if largest == 8 else [1, 2, 4, largest])
    assert rows["2"] == ["12", "0.1", "0.2", "0.5", *["0.25"] * len(rules)]
    assert rows[str(largest)] == [f"{10 + largest:.3g}", "0.5", *["0.75"] * len(rules)]
    last = ["2"] if largest == 8 else []
    by_rule = [line.split() for line in lines[-5:]]
    assert (
        by_rule
        == [
            ["fixed", "trees", "0.3", "0.1", "0.5", "0.5", "0.5"],
            ["growing", "trees", "0.7", "0.1", "1", *last],
            ["chains", "0.7", "0.4", "1", *last],
            *(["chains,", "head", name * 4, "0.7", "0.5", "1", *last] for name in ("ab", "cd")),
            ["chains,", "head", "efefefef", "0.7", "0.5", "1", *last],
        ][-5:]
    )
