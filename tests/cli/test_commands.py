"""The commands as a person types them: the main job, and what wrong input is answered with."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner import Plan, Profile, Report, load
from planner.cli import COMMANDS, main
from planner.cli.models import pair_names
from planner.documents.origin import ModelInfo
from planner.plans.plan import MadeFrom

ROOT = Path(__file__).parent.parent.parent
QUICK = ("--max-nodes", "6", "--repeats", "2", "--num-prompts", "3", "--num-tokens", "12")
QUICK += ("--context", "16", "--num-ranks", "4")


def planner(*arguments: object):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def refused(*arguments: object) -> str:
    """The one line on stderr that a command fails with, exit code 1."""
    result = planner(*arguments)
    assert result.exit_code == 1, result.output
    lines = [line for line in result.stderr.splitlines() if line]
    assert len(lines) == 1
    assert lines[0].startswith("planner: ")
    assert result.stdout == ""
    return lines[0]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with profile.json, plan.json and report.json of the embedded pair."""
    folder = tmp_path_factory.mktemp("made")
    for command in (
        ("profile", *QUICK, "--temperature", 0, "--temperature", 0.6,
         "-o", folder / "profile.json"),
        ("solve", folder / "profile.json", "-o", folder / "plan.json"),
        ("decode", folder / "plan.json", "--prompt", "def ", "--max-new-tokens", 12, "--baseline",
         "-o", folder / "report.json"),
    ):  # fmt: skip
        result = planner(*command)
        assert result.exit_code == 0, result.output
    return folder


def tree_plan(made: Path, folder: Path, **change) -> Path:
    """A copy of the plan that certainly drafts, with changes."""
    content = json.loads((made / "plan.json").read_text())
    content |= {"drafting": {"kind": "tree", "parents": [-1, 0, 0, 1]}, "predicted": None, **change}
    path = folder / "plan.json"
    path.write_text(json.dumps(content))
    return path


def test_the_main_job_leaves_three_valid_documents(made):
    profile, plan, report = (load(made / f"{name}.json") for name in ("profile", "plan", "report"))
    assert isinstance(profile, Profile)
    assert isinstance(plan, Plan)
    assert isinstance(report, Report)
    assert sorted(entry.name for entry in made.iterdir()) == [
        "plan.json", "profile.json", "profile.safetensors", "report.json",
    ]  # fmt: skip
    assert plan.made_from.profile_sha256 == profile.fingerprint()
    assert report.plan_sha256 == plan.fingerprint()
    assert report.measured.num_tokens == 12
    assert report.baseline.num_tokens == 12


@pytest.mark.parametrize("name", ["profile", "plan", "report"])
def test_show_prints_and_draws_every_document(made, tmp_path, name):
    shown = planner("show", made / f"{name}.json")
    assert shown.exit_code == 0
    assert len(shown.stdout.splitlines()) >= 4
    drawn = planner("show", made / f"{name}.json", "--png", tmp_path / "figure.png")
    assert drawn.exit_code == 0
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_show_tree_has_a_line_per_node(made, tmp_path):
    result = planner(
        "solve", made / "profile.json", "--solver", "sequoia", "-o", tmp_path / "p.json"
    )
    assert result.exit_code == 0
    plan = Plan.load(tmp_path / "p.json")
    lines = planner("show", tmp_path / "p.json", "--all").stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("node (rank)"))
    assert len(lines) - start - 1 == plan.tree.num_nodes
    shares = [float(line.split()[-1].rstrip("%")) for line in lines[start + 1 :]]
    # every share is rounded to .05 %
    assert sum(shares) == pytest.approx(100, abs=0.05 * plan.tree.num_nodes)


def test_documents_go_to_stdout_without_an_output_file(made):
    result = planner("solve", made / "profile.json", "--temperature", "0.6")
    assert json.loads(result.stdout)["format"] == "plan"
    assert json.loads(result.stdout)["sampling"]["temperature"] == 0.6


