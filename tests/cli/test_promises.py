"""`planner show FOLDER`: all reports of a folder side by side, as a table and as a picture."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

from planner import Report
from planner.cli import main
from planner.documents.sampling import Sampling
from planner.plans.check import differ
from planner.plans.report import Reports
from planner.show.drawing import TIP
from planner.show.promises import SPEED, TOKENS, promises, tokens_per_step
from planner.show.promises_figure import FEW, promises_figure

from .test_light import DATA

NAMES = ("as-it-is", "inflated-to-25-M")
REPORTS = {name: Report.load(DATA.parent / name / "report.json") for name in NAMES}


@pytest.fixture
def folder(tmp_path):
    """Two reports, and beside them a plan, JSON of somebody else, a folder that is
    called like a file, and a report that is hidden."""
    for name in NAMES:
        (tmp_path / name).mkdir()
        for document in ("report", "plan"):
            shutil.copy(DATA.parent / name / f"{document}.json", tmp_path / name)
    (tmp_path / "table.json").write_text("[1, 2]")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / ".hidden").mkdir()
    shutil.copy(DATA / "report.json", tmp_path / ".hidden")
    return tmp_path


def show(*words):
    return CliRunner().invoke(main, ["show", *map(str, words)])


def test_every_report_has_its_row_and_kept_promises_are_counted(folder):
    result = show(folder)
    assert result.exit_code == 0, result.output
    table, words = json.loads(show(folder, "--json").stdout)
    assert [row["report"] for row in table["rows"]] == list(NAMES)
    for row, report in zip(table["rows"], REPORTS.values(), strict=True):
        assert row[SPEED]["value"] == round(report.baseline.speedup.value, 2)
        assert row[TOKENS]["value"] == round(report.measured.tokens_per_step, 2)
    kept = sum(
        not differ(report.plan.predicted.speedup, report.baseline.speedup)
        for report in REPORTS.values()
    )
    assert f"speedup: {kept} of 2 as predicted" in words.splitlines()
    assert words in result.stdout


def test_the_picture_has_a_dot_for_each_where_it_belongs(folder):
    assert show(folder, "--png", folder / "all.png").exit_code == 0
    assert (folder / "all.png").read_bytes().startswith(b"\x89PNG")
    reports = Reports({folder / name / "report.json": each for name, each in REPORTS.items()})
    for axes, found in zip(promises_figure(reports).axes, promises(reports).values(), strict=True):
        dots = [line for line in axes.lines if str(line.get_gid()).startswith(TIP)]
        assert [tuple(dot.get_xydata()[0]) for dot in dots] == [
            (each.predicted.value, each.measured.value) for each in found
        ]
        (diagonal,) = (line for line in axes.lines if line.get_linestyle() == ":")
        assert (diagonal.get_xdata() == diagonal.get_ydata()).all()
        assert {*NAMES, "as predicted"} == {text.get_text() for text in axes.texts}


def test_of_many_only_broken_promises_are_named(folder):
    many = {folder / str(n) / "report.json": REPORTS["as-it-is"] for n in range(FEW + 1)}
    reports = Reports(many)
    for axes, found in zip(promises_figure(reports).axes, promises(reports).values(), strict=True):
        broken = [each for each in found if not each.is_kept]
        assert len(axes.texts) == 1 + min(len(broken), FEW)


def test_what_was_not_promised_or_not_measured_has_no_dot(folder):
    unpromised = REPORTS["as-it-is"].model_copy(
        update={"plan": REPORTS["as-it-is"].plan.at(Sampling(temperature=0.3).temperature)}
    )
    alone = REPORTS["as-it-is"].model_copy(update={"baseline": None})
    nothing = alone.continuations[0].model_copy(update={"tokens": [], "tokens_by_step": []})
    empty = alone.model_copy(update={"continuations": [nothing]})
    given = {"a": unpromised, "b": alone, "c": empty}
    found = promises(Reports({folder / f"{name}.json": each for name, each in given.items()}))
    assert {what: [each.report for each in some] for what, some in found.items()} == {
        TOKENS: ["b.json"], SPEED: [],
    }  # fmt: skip


def test_tokens_per_step_are_those_of_the_report_with_their_interval():
    report = REPORTS["as-it-is"]
    found = tokens_per_step(report)
    assert found.value == pytest.approx(report.measured.tokens_per_step)
    assert found.low < found.value < found.high
    first = report.continuations[0]
    one = tokens_per_step(report.model_copy(update={"continuations": [first]}))
    assert (one.low, one.high) == (1, max(first.tokens_by_step))


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        (lambda folder: shutil.rmtree(folder / NAMES[0]) or shutil.rmtree(folder / NAMES[1]), 1,
         "holds no reports, among 1 JSON file; expected"),
        (lambda folder: (folder / "b.json").write_text('{"format": "report", "version": 1'), 1,
         "b.json: not valid JSON"),
    ],
)  # fmt: skip
def test_no_reports_and_damaged_ones_are_one_line(folder, change, code, told):
    change(folder)
    result = show(folder)
    assert result.exit_code == code
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_conditions_of_profiles_are_refused(folder):
    assert show(folder, "--temperature", "1").exit_code == 2
