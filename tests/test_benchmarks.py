"""The tables of the results' pages are what the benchmarks wrote, and nothing else."""

import functools
import json
import types
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

from benchmarks import (
    batches,
    budgets,
    coverage,
    decoding,
    drafts,
    engines,
    following,
    growing,
    growing_table,
    growing_times,
    knobs,
    loops,
    moved,
    products,
    regret,
    side_by_side,
    sittings,
    truth,
    whole_paths,
)  # fmt: skip
from benchmarks.outputs import kept, marked, replace_marked
from benchmarks.race import Lap
from planner import Plan, PlannerError
from planner.optimizer import Question, rank_candidates, solve
from planner.policies import ThresholdDrafting, TreeDrafting
from tests.optimizer import factory

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs/results"
TABLES = {
    ("batches", "batches.md"): (batches.BatchRow, batches.table),
    ("budgets", "predictions.md"): (budgets.BudgetRow, budgets.table),
    ("coverage", "predictions.md"): (coverage.CoverageRow, coverage.table),
    ("drafts", "drafts.md"): (drafts.DraftRow, drafts.table),
    ("engines", "engines.md"): (engines.EngineRow, engines.table),
    ("following", "moved.md"): (following.FollowingRow, following.table),
    ("growing", "growing.md"): (growing_table.GrowingRow, growing_table.table),
    ("growing-details", "growing-details.md"): (growing_table.GrowingRow, growing_table.details),
    ("knobs", "knobs.md"): (knobs.KnobsRow, knobs.table),
    ("loops", "loops.md"): (loops.LoopRow, loops.table),
    ("moved", "moved.md"): (moved.MovedRow, moved.table),
    ("products", "loops.md"): (products.ProductRow, products.table),
    ("planning", "planning.md"): (side_by_side.SideBySide, side_by_side.table),
    ("regret", "regret.md"): (regret.RegretRow, regret.table),
    ("truth", "predictions.md"): (truth.TruthRow, truth.table),
    ("whole-paths", "predictions.md"): (whole_paths.WholePathsRow, whole_paths.table),
}
"""(Marks, page) -> the rows of the JSON, and what is made of them."""


def saved(name, kind):
    """The rows of a saved run: every field that they have, and no other but a planning row's
    judgement of itself."""
    content = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text())
    entries = content["rows"] if isinstance(content, dict) else content
    rows = TypeAdapter(list[kind]).validate_python(entries)
    fields = [asdict(row) | ({"met": row.met} if name == "planning" else {}) for row in rows]
    assert fields == entries
    return rows


@pytest.mark.parametrize(("name", "page"), TABLES)
def test_a_page_shows_the_saved_run(name, page):
    kind, table = TABLES[name, page]
    assert marked(PAGES / page, name) == table(saved(name.removesuffix("-details"), kind))


def test_only_what_stands_between_the_marks_is_replaced(tmp_path):
    path = tmp_path / "README.md"
    path.write_text("before\n<!-- truth -->\nold\n<!-- /truth -->\nafter <!-- regret -->\n")
    replace_marked(path, "truth", r"new \1 | table")
    assert path.read_text() == (
        "before\n<!-- truth -->\nnew \\1 | table\n<!-- /truth -->\nafter <!-- regret -->\n"
    )
    assert marked(path, "truth") == r"new \1 | table"


def test_a_file_without_marks_is_left_alone(tmp_path):
    path = tmp_path / "README.md"
    path.write_text("nothing <!-- truth -->")
    with pytest.raises(PlannerError, match="has no marks <!-- truth -->"):
        replace_marked(path, "truth", "new")
    assert path.read_text() == "nothing <!-- truth -->"


def test_error_of_a_ratio_is_that_of_many_samples():
    """Two correlated ratios over 64 prompts, drawn 2,000 times: the spread is as said."""
    rng = np.random.default_rng(0)
    logs, errors = [], []
    for _ in range(2000):
        steps = rng.uniform(20, 60, size=64)
        one = decoding.Ratio(steps * rng.normal(3, 0.3, size=64), steps)
        other = decoding.Ratio(one.tokens + rng.normal(0, 5, size=64), steps)
        logs.append(np.log(one.value / other.value))
        errors.append(decoding.log_error(one.influence - other.influence))
    spread = np.std(logs)
    assert abs(np.mean(errors) - spread) < 4 * spread / np.sqrt(2 * 2000) + 0.02 * spread


