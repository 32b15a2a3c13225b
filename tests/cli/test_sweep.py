"""`planner sweep` prints and writes a table, and leaves nothing else behind."""

from __future__ import annotations

import csv
import json
import shlex

import pytest
from click.testing import CliRunner

from planner import Plan
from planner.cli import main
from tests.optimizer import factory

from .profiles import SMALL, two_verifiers, vectors


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two profiles of one name in the current folder; the first has a better draft."""
    better = factory.profile([factory.positional(vectors(0, [0.8, 0.1]))], [factory.costs(**SMALL)])
    for name, profile in (("better", better), ("worse", two_verifiers())):
        (tmp_path / name).mkdir()
        draft = profile.draft.model_copy(update={"name": f"{name}-draft"})
        profile.model_copy(update={"draft": draft}).save(tmp_path / name / "profile.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sweep(*words):
    return CliRunner().invoke(
        main, ["sweep", "better/profile.json", "worse/profile.json", "--solver", "chain", *words]
    )


def test_drafts_are_compared_the_fastest_first(folder):
    result = sweep()
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "T 0.6, batch 1, context 128, solver chain"
    assert lines[2].split()[:4] == ["profile", "draft", "verifier", "plan"]
    assert [line.split()[:3] for line in lines[3:6]] == [
        ["better", "better-draft", "rrsw"],
        ["worse", "worse-draft", "rrsw"],
        ["worse", "worse-draft", "naive"],
    ]


def test_the_command_below_writes_the_plan_of_the_first_row(folder):
    shown = sweep("-o", "table.json").stdout.splitlines()
    command = next(line for line in shown if line.startswith("next")).split(maxsplit=1)[1]
    assert CliRunner().invoke(main, shlex.split(command)[1:]).exit_code == 0
    plan = Plan.load("better/plan.json")
    first, *_ = json.loads((folder / "table.json").read_text())
    assert first["speedup"] == plan.predicted.speedup.model_dump()
    assert (first["plan"], first["plan_verifier"]) == (plan.words, plan.verifier)


def test_a_table_is_written_and_nothing_else_is_left(folder):
    result = sweep("--temperature", "0.6", "--temperature", "0.3", "-o", "table.csv")
    assert result.exit_code == 0, result.output
    lines = list(csv.DictReader((folder / "table.csv").open()))
    assert len(lines) == 5
    assert sum(bool(line["no_plan"]) for line in lines) == 2
    assert result.stdout.count("no plan: profile ") == 2
    assert sorted(path.name for path in folder.iterdir()) == ["better", "table.csv", "worse"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["-o", "table.txt"], 2, "expected a name ending in .csv or .json"),
        (["-o", "nowhere/table.csv"], 1, "the folder nowhere does not exist"),
        (["gone.json"], 1, "gone.json: no such file"),
        (["--jobs", "0"], 2, "0 is not in the range"),
        (["--temperature", "nan"], 2, "nan"),
    ],
)
def test_wrong_words_end_before_the_work(folder, words, code, told):
    result = sweep(*words)
    assert result.exit_code == code
    assert told in " ".join(result.stderr.split())
    assert result.stdout == ""