def test_greedy_decoding_prints_the_same_text_with_and_without_a_tree(made, tmp_path):
    text = ("--prompt", "import ", "--max-new-tokens", 20)
    speculative = planner("decode", tree_plan(made, tmp_path), *text)
    alone = tree_plan(made, tmp_path, drafting={"kind": "tree", "parents": [-1]})
    plain = planner("decode", alone, *text)
    warm = tree_plan(made, tmp_path, sampling={"temperature": 0.5})
    cold = planner("decode", warm, "--temperature", 0, *text)
    assert "planned for T=0.5, decoded at T=0, where" in cold.stderr
    assert speculative.exit_code == plain.exit_code == cold.exit_code == 0
    assert speculative.stdout == plain.stdout == cold.stdout
    assert speculative.stdout.startswith("import ")


def test_every_attention_decodes_the_same_text_and_is_named(made, tmp_path):
    printed, named = set(), []
    for attention in ("tree", "sdpa", "eager"):
        result = planner(
            "decode", tree_plan(made, tmp_path), "--attention", attention, "--prompt", "import ",
            "--max-new-tokens", 20, "-o", tmp_path / "r.json",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        printed.add(result.stdout)
        named.append(load(tmp_path / "r.json").execution.attention)
    assert len(printed) == 1
    assert named == ["tree (reference)", "sdpa, fused", "eager"]


def test_an_attention_that_there_is_not_is_named(made, tmp_path):
    for command in (("profile",), ("decode", tree_plan(made, tmp_path), "--prompt", "x")):
        line = refused(*command, "--attention", "fast")
        assert "attention: got 'fast', expected one of auto, tree, sdpa, eager" in line


def test_prompts_from_files(made, tmp_path):
    plan = tree_plan(made, tmp_path)
    (tmp_path / "a.txt").write_text("def f(x):\n\nclass A:\n")
    (tmp_path / "b.jsonl").write_text('{"text": "def f(x):"}\n{"ids": [5, 6, 7]}\n')
    for name in ("a.txt", "b.jsonl"):
        result = planner(
            "decode", plan, "--prompts", tmp_path / name, "--max-new-tokens", 4, "-o",
            tmp_path / "r.json",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        assert len(load(tmp_path / "r.json").continuations) == 2


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        (None, "p.txt", "no such file"),
        ("", "p.txt", "got no prompts"),
        ("x", "p.csv", "expected .txt"),
        ('{"text": "a"', "p.jsonl", "line 1: not valid JSON"),
        ('{"txet": "a"}', "p.jsonl", "either text or ids"),
        ('{"text": 3}', "p.jsonl", "text: got 3"),
        ('{"ids": [1, -2]}', "p.jsonl", "expected a list of token ids"),
        ('{"ids": [1, 999999]}', "p.jsonl", "got token 999999"),
    ],
)
def test_wrong_prompts_are_named(made, tmp_path, content, name, words):
    if content is not None:
        (tmp_path / name).write_text(content)
    assert words in refused("decode", tree_plan(made, tmp_path), "--prompts", tmp_path / name)


def test_wrong_documents_are_named(made, tmp_path):
    assert "no such file" in refused("solve", tmp_path / "absent.json")
    (tmp_path / "torn.json").write_text((made / "profile.json").read_text()[:300])
    assert "truncated" in refused("solve", tmp_path / "torn.json")
    assert "format: got 'plan', expected 'profile'" in refused("solve", made / "plan.json")
    assert "format: got 'profile'" in refused("decode", made / "profile.json", "--prompt", "x")


def test_limits_and_names_outside_the_profile_are_named(made):
    profile = made / "profile.json"
    assert "temperature: got 0.3" in refused("solve", profile, "--temperature", 0.3)
    assert "max_nodes: got 7" in refused("solve", profile, "--max-nodes", 7)
    assert "solver: got 'luck'" in refused("solve", profile, "--solver", "luck")
    assert "verifier: got 'luck'" in refused("solve", profile, "--verifier", "luck")
    assert "batch_size: got 2" in refused("solve", profile, "--batch-size", 2)
    assert "context: got 900" in refused("solve", profile, "--context", 900)


@pytest.mark.parametrize(
    ("option", "value"),
    [("--temperature", "nan"), ("--temperature", "inf"), ("--top-p", "nan"), ("--seed", 2**63)],
)
def test_numbers_that_are_none_are_refused_before_the_work(option, value):
    result = planner("profile", *QUICK, option, value)
    assert result.exit_code == 2
    assert option in result.stderr
    assert "Traceback" not in result.output


