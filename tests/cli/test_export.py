"""`planner export` as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner import Plan, Profile
from planner.cli import main
from planner.export import ENGINES
from planner.optimizer import solve
from tests.optimizer import factory
from tests.optimizer.choosing import random_traces


def planner(*arguments: object):
    return CliRunner().invoke(main, ["export", *(str(argument) for argument in arguments)])


def refused(*arguments: object) -> str:
    """The one line that it fails with, exit code 1."""
    result = planner(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    return line


@pytest.fixture
def made(tmp_path) -> Path:
    """A folder with a profile, a plan of a tree made from it, and files that are neither."""
    costs = factory.costs(verify=lambda n: 10 + n / 4, counts=range(1, 17))
    entries = [random_traces(place, name) for place, name in enumerate(("rrsw", "chain", "topk"))]
    profile = factory.profile(entries, [costs])
    profile.save(tmp_path / "facts.json")
    profile = Profile.load(tmp_path / "facts.json")
    solve(profile, solver="kary", verifier="rrsw").save(tmp_path / "plan.json")
    (tmp_path / "broken.json").write_text('{"format": "profile", ')
    (tmp_path / "list.json").write_text("[1, 2]")
    return tmp_path


def test_the_help_names_every_engine():
    shown = "".join(planner("--help").stdout.split())  # which breaks lines behind hyphens
    assert all(name in shown for name in ENGINES)


def test_the_profile_is_found_beside_the_plan(made):
    result = planner(made / "plan.json", "--to", "vllm")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["num_speculative_tokens"] >= 1
    assert "planned from" in result.stderr
    (made / "elsewhere").mkdir()
    link = made / "elsewhere" / "plan.json"
    link.symlink_to(made / "plan.json")
    assert f"planned from {made / 'facts.json'}" in planner(link, "--to", "vllm").stderr
    assert "facts.json" in result.stderr
    assert "of its speed is lost" in result.stderr  # rrsw's tree against chains
    given = planner(made / "plan.json", "--to", "vllm", "--profile", made / "facts.json")
    assert given.stdout == result.stdout


def test_without_the_profile_a_tree_is_no_chain(made):
    (made / "facts.json").unlink()
    line = refused(made / "plan.json", "--to", "vllm")
    assert "which vllm cannot carry out; give the profile" in line
    result = planner(made / "plan.json", "--to", "eagle")
    assert [0] in json.loads(result.stdout)
    assert "nothing is predicted" in result.stderr
    assert "exported as it is, without the profile" in result.stderr


def test_a_plan_that_names_no_profile(made):
    plan = Plan.load(made / "plan.json").model_copy(update={"made_from": None, "predicted": None})
    plan.save(made / "hand.json")
    result = planner(made / "hand.json", "--to", "sglang", "--draft", "some/draft")
    assert result.exit_code == 0
    assert "--speculative-draft-model-path some/draft " in result.stdout
    assert "nothing is predicted" in result.stderr


def test_a_profile_beside_the_plan_that_lost_its_arrays_is_named(made):
    (made / "facts.safetensors").unlink()
    assert "facts.safetensors" in refused(made / "plan.json", "--to", "vllm")


def test_files_are_written_whole(made):
    before = (made / "plan.json").read_text()
    result = planner(made / "plan.json", "--to", "trtllm", "-o", made / "trtllm.yaml")
    assert (result.exit_code, result.stdout) == (0, "")
    assert (made / "trtllm.yaml").read_text().startswith("speculative_config:\n")
    assert (made / "plan.json").read_text() == before
    assert "does not exist" in refused(made / "plan.json", "--to", "hf", "-o", made / "no" / "f")


def test_bad_input_is_one_line(made):
    assert "no such file" in refused(made / "missing.json", "--to", "vllm")
    assert "format: got 'profile', expected 'plan'" in refused(made / "facts.json", "--to", "vllm")
    line = refused(made / "plan.json", "--to", "vllm", "--profile", made / "plan.json")
    assert "format: got 'plan', expected 'profile'" in line
    assert planner(made / "plan.json").exit_code == 2
    assert planner(made / "plan.json", "--to", "vlm").exit_code == 2
