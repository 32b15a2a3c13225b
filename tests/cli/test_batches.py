"""Several prompts at a time on the command line, and plans for several numbers of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner import Plan, Report
from planner.cli import main
from tests.documents.test_batch_plans import PLAN
from tests.export.made_up import profile_at
from tests.optimizer import factory

MANY = [
    {"batch_size": 2, "drafting": {"kind": "tree", "parents": [-1, 0]}, "verifier": "topk"},
    {"batch_size": 3, "drafting": {"kind": "tree", "parents": [-1]}, "verifier": "rrsw"},
]


def planner(*arguments: object):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with prompts of different lengths, and plans for one and for several of them."""
    place = tmp_path_factory.mktemp("batches")
    (place / "prompts.txt").write_text("def \nclass A:\nimport os, sys\nx\n")
    (place / "one.json").write_text(json.dumps(PLAN))
    (place / "many.json").write_text(json.dumps(PLAN | {"by_batch": MANY}))
    return place


def decoded(folder: Path, plan: str, *more: object) -> tuple[Report, str]:
    result = planner(
        "decode", folder / plan, "--prompts", folder / "prompts.txt", "--max-new-tokens", 12,
        "-o", folder / "report.json", *more,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    return Report.load(folder / "report.json"), result.stderr


def test_prompts_that_decode_together_become_the_same_texts(folder):
    alone, said = decoded(folder, "one.json")
    assert alone.together is None
    assert "at a time" not in said
    many, said = decoded(folder, "one.json", "--batch-size", 3, "--baseline")
    assert [each.tokens for each in many.continuations] == [
        each.tokens for each in alone.continuations
    ]
    assert many.together.batch_size == 3
    assert many.together.total_ms > sum(step.total_ms for step in many.together.steps)
    assert many.together.baseline_ms > 0
    assert {step.num_rows for step in many.together.steps} <= {1, 2, 3}
    assert "up to 3 requests at a time: " in said
    assert "tokens per second by the clock" in said
    assert "autoregressive" in said


def test_the_report_says_how_each_number_was_drafted_for(folder):
    report, said = decoded(folder, "many.json", "--batch-size", 3)
    assert {(step.num_rows, step.setting) for step in report.together.steps} == {
        (number, number - 1) for number in {step.num_rows for step in report.together.steps}
    }
    assert not report.carried_out.speculates
    assert report.plan.speculates
    assert "3         do not speculate" in said
    shown = planner("show", "--all", folder / "report.json")
    assert shown.exit_code == 0
    assert "shared steps" in shown.output


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--batch-size", "0"], "0 is not in the range x>=1"),
        (["--batch-size", "two"], "'two' is not a valid integer range"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(folder, words, fault):
    result = planner("decode", folder / "one.json", "--prompts", folder / "prompts.txt", *words)
    assert result.exit_code == 2
    assert fault in result.stderr.splitlines()[-1]


def test_one_prompt_makes_no_batch(folder):
    result = planner("decode", folder / "one.json", "--prompt", "def ", "--batch-size", 2)
    assert result.exit_code == 2
    assert "--batch-size says how many of --prompts FILE" in result.stderr


def test_one_plan_is_made_for_several_numbers(tmp_path):
    costs = [
        factory.costs(
            verify=lambda n, size=size: 10 + (size * n) ** 2 / 40, step=10 + size**2 / 40,
            counts=range(1, 17), batch_size=size,
        )
        for size in (1, 4, 64)
    ]  # fmt: skip
    profile_at(0.0).model_copy(update={"costs": costs}).save(tmp_path / "profile.json")
    solving = ("solve", tmp_path / "profile.json", "--solver", "chain", "-o", tmp_path / "p.json")
    result = planner(*solving, *("--batch-size", 64, "--batch-size", 1, "--batch-size", 4))
    assert result.exit_code == 0, result.output
    assert "64 at a time: do not speculate" in result.stderr
    plan = Plan.load(tmp_path / "p.json")
    assert [way.batch_size for way in plan.ways] == [1, 4, 64]
    lengths = [way.drafting.most_nodes for way in plan.ways]
    assert lengths[0] > lengths[1] > lengths[2] == 1
    assert plan.by_batch[0].predicted.speedup.value > 1
    shown = planner("show", "--all", tmp_path / "p.json").output
    assert "by the number of requests that decode together" in shown
    missing = planner(*solving, "--batch-size", 1, "--batch-size", 2)
    assert missing.exit_code == 1
    assert "batch_size: got 2, but the profile measured only 1, 4, 64" in missing.stderr
