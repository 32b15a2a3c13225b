"""`planner train-head` as a person types it: finished, interrupted, killed, out of space, wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner import Plan, Profile
from planner.cli import main
from planner.cli.solve import head_beside
from planner.documents.sampling import Sampling
from planner.policies import StoppingDrafting
from runtime import resumable
from runtime.embedded import load_pair
from runtime.heads import load_card, load_head
from runtime.models import HuggingFaceModel
from tests.runtime.small_models import small_model

ROOT = Path(__file__).parent.parent.parent
COMMAND = ("train-head", "--num-prompts", "4", "--num-texts", "6", "--num-tokens", "10")
LONG = (*COMMAND, "--temperature", "0.6", "--batch-size", "1", "--epochs", "40", "--threads", "1")
"""A hundred steps and more: time enough to be cut off behind the first checkpoint."""


def planner(*arguments: object):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def refused(*arguments: object) -> str:
    result = planner(*arguments)
    assert result.exit_code == 1, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("planner: ")]
    assert len(lines) == 1
    assert "Traceback" not in result.stderr
    return lines[0]


def interrupted(path: Path) -> tuple[int, str]:
    """(exit code, stderr) of the long command, interrupted behind its first checkpoint."""
    save = resumable._save

    def save_and_interrupt(*state: object) -> None:
        save(*state)
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(resumable, "_save", save_and_interrupt)
            result = planner(*LONG, "-o", path)
    finally:
        signal.signal(signal.SIGINT, before)
    return result.exit_code, result.stderr


def killed(path: Path) -> tuple[int, str]:
    """(exit code, stderr) of the long command in a process of its own, killed once it has written
    one more checkpoint."""

    def checkpoints() -> set[int]:
        found = path.parent.glob(f".{path.name}.*/training.checkpoint")
        return {checkpoint.stat().st_ino for checkpoint in found}

    before = checkpoints()
    words = [str(word) for word in (*LONG, "-o", path)]
    process = subprocess.Popen(
        [sys.executable, "-c", f"from planner.cli import main; main({words!r})"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while checkpoints() <= before:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    process.kill()
    return process.wait(), process.communicate()[1]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A head for T=0.6."""
    path = tmp_path_factory.mktemp("trained") / "head.safetensors"
    result = planner(*COMMAND, "--temperature", 0.6, "-o", path)
    assert result.exit_code == 0, result.output
    return path


def test_a_head_is_trained_tried_and_drawn(tmp_path):
    path, picture = tmp_path / "head.safetensors", tmp_path / "head.png"
    result = planner(*COMMAND, "--top-k", 50, "-o", path, "--png", picture)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    for words in ("binary KL", "weight undone", "calibration", "fixed length", f"wrote {path}"):
        assert words in result.stderr
    draft = HuggingFaceModel(load_pair()[1], name="draft")
    head = load_head(path, draft.info, Sampling(temperature=1.0, top_k=50))
    assert sum(weight.numel() for weight in head.parameters()) == 3 * (128**2 + 128) + 129
    assert load_card(path).training.mix == 0.15
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["head.png", "head.safetensors"]
    named = json.loads(result.stderr.splitlines()[-1].partition('"head": ')[2])
    assert named == {"file": path.name, "sha256": sha256(path.read_bytes()).hexdigest()}
    shown = planner("show", path)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.strip() in result.stderr
    assert planner("show", path, "--png", tmp_path / "again.png").exit_code == 0
    assert (tmp_path / "again.png").read_bytes() == picture.read_bytes()
    assert planner("show", path, "--context", 1).exit_code == 2


def test_at_temperature_0_every_prompt_gives_one_text(tmp_path):
    path = tmp_path / "head.safetensors"
    result = planner(*COMMAND, "--temperature", 0, "--no-mix", "--depth", 0, "-o", path)
    assert result.exit_code == 0, result.output
    card = load_card(path)
    assert card.data.num_texts + card.data.held_out_texts == 4
    assert card.training.mix is None
    # acceptance is 0 or 1 then, so its mean is a whole number of tokens
    accepted = card.data.mean_acceptance * card.data.num_tokens
    assert accepted == pytest.approx(round(accepted), abs=1e-9)


def test_from_a_head_to_a_plan_that_stops_by_it_in_another_folder(trained, tmp_path):
    """Profile, plan and head each lie elsewhere; the plan says where its head is."""
    for folder in ("heads", "profiles", "plans/new"):
        (tmp_path / folder).mkdir(parents=True)
    head, profile, plan = (
        tmp_path / "heads" / "h.safetensors", tmp_path / "profiles" / "p.json",
        tmp_path / "plans" / "new" / "plan.json",
    )  # fmt: skip
    few = ("--temperature", 0.6, "--num-prompts", 4, "--num-tokens", 12)
    shutil.copy(trained, head)
    profiled = planner(
        "profile", *few, "--context", 32, "--max-nodes", 8, "--repeats", 2, "--head", head,
        "-o", profile,
    )  # fmt: skip
    assert profiled.exit_code == 0, profiled.output
    facts = Profile.load(profile)
    assert facts.replays[0].head.file == os.path.join("..", "heads", "h.safetensors")
    score = {"score": "head", "threshold": 0.9, "max_depth": 3, "head": facts.replays[0].head}
    stopping = StoppingDrafting.model_validate(score)
    assert planner("solve", profile, "--solver", "specdecpp", "-o", plan).exit_code == 0
    made = Plan.load(plan)
    first, *others = made.settings
    table = [first.model_copy(update={"drafting": stopping}), *others]
    changed = {"drafting": stopping, "predicted": None, "settings": table}
    made = made.model_copy(update=changed)
    head_beside(made, profile, plan).save(plan)  # as `solve` does, whatever it chose here
    there = os.path.join("..", "..", "heads", "h.safetensors")
    assert Plan.load(plan).drafting.head.file == there
    assert Plan.load(plan).settings[0].drafting.head.file == there
    decode = ("decode", plan, "--prompts", "embedded/evaluation", "--num-prompts", 1)
    for how in ("--fixed", "--follow"):
        decoded = planner(*decode, "--max-new-tokens", 4, how)
        assert decoded.exit_code == 0, decoded.output
    head.rename(tmp_path / "gone.safetensors")
    assert "h.safetensors: no such file" in refused(*decode)


