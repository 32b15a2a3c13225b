"""`planner show` in its forms: five lines that answer, then what fits a screen, or all of it."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from engines import Files
from planner import Plan, Profile, Report
from planner.cli import main, options
from planner.cli.engine_options import EngineWishes
from planner.documents.estimate import Estimate
from planner.documents.origin import Execution
from planner.optimizer import solve
from planner.plans.check import Check
from planner.plans.report import Baseline
from planner.show.advice import advice_on
from planner.show.first_look import first_look
from planner.show.profile_view import profile_advice
from planner.show.tables import WIDTH
from tests.documents import samples

from .profiles import two_verifiers

LINES = ["do", "gain", "sure", "why", "next"]


def estimate(value, low, high):
    return Estimate(value=value, low=low, high=high)


def report_of(plan, speedup=None):
    content = samples.report_content() | {"plan": plan.model_dump(mode="json")}
    report = Report.parse(content, "sample")
    if speedup is None:
        return report
    baseline = Baseline(num_tokens=3, ms_per_token=3.0, speedup=speedup)
    return report.model_copy(update={"baseline": baseline})


def check_of(plan, speedup=None, best="plan"):
    """Plain decoding, the plan, and a neighbour, of which `best` takes half the time of others."""
    gain = speedup or plan.predicted.speedup
    run = {"setting": "words", "tokens_per_step": plan.predicted.tokens_per_step, "step_ms": 1.5}
    runs = [
        {
            "role": role, "ms_per_token": 0.5 if role == best else 1.0,
            "speedup": gain if role == "plan" else estimate(1, 1, 1), **run,
        }
        for role in ("plain", "plan", "neighbour")
    ]  # fmt: skip
    engine = {
        "name": "llamacpp", "version": "1", "verifier": "topk", "solvers": ["chain"],
        "most_tokens": 8, "target": "t.gguf", "draft": "d.gguf",
    }  # fmt: skip
    return Check.model_validate(
        {
            "created": "2026", "plan": plan, "plan_sha256": "0", "engine": engine, "seed": 0,
            "machine": samples.MACHINE, "num_prompts": 4, "num_tokens": 8, "num_greedy": 0,
            "runs": runs,
        }
    )  # fmt: skip


def documents():
    plan = solve(two_verifiers())
    alone = solve(two_verifiers(draft=lambda width: 100.0))
    return {
        "profile": two_verifiers(),
        "plan": plan,
        "plan not to speculate": alone,
        "plan by hand": Plan.parse(samples.plan_content(), "sample"),
        "report": report_of(plan, plan.predicted.speedup),
        "report without baseline": report_of(plan),
        "report of a plan by hand": Report.parse(samples.report_content(), "sample"),
        "check": check_of(plan),
    }


DOCUMENTS = documents()


def show(document, folder, *options):
    path = folder / "a document.json"
    document.save(path)
    result = CliRunner().invoke(main, ["show", str(path), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("options", [(), ("--all",)])
def test_five_lines_answer(name, options, tmp_path):
    head = show(DOCUMENTS[name], tmp_path, *options).partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in head if not line.startswith(" ")] == LINES
    assert all(len(line) <= WIDTH for line in head[:-1])
    words = shlex.split(head[-1].removeprefix("next"))
    assert words[0] == "planner"
    assert str(tmp_path / "a document.json") in words or words[1] == "profile"
    command = main.get_command(click.Context(main), words[1])
    command.make_parser(click.Context(command)).parse_args(words[2:])


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_short_view_is_part_of_the_whole(name, tmp_path):
    brief, whole = (show(DOCUMENTS[name], tmp_path, *all_) for all_ in ((), ("--all",)))
    assert set(brief.splitlines()) <= set(whole.splitlines())
    assert len(brief.splitlines()) <= 40


@pytest.mark.parametrize("name", DOCUMENTS)
def test_json_and_csv_say_what_is_shown(name, tmp_path):
    advice, *parts = json.loads(show(DOCUMENTS[name], tmp_path, "--all", "--json"))
    assert list(advice) == LINES
    text = " ".join(show(DOCUMENTS[name], tmp_path, "--all").split())
    assert all(" ".join(line.split()) in text for line in advice.values())
    tables = [part for part in parts if isinstance(part, dict) and "rows" in part]
    rows = list(csv.DictReader(io.StringIO(show(DOCUMENTS[name], tmp_path, "--all", "--csv"))))
    assert len(rows) == len(tables[0]["rows"])
    assert list(rows[0]) == list(tables[0]["rows"][0])


def test_numbers_are_numbers_in_json(tmp_path):
    plan = DOCUMENTS["plan"]
    parts = json.loads(show(DOCUMENTS["report"], tmp_path, "--json"))
    (row,) = (row for row in parts[2]["rows"] if row[""] == "speedup")
    promised = plan.predicted.speedup
    shown = {name: round(getattr(promised, name), 2) for name in ("value", "low", "high")}
    assert row == {"": "speedup", "measured": shown, "predicted": shown}


@pytest.mark.parametrize(
    ("speedup", "words"),
    [
        (estimate(1.5, 1.2, 1.8), "keep the plan: draft a tree"),
        (estimate(1.0, 0.9, 1.1), "try more prompts"),
        (estimate(0.8, 0.7, 0.9), "decode without a draft"),
    ],
)
def test_a_report_advises_by_what_was_measured(speedup, words, tmp_path):
    told = show(report_of(DOCUMENTS["plan"], speedup), tmp_path)
    assert told.startswith(f"do    {words}")
    assert f"{speedup.low:.2f} to {speedup.high:.2f} measured" in told


def test_a_plan_without_a_draft_says_what_the_best_would_bring(tmp_path):
    alone = DOCUMENTS["plan not to speculate"]
    best = next(one for one in alone.made_from.alternatives if one.speculates)
    told = show(alone, tmp_path)
    assert told.startswith("do    decode without a draft, at T=0.6")
    assert f"nothing is lost: the best that drafts, {best.verifier}'s" in told
    assert f"is at {best.speedup}" in told
    measured = show(report_of(alone, estimate(1.0, 0.9, 1.1)), tmp_path)
    assert measured.startswith("do    decode without a draft, as planned, at T=0.6")


def test_a_broken_promise_is_told_and_leads_to_a_new_profile(tmp_path):
    promised = DOCUMENTS["plan"].predicted.speedup
    far = estimate(3 * promised.high, 3 * promised.high, 3 * promised.high)
    for document in (report_of(DOCUMENTS["plan"], far), check_of(DOCUMENTS["plan"], far)):
        told = show(document, tmp_path)
        assert "they differ, profile again" in told or "promise broken" in told
        assert "next  planner profile --target" in told


@pytest.mark.parametrize("how", [{"target_memory": 0.0}, {"tensor_parallel": 2}], ids=str)
def test_the_new_profile_holds_the_target_alike(how, tmp_path):
    plan, promised = DOCUMENTS["plan"], DOCUMENTS["plan"].predicted.speedup
    execution = Execution(dtype="bfloat16", attention="sdpa", **how)
    report = report_of(plan, estimate(3 * promised.high, 3 * promised.high, 3 * promised.high))
    told = advice_on(report.model_copy(update={"execution": execution}), tmp_path / "r.json").next
    _, name, *words = shlex.split(told)
    command = main.get_command(click.Context(main), name)
    with command.make_context(name, words) as context:
        assert how.items() <= context.meta.items()
        assert context.meta["dtype"] == "bfloat16"


@pytest.mark.parametrize(
    "more",
    [
        {"place": "bin", "options": ["-fa", "on"], "threads": 1},
        {"method": "draft-mtp", "draft": ""},
        {"servers": {0: "http://gpu:8000", 3: "http://gpu:8003"}, "most_tokens": 3},
    ],
)
def test_the_new_profile_is_of_the_same_engine_and_sampling(more, tmp_path):
    plan = DOCUMENTS["plan"]
    sampling = plan.sampling.model_copy(update={"top_p": 0.9})
    plan = plan.model_copy(update={"sampling": sampling})
    check = check_of(plan, estimate(99, 99, 99))
    engine = check.engine.model_copy(update=more)
    told = advice_on(check.model_copy(update={"engine": engine}), tmp_path / "check.json").next
    _, name, *words = shlex.split(told)
    command = main.get_command(click.Context(main), name)
    with command.make_context(name, words) as context:
        wishes = options.settings(EngineWishes)
        draft = "" if engine.method else plan.made_from.draft.name
        program = wishes.program(64, (plan.made_from.target.name, draft))
        assert program.files == Files.of(engine)
        assert context.params["temperatures"] == (0.6,)
        assert context.meta["top_p"] == 0.9


@pytest.mark.parametrize(
    ("best", "words"),
    [
        ("plan", "serve llamacpp with the plan's setting"),
        ("plain", "serve llamacpp without speculation"),
        ("neighbour", "which was faster than the plan's"),
    ],
)
def test_a_check_advises_the_fastest_setting(best, words, tmp_path):
    assert words in show(check_of(DOCUMENTS["plan"], best=best), tmp_path)


def test_the_first_look_is_the_geometric_sum_over_a_chains_step():
    """Acceptance a: (1 - a^(k+1)) / (1 - a) tokens, and of all chains the fastest."""
    profile: Profile = two_verifiers()
    sampling = profile.acceptance[0].sampling
    look = first_look(profile, sampling)
    costs, a = profile.costs[0], profile.acceptance[0].mean()[0]

    def rate(k):
        verify, overhead = costs.verify, costs.overhead["rrsw"]
        ms = verify.median_ms[verify.counts.index(k + 1)] + costs.draft_root.median_ms[0]
        ms += (k - 1) * costs.draft.median_ms[0] + overhead.median_ms[0]
        return (1 - a ** (k + 1)) / (1 - a) / ms

    measured = [n - 1 for n in costs.verify.counts if n > 1]
    best = max(measured, key=rate)
    assert look.num_tokens == best
    assert look.first_accepted == pytest.approx(a)
    assert look.speedup.value == pytest.approx(
        rate(best) * costs.target_step.median_ms[0], rel=1e-6
    )


def test_why_it_pays_is_told_by_the_samplings_own_times():
    profile: Profile = two_verifiers()
    sampling, costs = profile.acceptance[0].sampling, profile.costs[0]
    curve = costs.target_step
    doubled = {name: [2 * ms for ms in getattr(curve, name)] for name in ("median_ms", "high_ms")}
    slow = costs.model_copy(
        update={"sampling": sampling, "target_step": curve.model_copy(update=doubled)}
    )
    told = [
        profile_advice(profile.model_copy(update={"costs": entries}), Path("p.json"), sampling).why
        for entries in ([costs], [slow], [costs, slow])
    ]
    assert told[0] != told[1] == told[2]


def test_what_excludes_each_other_is_wrong_usage(tmp_path):
    DOCUMENTS["plan"].save(tmp_path / "plan.json")
    for option in ("--all", "--json", "--csv"):
        words = ["show", str(tmp_path / "plan.json"), "--png", str(tmp_path / "a.png"), option]
        assert CliRunner().invoke(main, words).exit_code == 2
    words = ["show", str(tmp_path / "plan.json"), "--json", "--csv"]
    assert "name one" in CliRunner().invoke(main, words).stderr
