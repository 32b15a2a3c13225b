"""`planner import` and `planner compare` as a person types them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from planner import Plan
from planner.cli import main
from planner.export import READERS
from planner.policies import ConfidentDrafting
from tests.export.made_up import profile_at


def planner(*arguments: object):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def refused(*arguments: object) -> str:
    """The one line that it fails with, exit code 1."""
    result = planner(*arguments)
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    (line,) = result.stderr.splitlines()
    return line


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A profile, and two settings as plans."""
    folder = tmp_path_factory.mktemp("compare")
    profile_at(0.6).save(folder / "profile.json")
    for name, words in (
        ("long", '{"num_speculative_tokens": 6}'),
        ("short", '{"num_speculative_tokens": 2, "draft_sample_method": "probabilistic"}'),
    ):
        result = planner("import", "--from", "vllm", words, "-o", folder / f"{name}.json")
        assert result.exit_code == 0, result.output
    return folder


def test_the_help_names_every_engine():
    shown = "".join(planner("import", "--help").stdout.split())
    assert all(name in shown for name in READERS)


def test_flags_in_quotes_are_no_options_of_ours(tmp_path):
    """Not even those that begin or end as ours do."""
    words = "--spec-draft-n-max 8 --spec-draft-p-min 0.4 -o x --temperature 0.2"
    path = tmp_path / "my plan.json"
    result = planner("import", words, "--from", "llamacpp", "-o", path, "--temperature", 0)
    assert result.exit_code == 0, result.output
    plan = Plan.load(path)
    assert plan.drafting == ConfidentDrafting(max_depth=8, confidence=0.4)
    assert plan.sampling.is_greedy
    assert "ignored, not about speculation: o, temperature" in result.stderr
    turned = planner("import", "-md small.gguf -o here", "--from", "llamacpp")
    assert turned.exit_code == 0
    assert '"format": "plan"' in turned.stdout
    joined = planner("import", "--from=llamacpp", "--spec-draft-n-max=8", "--temperature=0.5")
    assert joined.exit_code == 0, joined.output
    assert "chain of 8 tokens, topk, T=0.5" in joined.stderr


def test_what_cannot_be_imported_is_one_line(tmp_path):
    line = refused("import", "--from", "vllm", tmp_path / "setting.json")
    assert "no such file" in line
    (tmp_path / "setting.json").write_bytes(b"\xff\xfe\x00")
    assert "no UTF-8" in refused("import", "--from", "vllm", tmp_path / "setting.json")
    line = refused("import", "--from", "sglang", "--speculative-num-steps 0 --tp 1")
    assert "speculative_num_steps: got 0, expected 1 to" in line
    assert planner("import", "{}").exit_code == 2
    assert planner("import", "--from", "vlm", "{}").exit_code == 2


def test_plans_are_compared(folder):
    result = planner(
        "compare", folder / "long.json", folder / "short.json", "--profile",
        folder / "profile.json", "--solver", "fixed",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    for words in ("what solve would choose", "not to speculate", "chain of 6 tokens", "slower"):
        assert words in text
    assert text.count("against not speculating") == 2


def test_what_cannot_be_compared_is_one_line(folder, tmp_path):
    profile = ("--profile", folder / "profile.json")
    plan = folder / "long.json"
    cold = tmp_path / "cold.json"
    planner("import", "--from", "vllm", plan_words(3), "--temperature", 0.3, "-o", cold)
    assert "but the profile measured only T=0.6" in refused("compare", cold, *profile)
    assert "no such file" in refused("compare", tmp_path / "x.json", *profile)
    line = refused("compare", folder / "profile.json", *profile)
    assert "format: got 'profile', expected 'plan'" in line
    line = refused("compare", plan, "--profile", plan)
    assert "format: got 'plan', expected 'profile'" in line
    assert "solver: got 'best'" in refused("compare", plan, *profile, "--solver", "best")
    assert "measured only 1, 4, 16" in refused("compare", plan, *profile, "--batch-size", 3)
    assert planner("compare", plan).exit_code == 2
    assert planner("compare", *profile).exit_code == 2


def plan_words(tokens: int) -> str:
    return f'{{"num_speculative_tokens": {tokens}}}'