def test_two_heads_of_one_temperature_or_of_one_that_is_not_profiled_are_refused(trained):
    few = ("--num-prompts", 2, "--num-tokens", 4, "--context", 16, "--max-nodes", 4)
    twice = refused("profile", *few, "--head", trained, "--head", trained)
    assert "both trained for T=0.6" in twice
    other = refused("profile", *few, "--temperature", 0, "--head", trained)
    assert "trained for T=0.6, expected one for T=0" in other
    assert "no such file" in refused("profile", *few, "--head", trained.parent / "none")


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_cut_off_in_the_middle_it_ends_with_the_same_file(tmp_path):
    """Interrupted, called again, killed, called again: what one undisturbed run writes."""
    path, other = tmp_path / "head.safetensors", tmp_path / "undisturbed.safetensors"
    code, said = interrupted(path)
    assert code == 130
    assert said.splitlines()[-1] == "planner: interrupted"
    assert "the same command continues from there" in said.splitlines()[-2]
    assert "Traceback" not in said
    code, said = killed(path)
    assert code == -signal.SIGKILL
    assert "continuing an interrupted run: 1 pieces are done" in said
    assert not path.exists()
    assert planner(*LONG, "-o", path).exit_code == 0
    assert planner(*LONG, "-o", other).exit_code == 0
    assert path.read_bytes() == other.read_bytes()
    assert {entry.name for entry in tmp_path.iterdir()} == {path.name, other.name}


@pytest.mark.skipif(os.name != "posix", reason="needs resource limits")
def test_without_space_there_is_one_line_and_no_half_file(tmp_path):
    """Space for the texts, not for the checkpoints, which are larger."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, before[1]))
    try:
        line = refused(*LONG, "-o", tmp_path / "head.safetensors")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "File too large; nothing was changed there" in line
    left = [entry.name for entry in tmp_path.rglob("*") if entry.is_file()]
    assert sorted(left) == ["code", "code", "texts-0.piece"]  # by whom the texts were written


def test_wrong_input_is_one_line(tmp_path):
    path = tmp_path / "head.safetensors"
    (tmp_path / "one.txt").write_text("def f(x):\n")
    (tmp_path / "long.txt").write_text("x = 1\n" + "x = 1; " * 2000 + "\n")
    small_model("llama").save_pretrained(tmp_path / "other")

    def line(*arguments: object) -> str:
        return refused(*COMMAND, *arguments, "-o", path)

    assert "got 1, expected at least 2" in line("--prompts", tmp_path / "one.txt")
    assert "prompts.1: got" in line("--prompts", tmp_path / "long.txt")
    assert "vocabulary of 97, expected 2048" in line("--draft", tmp_path / "other")
    assert "some on either side" in line("--held-out", 0.9, "--num-texts", 2)
    assert "heads are trained and read without one" in line("--repetition-penalty", 1.1)
    assert "expected at most 1024 positions in all" in line("--num-tokens", 1000)
    assert "no such folder" in line("--draft", tmp_path / "absent")
    assert "does not exist" in refused(*COMMAND, "-o", tmp_path / "absent" / "head")
    assert "does not exist" in line("--png", tmp_path / "absent" / "head.png")
    assert not path.exists()


def test_training_that_diverges_is_one_line_and_no_file(tmp_path):
    path = tmp_path / "head.safetensors"
    line = refused(*COMMAND, "--learning-rate", "1e30", "-o", path)
    assert "lower the learning rate" in line
    assert not path.exists()


@pytest.mark.parametrize(
    "arguments",
    [(), *(("-o", "x", f"--{name}", odd)
           for name in ("temperature", "top-p", "held-out", "reject-weight", "mix", "learning-rate")
           for odd in ("nan", "inf")),
     ("-o", "x", "--seed", 2**63), ("-o", "x", "--reject-weight", 0), ("-o", "x", "--mix", 1),
     ("-o", "x", "--depth", -1),
     ("-o", "x", "--epochs", 0), ("-o", "x", "--held-out", 1), ("-o", "x", "--temperature", -1)],
    ids=str,
)  # fmt: skip
def test_wrong_usage_is_exit_code_2(arguments):
    assert planner("train-head", *arguments).exit_code == 2
