"""Costs from elsewhere on the command line: planned with, and named wherever they are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner import Plan, load
from tests.documents.samples import costs_content, plan_content
from tests.optimizer import factory
from tests.optimizer.factory import positional

from .profiles import vectors
from .test_commands import planner, refused

PROFILE = Path(__file__).parent.parent.parent / "notebooks/data/as-it-is/profile.json"


@pytest.fixture
def files(tmp_path) -> Path:
    """A folder with a profile, costs, and a plan that was made from both."""
    entries = [positional(vectors(0, [0.6, 0.15, 0.05]), verifier=v) for v in ("rrsw", "topk")]
    factory.profile(entries).save(tmp_path / "profile.json")
    (tmp_path / "costs.json").write_text(json.dumps(costs_content()))
    made = planner(
        "solve", tmp_path / "profile.json", "--costs", tmp_path / "costs.json",
        "-o", tmp_path / "plan.json",
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    assert "note: times are given: a paper" in made.stderr
    return tmp_path


def test_a_plan_says_whose_times_it_holds(files):
    plan = Plan.load(files / "plan.json")
    assert plan.made_from.costs_from.source == "a paper"
    assert plan.predicted.autoregressive_ms.value == 10.0
    assert plan.made_from.context == 32
    shown = planner("show", files / "plan.json").stdout
    assert "times of   given: a paper" in shown
    assert "test;" not in shown  # the machine of the acceptance is no matter


def test_costs_are_shown(files):
    shown = planner("show", files / "costs.json")
    assert shown.exit_code == 0
    assert "given: a paper" in shown.stdout
    assert ["4", "13", "1.6"] in [line.split() for line in shown.stdout.splitlines()]


def test_another_profile_is_taken_as_costs(files):
    other = factory.profile([positional([[0.5]])], [factory.costs(step=7.0)])
    other.save(files / "other.json")
    made = planner("solve", files / "profile.json", "--costs", files / "other.json")
    assert made.exit_code == 0, made.output
    plan = Plan.parse(json.loads(made.stdout), "plan")
    assert plan.predicted.autoregressive_ms.value == 7.0
    assert plan.made_from.costs_from.source == "profile of test and test on test, float32"


def test_given_plans_are_compared_at_given_costs(files):
    words = ("compare", files / "plan.json", "--profile", files / "profile.json")
    printed = planner(*words, "--costs", files / "costs.json")
    assert "Times are given: a paper." in printed.stdout
    assert "Times are those of this runtime" in planner(*words).stdout


def test_an_engine_is_told_what_was_planned_with_these_costs(files):
    words = ("export", files / "plan.json", "--to", "medusa", "--profile", files / "profile.json")
    assert "give the other and its --costs" in refused(*words)
    told = planner(*words, "--costs", files / "costs.json")
    assert told.exit_code == 0, told.output
    alone = planner(*words[:4], "--costs", files / "costs.json")
    assert alone.exit_code == 2


def test_what_holds_no_costs_is_refused_in_one_line(files):
    (files / "other.json").write_text(json.dumps(plan_content()))
    words = ("solve", files / "profile.json", "--costs")
    assert "format: got 'plan', expected costs, or a profile" in refused(
        *words, files / "other.json"
    )
    assert "no such file" in refused(*words, files / "none.json")
    (files / "bad.json").write_text(json.dumps(costs_content() | {"surplus": 1}))
    assert "surplus: unknown key" in refused(*words, files / "bad.json")
    assert "batch_size: got 2" in refused(*words, files / "costs.json", "--batch-size", 2)
    assert "max_nodes: got 9" in refused(*words, files / "costs.json", "--max-nodes", 9)


def test_decoding_says_that_the_times_are_not_its_own(files):
    content = costs_content()
    content["costs"][0]["verify"]["ms"] = [1e-5, 1.3e-5, 1.4e-5]  # of no machine
    content["costs"][0]["draft"]["ms"] = [1e-6, 1.6e-6]
    (files / "costs.json").write_text(json.dumps(content))
    made = planner(
        "solve", PROFILE, "--costs", files / "costs.json", "--context", 32, "--solver", "chain",
        "--verifier", "rrsw", "-o", files / "here.json",
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    words = ("decode", files / "here.json", "--prompt", "def ", "--max-new-tokens", 8)
    done = planner(*words, "-o", files / "report.json")
    assert done.exit_code == 0, done.output
    assert "note: the plan's times are given: a paper; here steps take other times" in done.stderr
    shown = " ".join(planner("show", files / "report.json").stdout.split())
    assert "predicted for times given: a paper" in shown
    assert "the predicted times are not this machine's" in shown


def test_shapes_are_graded_at_own_and_at_given_costs(files):
    words = ("grade", files / "profile.json", "2x2", "[-1, 0, 0, 1]", files / "plan.json")
    own, other = planner(*words), planner(*words, "--costs", files / "costs.json")
    for printed in (own, other):
        assert printed.exit_code == 0, printed.output
        rows = [line.split() for line in printed.stdout.splitlines()[2:8]]
        assert [row[0] for row in rows[:2]] == ["2x2", "2x2"]
        assert {row[1] for row in rows[:2]} == {"rrsw", "topk"}
    assert "Times are those of this runtime" in own.stdout
    assert "Times are given: a paper." in other.stdout


def test_shapes_are_graded_under_what_is_named_and_nothing_else(files):
    words = ("grade", files / "profile.json", "2x2")
    one = planner(*words, "--verifier", "topk", "--temperature", 0.6).stdout
    assert [line.split()[1] for line in one.splitlines() if line.startswith("2x2")] == ["topk"]
    assert "temperature: got 0.3" in refused(*words, "--temperature", 0.3)
    assert "verifier: got 'kseq'" in refused(*words, "--verifier", "kseq")
    assert "tree 'none': got no tree" in refused(*words, "none")
    assert planner(*words[:2]).exit_code == 2


def test_costs_are_predicted_and_planned_with(files):
    words = ("predict", "--gpu", "H100", "--max-nodes", 16, "--context", 32, "--context", 64)
    made = planner(*words, "-o", files / "predicted.json")
    assert made.exit_code == 0, made.output
    assert "note: times are predicted, not measured: roofline of H100" in made.stderr
    costs = load(files / "predicted.json")
    assert [each.context for each in costs.costs] == [32, 64]
    planned = planner("solve", files / "profile.json", "--costs", files / "predicted.json")
    assert "note: times are predicted, not measured" in planned.stderr
    assert Plan.parse(json.loads(planned.stdout), "plan").made_from.costs_from.predicted
    printed = planner("predict", "--tflops", 1, "--gb-per-s", 20, "--max-nodes", 4)
    assert json.loads(printed.stdout)["predicted"] is True


def test_a_predicted_profile_has_the_acceptance_that_was_measured(files):
    made = planner(
        "predict", "--gpu", "cpu", "--threads", 2, "--max-nodes", 8,
        "--acceptance-from", files / "profile.json", "-o", files / "both.json",
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    both, measured = load(files / "both.json"), load(files / "profile.json")
    assert both.acceptance == measured.acceptance
    assert both.costs_from.predicted
    shown = " ".join(planner("show", files / "both.json").stdout.split())
    assert "predicted, not measured: roofline of 2 times a core of an AMD EPYC 9654" in shown


def test_what_was_assumed_is_decoded_and_named(files):
    """Nobody read the weights of the models, so any of that vocabulary will do."""
    made = planner(
        "predict", "--gpu", "CPU", "--max-nodes", 4, "--acceptance", 0.6, "--exponent", 1,
        "-o", files / "assumed.json",
    )  # fmt: skip
    assert "note: acceptance is assumed, not measured" in made.stderr
    solved = planner("solve", files / "assumed.json", "-o", files / "plan.json")
    assert "note: acceptance is assumed, not measured" in solved.stderr
    for name in ("assumed", "plan"):
        assert "acceptance assumed, not" in " ".join(
            planner("show", files / f"{name}.json").stdout.split()
        )
    done = planner("decode", files / "plan.json", "--prompt", "def ", "--max-new-tokens", 4)
    assert done.exit_code == 0, done.output
    assert "note: the plan's times are predicted, not measured" in done.stderr
    assert "note: the plan's acceptance is assumed, not measured" in done.stderr


def test_predictions_are_checked_on_as_many_threads_as_were_measured():
    shown = planner("predict", "--check", PROFILE)
    assert shown.exit_code == 0, shown.output
    rows = [line.split() for line in shown.stdout.splitlines() if line[:2].strip().isdigit()]
    assert [int(row[0]) for row in rows] == [1, 2, 4, 8, 16, 32, 64]
    one = planner("predict", "--check", PROFILE, "--threads", 1).stdout.splitlines()
    slow = next(line.split() for line in one if line.startswith(" 1 "))
    assert float(slow[1]) == pytest.approx(2 * float(rows[0][1]), abs=0.011)
    worst = max((float(row[7]) for row in rows), key=abs)
    assert f"t(n) by {worst:+.0f} %" in shown.stdout


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--tflops", 1],
        ["--gpu", "H100", "--threads", 2],
        ["--gpu", "H100", "--check"],
        ["--gpu", "H100", PROFILE],
        ["--gpu", "H100", "--acceptance", 0.5],
        ["--gpu", "H100", "--exponent", 0.5],
        ["--gpu", "H100", "--acceptance-from", PROFILE],
        ["--gpu", "H100", "--tflops", "nan"],
    ],
)
def test_half_a_question_is_wrong_usage(words):
    result = planner("predict", *words)
    assert result.exit_code == 2
    assert "Error: " in result.stderr


def test_what_cannot_be_predicted_is_one_line(tmp_path):
    assert "gpu: got 'abacus'" in refused("predict", "--gpu", "abacus")
    assert "dtype: got 'bfloat16'" in refused("predict", "--gpu", "CPU", "--dtype", "bfloat16")
    wrong = ("predict", "--gpu", "H100", "--acceptance", 1.5, "--exponent", 1)
    assert "acceptance: got 1.5" in refused(*wrong)
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    assert "model_type: got 'mamba'" in refused("predict", "--gpu", "H100", "--target", tmp_path)
    assert "got 'embedded/other'" in refused(
        "predict", "--gpu", "A100", "--draft", "embedded/other"
    )
