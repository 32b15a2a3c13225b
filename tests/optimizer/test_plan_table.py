"""Many questions at once: every combination has its row, in parallel as one by one, and what was
interrupted goes on where it stopped."""

from __future__ import annotations

import csv
import io
import json
from itertools import pairwise

import pytest

from planner import Profile
from planner.documents.pieces import Journal
from planner.optimizer import plan_table as module
from planner.optimizer import solve
from planner.optimizer.plan_table import PlanRow, Questions, as_csv, as_json, plan_table
from tests.cli.profiles import SMALL, vectors
from tests.cli.test_light import DATA

from . import factory

RECORDED = {
    name: Profile.load(DATA.parent / name / "profile.json")
    for name in ("as-it-is", "inflated-to-25-M")
}
FEW = Questions(solvers=("chain", "kary"), verifiers=("chain", "spechub"))


def two_of_all():
    """Two temperatures, two verifiers at the second, two batch sizes, two contexts at the first."""
    entries = [
        factory.positional(vectors(0, [0.6, 0.2]), verifier=verifier, temperature=temperature)
        for verifier, temperature in (("rrsw", 0.6), ("naive", 1.0), ("rrsw", 1.0))
    ]
    costs = [
        factory.costs(batch_size=size, context=context, **SMALL)
        for size, context in ((1, 128), (1, 512), (4, 128))
    ]
    return factory.profile(entries, costs)


def conditions(row: PlanRow):
    asked = row.asked
    return asked.temperature, asked.batch_size, asked.context, asked.verifier


def test_by_default_all_that_a_profile_holds_is_asked():
    rows = plan_table({"p": two_of_all()}, Questions(solvers=("chain",)))
    sizes = [(1, 128), (1, 512), (4, 128)]
    entries = [(0.6, "rrsw"), (1.0, "naive"), (1.0, "rrsw")]
    wanted = {(t, *size, verifier) for t, verifier in entries for size in sizes}
    assert {conditions(row) for row in rows} == wanted
    assert len(rows) == len(wanted)
    assert all(row.no_plan is None for row in rows)


def test_a_row_is_what_solve_answers_and_the_fastest_is_first():
    rows = plan_table(RECORDED, FEW)
    assert len(rows) == 2 * 2 * 2
    for row in rows:
        asked = row.asked
        plan = solve(
            RECORDED[row.profile], solver=asked.solver, verifier=asked.verifier, temperature=0.6,
            batch_size=1, context=128,
        )  # fmt: skip
        assert (row.plan, row.plan_verifier) == (plan.words, plan.verifier)
        assert row.draft == RECORDED[row.profile].draft.name
        assert row.speedup == plan.predicted.speedup
        assert row.tokens_per_step == plan.predicted.tokens_per_step
    assert all(a.speedup.value >= b.speedup.value for a, b in pairwise(rows))


def test_parallel_rows_are_those_made_one_by_one():
    assert plan_table(RECORDED, FEW, jobs=2) == plan_table(RECORDED, FEW, jobs=1)


def test_there_are_no_more_workers_than_rows():
    one = {"contexts": (128,), "solvers": ("chain",), "verifiers": ("rrsw",)}
    asked = Questions(temperatures=(0.6,), batch_sizes=(1,), **one)
    assert len(plan_table({"p": two_of_all()}, asked, jobs=10**20)) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"temperatures": (0.3,)}, "temperature: got 0.3, but the profile measured only 0.6"),
        ({"batch_sizes": (7,)}, "batch_size: got 7"),
        ({"verifiers": ("rrs",)}, "verifier: got 'rrs'"),
        ({"solvers": ("grown",)}, "no recorded trees"),
        ({"contexts": (10_000,)}, "context: got 10000"),
    ],
)
def test_a_row_without_a_plan_says_why_and_comes_last(change, words):
    asked = {"temperatures": (0.6,), "batch_sizes": (1,), "solvers": ("chain",)}
    for each, value in change.items():
        asked[each] = (*asked.get(each, {"verifiers": ("rrsw",), "contexts": (128,)}.get(each)),
                       *value)  # fmt: skip
    first, last = plan_table({"p": two_of_all()}, Questions(**({"contexts": (128,)} | asked)))
    assert first.plan is not None
    assert last.plan is last.speedup is None
    assert words in last.no_plan
    assert "\n" not in last.no_plan


def test_what_was_interrupted_goes_on_where_it_stopped(tmp_path, monkeypatch):
    output, calls = tmp_path / "table.csv", []
    answer = module.solve

    def solve_some(profile, **asked):
        if len(calls) == 5:
            raise KeyboardInterrupt
        calls.append(asked)
        return answer(profile, **asked)

    monkeypatch.setattr(module, "solve", solve_some)
    with pytest.raises(KeyboardInterrupt):
        plan_table(RECORDED, FEW, journal=Journal(output, {}))
    monkeypatch.setattr(module, "solve", lambda *profile, **asked: calls.append(asked) or
                        answer(*profile, **asked))  # fmt: skip
    said, told = [], []
    again = Journal(output, {}, report_line=said.append)
    rows = plan_table(RECORDED, FEW, journal=again, done=lambda *numbers: told.append(numbers))
    assert said == ["continuing an interrupted run: 5 pieces are done"]
    assert told == [(5, 8), (6, 8), (7, 8)]
    assert len(calls) == len(rows) == 8
    assert rows == plan_table(RECORDED, FEW)


def test_a_kept_row_is_of_its_profile_alone_and_a_torn_one_is_made_again(tmp_path):
    output, profile = tmp_path / "table.csv", two_of_all()
    one = Questions(temperatures=(0.6,), batch_sizes=(1,), contexts=(128,), solvers=("chain",))
    rows = plan_table({"p": profile}, one, journal=Journal(output, {}))
    (piece,) = tmp_path.glob(".table.csv.*/*.piece")
    other = factory.profile([factory.positional(vectors(1, [0.9, 0.05]))],
                            [factory.costs(**SMALL)])  # fmt: skip
    (faster,) = plan_table({"p": other}, one, journal=Journal(output, {}))
    assert faster.speedup.value > rows[0].speedup.value
    (renamed,) = plan_table({"q": profile}, one, journal=Journal(output, {}))
    assert renamed == rows[0].model_copy(update={"profile": "q"})
    piece.write_text("{")
    assert plan_table({"p": profile}, one, journal=Journal(output, {})) == rows


def test_what_is_written_keeps_all_digits_and_words():
    rows = plan_table({"a,b": two_of_all()}, Questions(temperatures=(0.6, 0.3), solvers=("chain",)))
    read = [PlanRow.parse(each, "json") for each in json.loads(as_json(rows))]
    assert read == rows
    lines = list(csv.DictReader(io.StringIO(as_csv(rows))))
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        assert (line["profile"], line["plan"]) == ("a,b", row.plan or "")
        assert line["no_plan"] == (row.no_plan or "")
        if row.speedup is not None:
            numbers = [float(line[f"speedup{end}"]) for end in ("", "_low", "_high")]
            assert numbers == [row.speedup.value, row.speedup.low, row.speedup.high]
            assert float(line["tokens_per_step"]) == row.tokens_per_step.value