def test_the_grid_of_regret_has_every_verifier_and_size_that_is_no_hopeless_one():
    """And not to speculate; no plan twice."""
    profile = factory.profile(
        [
            factory.positional([[0.5, 0.2, 0.1]] * 2, verifier=name)
            for name in ("rrsw", "topk", "chain")
        ]
    )
    sampling = profile.sampling_at(None)
    candidates = rank_candidates(profile, Question(sampling=sampling))
    plans = regret.grid(candidates, sampling)
    assert not plans[0].speculates
    assert len({each.fingerprint() for each in plans}) == len(plans)
    least = regret.HOPELESS * candidates[0].tokens_per_ms
    expected = {
        (each.verifier, each.tree.num_nodes)
        for each in candidates
        if each.speculates and each.tokens_per_ms >= least and each.tree.num_nodes in regret.SIZES
    }
    assert len(expected) > 3
    assert {(each.verifier, each.tree.num_nodes) for each in plans[1:]} == expected


def test_regret_is_told_by_prompts_that_neither_was_chosen_on(monkeypatch, tmp_path):
    """The plan takes 2 ms a prompt, the fastest of the others 1, and not to speculate 4; a stage
    has a prompt that no other has."""
    profile = factory.profile([factory.positional([[0.6, 0.2]] * 2, verifier="rrsw")])
    profile.save(tmp_path / "profile.json")
    chosen, seen = solve(profile), []
    monkeypatch.setattr(regret, "target_of", lambda shape: shape)
    monkeypatch.setattr(regret, "draft_of", lambda pair: pair)
    monkeypatch.setattr(regret.Decoder, "from_plan", lambda plan, *models: plan)

    def in_turns(plans, prompts, num_tokens):
        seen.append({tuple(each) for each in prompts})
        ms = {name: 2.0 if regret.is_same(plan, chosen) else 1.0 for name, plan in plans.items()}
        ms |= {name: 4.0 for name, plan in plans.items() if not plan.speculates}
        return {
            name: [types.SimpleNamespace(decode_ms=each) for _ in prompts]
            for name, each in ms.items()
        }

    monkeypatch.setattr(regret, "in_turns", in_turns)
    contest = "distilled", "", profile.sampling_at(None).temperature
    row = regret.measured(contest, tmp_path / "profile.json", (5, 8))
    assert (row.chosen, row.chosen_speedup, row.best_speedup) == (regret.words(chosen), 2.0, 4.0)
    assert (row.regret, row.regret_error) == (1.0, 0.0)
    assert [len(each) for each in seen] == [regret.THINNED[0], regret.PICKED[0], 5]
    assert len(set().union(*seen)) == sum(map(len, seen))


@pytest.mark.parametrize("option", ["--num-prompts=3", "--num-prompts=65", "--num-timed=22"])
def test_prompts_are_as_many_as_there_are_and_enough_for_an_error(option, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["growing", option])
    with pytest.raises(SystemExit):
        growing.main()
    assert ": got " in capsys.readouterr().err


def test_of_a_grid_only_the_setting_that_suited_the_tuning_prompts_is_shown():
    """Four prompts; a token of the target alone takes 2 ms, a step 2 or 3, with 1 draft pass and 2
    nodes where it was timed; a pass more takes half a millisecond, and there is half a pass more,
    a node more takes a quarter, and there is one less.  Where it is tuned, the slower setting emits
    twice the tokens."""

    ones = np.ones(4)

    def timed(name, threshold, step_ms, *, tuned):
        drafting = ThresholdDrafting(threshold=threshold, num_nodes=8, max_depth=4, max_children=2)
        plan = Plan(drafting=drafting, verifier="rrsw", sampling={"temperature": 1.0})
        entrant = growing_times.Entrant(name, plan, tuned=tuned)
        lap = Lap(ones, ones, 2 * ones, step_ms * ones, 0.5, 0.25)
        return growing_times.TimedEntrant(
            "", 1.0, entrant, lap, Lap(ones, 0 * ones, ones, 2 * ones, 0.0, 0.0)
        )

    times = [timed("a", 0.5, 2.0, tuned=True), timed("a", 0.25, 3.0, tuned=True)]
    times.append(timed("price", 0.125, 2.0, tuned=False))
    tally, twice = (
        decoding.CountedSteps(
            *(np.array(each * 2) for each in ([2.0, 3], [3.0, 4.5], [2.0, 3], tokens))
        )
        for tokens in ([4.0, 6.0], [8.0, 12.0])
    )
    results = [
        growing.Result(each, tally, tuning)
        for each, tuning in zip(times, (tally, twice, None), strict=True)
    ]
    rows = growing.compared("plain", growing.shown(results))
    assert [(row.entrant, row.speedup, row.tokens_per_step) for row in rows] == [
        ("a", pytest.approx(4 / 3), 2.0), ("price", 2.0, 2.0),
    ]  # fmt: skip
    assert [(row.rival, row.gain, row.gain_error) for row in rows] == [
        (None, None, None), ("a", pytest.approx(0.5), pytest.approx(0, abs=1e-12)),
    ]  # fmt: skip
    assert "+50.0% ± 0.0%. At most 1 % slower in 1 of 1" in growing_table.table(rows)
    assert "likelier than 0.25" in rows[0].drafting
    assert rows[0].speedup_error == 0  # every prompt says the same
    assert "| 2.00 | 1.50 | 2.0 | 2.00 ± 0.00 |" in growing_table.details(rows)
    assert "| pair | shape | T | a | price |" in growing_table.table(rows)
    assert "| plain | as it is | 1 | 1.33 | **2.00** |" in growing_table.table(rows)