def test_a_profile_where_its_arrays_would_destroy_a_head_is_refused_before_the_work(tmp_path):
    (tmp_path / "head.safetensors").write_bytes(b"a head")
    line = refused("profile", *QUICK, "-o", tmp_path / "head.json")
    assert "choose another name" in line
    assert (tmp_path / "head.safetensors").read_bytes() == b"a head"


def test_an_interval_too_wide_to_plan_by_is_pointed_out(made, tmp_path):
    """Times that were one thing or five times as much."""
    profile = Profile.load(made / "profile.json")

    def shaky(curve):
        return curve.model_copy(update={"median_ms": [5 * ms for ms in curve.low_ms],
                                        "high_ms": [9 * ms for ms in curve.low_ms]})  # fmt: skip

    _, costs = profile.costs  # of the temperature 0 that is planned for
    unsure = costs.model_copy(update={"verify": shaky(costs.verify)})
    profile.model_copy(update={"costs": [unsure]}).without_arrays().save(tmp_path / "p.json")
    result = planner("solve", tmp_path / "p.json", "--solver", "chain")
    assert result.exit_code == 0
    plan = Plan.model_validate_json(result.stdout)
    wide = plan.predicted.speedup.high > 1.5 * plan.predicted.speedup.low
    assert wide == plan.speculates
    assert ("before you rely on this plan" in result.stderr) == wide


def test_models_are_by_default_those_that_the_plan_was_made_for():
    info = {"num_parameters": 1, "vocab_size": 2, "max_positions": 3, "fingerprint": "f"}
    made_for = Plan.model_construct(
        made_from=MadeFrom.model_construct(
            target=ModelInfo(name="some/target", **info), draft=ModelInfo(name="a/draft", **info)
        )
    )
    assert pair_names(None, None, made_for) == ("some/target", "a/draft")
    assert pair_names("mine", None, made_for) == ("mine", "a/draft")
    assert pair_names(None, None) == ("embedded/target", "embedded/draft")


def test_a_plan_for_another_pair_is_refused(made, tmp_path):
    plan = tree_plan(made, tmp_path)
    line = refused("decode", plan, "--draft", "embedded/draft-plain", "--prompt", "x")
    assert "draft: got embedded/draft-plain" in line
    assert "for which the plan was made" in line


def test_models_that_are_not_there_are_named(made, tmp_path):
    plan = tree_plan(made, tmp_path)
    assert "no such folder" in refused("decode", plan, "--target", tmp_path / "x", "--prompt", "x")
    assert "embedded/other" in refused(
        "decode", plan, "--target", "embedded/other", "--prompt", "x"
    )
    assert "7T" in refused("decode", plan, "--target", "embedded/target@7T", "--prompt", "x")
    assert "device: got 'abacus'" in refused("decode", plan, "--device", "abacus", "--prompt", "x")


def test_a_text_longer_than_the_positions_is_refused(made, tmp_path):
    plan = tree_plan(made, tmp_path)
    line = refused("decode", plan, "--prompt", "x = 1\n" * 2000)
    assert "expected at most 1024 together" in line
    assert "expected at most" in refused("profile", "--context", 2000, "-o", tmp_path / "p.json")
    assert not (tmp_path / "p.json").exists()


@pytest.mark.parametrize("command", ["profile", "solve", "decode"])
def test_an_unwritable_output_is_refused_before_the_work(made, tmp_path, command):
    arguments = {
        "profile": [],
        "solve": [made / "profile.json"],
        "decode": [made / "plan.json", "--prompt", "x"],
    }[command]
    line = refused(command, *arguments, "-o", tmp_path / "absent" / "file.json")
    assert "does not exist; create it first" in line
    assert "is a folder" in refused(command, *arguments, "-o", tmp_path)


PRINTS = ["predict", "--gpu", "H100", "--max-nodes", "4"]
"""A command that delivers a document as all do, and imports little for it."""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device, /dev/full")
@pytest.mark.parametrize("arguments", [PRINTS, ["--version"]], ids=" ".join)
def test_a_full_disk_while_printing_is_one_line(arguments):
    if os.name != "posix":
        pytest.skip("needs a POSIX shell")
    import subprocess
    import sys

    code = f"from planner.cli import main; main({arguments!r})"
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True,
            check=False,
        )  # fmt: skip
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert "No space left on device" in result.stderr


