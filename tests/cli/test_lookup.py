"""The main job without a draft model, and what cannot be had without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner import load
from planner.documents.origin import LOOKUP

from .test_commands import QUICK, planner, refused, tree_plan

BESIDE = "embedded/draft+lookup"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with profile.json and plan.json of the embedded target alone."""
    folder = tmp_path_factory.mktemp("made")
    for command in (
        ("profile", *QUICK, "--num-replayed", 1, "--temperature", 0.6, "--draft", LOOKUP,
         "-o", folder / "profile.json"),
        ("solve", folder / "profile.json", "-o", folder / "plan.json"),
    ):  # fmt: skip
        result = planner(*command)
        assert result.exit_code == 0, result.output
    return folder


def test_the_main_job_goes_without_a_draft_model(made, tmp_path):
    """The plan says what drafts: to decode, nothing is named."""
    profile, plan = (load(made / f"{name}.json") for name in ("profile", "plan"))
    assert profile.draft.is_lookup
    assert plan.made_from.draft == profile.draft
    result = planner(
        "decode", tree_plan(made, tmp_path, settings=[]), "--prompt", "x = f(a)\ny = f(a)\nz = f(",
        "--max-new-tokens", 12, "-o", tmp_path / "report.json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    report = load(tmp_path / "report.json")
    assert report.measured.num_tokens == 12
    assert report.draft == profile.draft
    shown = planner("show", made / "profile.json").stdout
    assert "lookup (the text's own n-grams, no model)" in shown


def test_a_draft_model_has_it_beside(made, tmp_path):
    result = planner(
        "decode", tree_plan(made, tmp_path, settings=[], made_from=None), "--draft", BESIDE,
        "--prompt", "x = f(a)\ny = f(a)\nz = f(", "--max-new-tokens", 12,
        "-o", tmp_path / "report.json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert load(tmp_path / "report.json").draft.name == BESIDE


def test_a_plan_for_it_wants_no_other_draft(made, tmp_path):
    plan = tree_plan(made, tmp_path, settings=[])
    line = refused("decode", plan, "--draft", "embedded/draft", "--prompt", "x")
    assert "draft: got embedded/draft" in line
    assert "expected lookup" in line


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("profile", "--target", LOOKUP), "target: got lookup, which only drafts"),
        (("profile", "--draft", LOOKUP, "--engine", "hf"), "draft: got lookup, expected a model"),
        (("predict", "--gpu", "H100", "--draft", LOOKUP), "draft: got lookup, whose time"),
        (("predict", "--gpu", "H100", "--draft", BESIDE), f"draft: got {BESIDE}, whose time"),
        (("profile", "--target", BESIDE), f"target: got {BESIDE}, which only drafts"),
        (("profile", "--draft", "+lookup"), "draft: got an empty name"),
        (
            ("train-head", "--draft", LOOKUP, "--num-texts", 2, "--num-tokens", 4, "-o", "h"),
            "draft: got lookup, which does not show its hidden states",
        ),
    ],
)
def test_what_needs_a_model_says_so(command, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert line in refused(*command)
    assert list(tmp_path.iterdir()) == []