def test_what_was_measured_halfway_is_read_again_and_not_measured_again(tmp_path):
    """Everything to the last bit, trees, plans and arrays among it."""
    rng = np.random.default_rng(0)
    plan = Plan(
        drafting=TreeDrafting(parents=[-1, 0]), verifier="rrsw", sampling={"temperature": 1.0}
    )
    lap, alone = (Lap(*rng.random((4, 3)), *rng.random(2).tolist()) for _ in range(2))
    entrant = growing_times.TimedEntrant("", 1.0, growing_times.Entrant("a", plan), lap, alone)
    kind, path = growing_times.TimedEntrant, tmp_path / "entrants"
    kept(path, list[kind], lambda: [entrant])
    (again,) = kept(path, list[kind], lambda: pytest.fail("measured again"))
    content = TypeAdapter(kind)
    assert content.dump_json(again) == content.dump_json(entrant)


def test_what_differs_between_sittings_is_found_in_what_was_drawn_with_it():
    """Promises that allow for .06 of other luck and .15 between sittings, where .1 is right."""
    rng = np.random.default_rng(0)
    errors = np.hypot(0.06, 0.15)
    rows = [
        {
            "load": "nothing",
            "promised_speedup": [2.0, *(2 * np.exp(np.array([-1.96, 1.96]) * errors))],
            "speedup": [2 * np.exp(rng.normal(0, np.hypot(0.06, 0.1)))],
        }
        for _ in range(20000)
    ] + [{"load": "memory busy"}]
    best, low, high = sittings.Deviations.of(rows, 0.15).likeliest()
    assert low < 0.1 < high < low + 0.005
    assert low < best < high


@pytest.mark.parametrize("argument", ["missing.json=0.1", "rows.json=0.1", "rows.json=much"])
def test_what_holds_no_sittings_is_one_line(argument, tmp_path, monkeypatch):
    (tmp_path / "rows.json").write_text('[{"load": "nothing"}]')
    monkeypatch.setattr("sys.argv", ["sittings", str(tmp_path / argument)])
    with pytest.raises(SystemExit, match=f"{argument}: cannot be read .*; expected FILE=ALLOWED"):
        sittings.main()


def test_the_page_says_what_differs_between_sittings():
    def likeliest(*files):
        every = [
            sittings.Deviations.of(
                json.loads((ROOT / f"benchmarks/results/{name}.json").read_text()), allowed
            )
            for name, allowed in files
        ]
        together = functools.reduce(sittings.Deviations.with_those, every)
        return [f"{each:.3f}".lstrip("0") for each in together.likeliest()]

    page = (PAGES / "predictions.md").read_text()
    one = ("coverage", 0.03), ("before/coverage-7", 0.03)
    two = [
        (f"checks/coverage-two-threads{name}", allowed)
        for name, allowed in (("", 0.03), ("-2", 0.15), ("-epyc", 0.15))
    ]
    best, low, high = likeliest(one[0])
    assert f"error of {best} from one\nsitting to the next" in page
    assert f"({low} to {high} with 95 % confidence), where promises allowed for .03" in page
    assert (
        f"there {likeliest(one[1])[0]} is likeliest. With both, it is {likeliest(*one)[0]}," in page
    )
    first, second, third = (likeliest(each)[0] for each in two)
    assert f"{first} in the first run, {second} in the second and {third} in the third" in page
    best, low, high = likeliest(*two)
    assert f"and of {best} ({low} to {high} with 95 % confidence) in all" in page