def test_a_head_is_looked_for_beside_the_plan_wherever_one_is(made, tmp_path, monkeypatch):
    file = {"file": "head.safetensors", "sha256": "0" * 64}
    drafting = {"kind": "stopping", "score": "head", "threshold": 0.5, "max_depth": 2, "head": file}
    plan = tree_plan(made, tmp_path, drafting=drafting, verifier="chain")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    line = refused("decode", plan, "--prompt", "x")
    assert f"{tmp_path / 'head.safetensors'}: no such file" in line


def test_the_precision_is_the_plans_own(made, tmp_path):
    """Rounding to bfloat16 changes the embedded pair's weights, rounding to float16 does not."""
    content = json.loads((made / "plan.json").read_text())
    content["made_from"]["execution"]["dtype"] = "float16"
    plan = tree_plan(made, tmp_path, made_from=content["made_from"])
    report = tmp_path / "r.json"
    command = ("decode", plan, "--prompt", "import ", "--max-new-tokens", 4, "-o", report)
    for given, used in (((), "float16"), (("--dtype", "float32"), "float32")):
        result = planner(*command, *given)
        assert result.exit_code == 0, result.output
        assert load(report).execution.dtype == used
    line = refused(*command, "--dtype", "bfloat16")
    assert "in bfloat16" in line
    assert "in float16" in line


def test_on_every_kind_of_cpu_the_precision_is_float32(made, tmp_path):
    plan = tree_plan(made, tmp_path, made_from=None)
    command = ("decode", plan, "--prompt", "x", "--max-new-tokens", 2, "-o", tmp_path / "r.json")
    assert planner(*command, "--device", "cpu:0").exit_code == 0
    assert load(tmp_path / "r.json").execution.dtype == "float32"


def test_names_that_a_shell_left_empty_are_refused(made, tmp_path):
    command = ("decode", tree_plan(made, tmp_path), "--prompt", "x")
    assert "target: got an empty name" in refused(*command, "--target", "")
    assert "draft: got an empty name" in refused(*command, "--draft", "")
    assert "device: got ''" in refused(*command, "--device", "")
    assert "got the shape ''" in refused(*command, "--target", "embedded/target@")


@pytest.mark.parametrize("text", ["\udcff", "a\ud800b"])
def test_a_prompt_that_is_no_text_is_refused(made, tmp_path, text):
    plan = tree_plan(made, tmp_path)
    assert "valid Unicode" in refused("decode", plan, "--prompt", text)
    (tmp_path / "p.jsonl").write_text(json.dumps({"text": text}))
    assert "valid Unicode" in refused("decode", plan, "--prompts", tmp_path / "p.jsonl")


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_without_a_stdout_a_file_is_written_all_the_same(tmp_path):
    import subprocess
    import sys

    code = "from planner.cli import main; main()"
    command = [sys.executable, "-c", code, *PRINTS, "-o", tmp_path / "p.json"]
    result = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command], cwd=ROOT, stderr=subprocess.PIPE, text=True,
        check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert load(tmp_path / "p.json").format == "costs"


def test_as_a_module_it_is_the_same_command():
    import subprocess
    import sys

    result = subprocess.run(
        [sys.executable, "-m", "planner", "schema"], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert result.returncode == 2
    assert "Usage: planner schema" in result.stderr


def test_wrong_usage_is_exit_code_2(made):
    assert planner("solve").exit_code == 2
    assert planner("decode", made / "plan.json").exit_code == 2
    assert planner("decode", made / "plan.json", "--prompt", "x", "--prompts", "y").exit_code == 2
    assert planner("profile", "--temperature", "-1").exit_code == 2
    decode = ("decode", made / "plan.json", "--prompt", "x")
    assert planner(*decode, "--num-prompts", 2).exit_code == 2
    assert planner(*decode, "--seed", 2**63).exit_code == 2
    assert planner(*decode, "--threads", os.cpu_count() + 1).exit_code == 2
    assert planner("grow").exit_code == 2


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    result = planner(name, "--help")
    assert result.exit_code == 0
    assert len(result.output.splitlines()) >= 5


def test_schema_is_printed():
    assert json.loads(planner("schema", "plan").stdout)["title"] == "Plan"
