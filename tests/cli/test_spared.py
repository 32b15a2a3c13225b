"""What is read is not written over, nothing that was asked for is passed over, and numbers that no
document holds are one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from planner import Profile, load
from planner.show.papers.ground import Ground, Missing
from planner.show.papers.sequoia_verifiers import rejections
from tests.documents.samples import costs_content
from tests.optimizer import factory

from .profiles import two_verifiers, vectors
from .test_commands import planner, refused


@pytest.fixture
def profile(tmp_path) -> Path:
    two_verifiers().save(tmp_path / "profile.json")
    return tmp_path / "profile.json"


def misused(*arguments: object) -> str:
    """What is said of options that do not go together."""
    result: Result = planner(*arguments)
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


def test_a_file_that_is_read_is_not_written_over(profile, tmp_path):
    link = tmp_path / "link.png"
    link.symlink_to(profile)
    for output in (profile, link):
        assert "is read, and cannot be written over" in misused("solve", profile, "-o", output)
    assert "cannot be written over" in misused("show", profile, "--png", link)
    assert "a name ending in .png" in misused("show", profile, "--png", profile)
    assert isinstance(load(profile), Profile)
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("def ")
    decode = ("decode", profile, "--prompts", prompts, "-o", prompts)
    assert "prompts.txt is read, and cannot be written over" in misused(*decode)
    assert prompts.read_text() == "def "


def test_options_that_would_mean_nothing_are_refused(profile, tmp_path):
    assert "name it with --engine" in misused("profile", "--engine-target", "x.gguf")
    assert "name it with --engine" in misused("profile", "--engine-option=-fa")
    for name, value in (("--context", 3), ("--num-ranks", 3), ("--head", "a"), ("--repeats", 4)):
        refusal = misused("profile", "--engine", "hf", name, value)
        assert f"{name} goes with this runtime's own times" in refusal
    heads = ("profile", "--engine", "vllm", "--engine-method", "eagle3")
    for name, value in (("--device", "cpu"), ("--dtype", "float32"), ("--attention", "sdpa")):
        assert f"{name} goes with models that are loaded here" in misused(*heads, name, value)
    predict = ("predict", "--gpu", "H100")
    assert "--num-ranks goes with --acceptance" in misused(*predict, "--num-ranks", 4)
    assert "goes without -o" in misused("predict", "--check", profile, "-o", tmp_path / "x.json")
    for name, value in (("--target", "m"), ("--max-nodes", 8), ("--acceptance-from", profile)):
        refusal = misused("predict", "--check", profile, name, value)
        assert f"{name} goes with predictions that are written" in refusal
    assert "nan is not a finite number" in misused("decode", profile, "--temperature", "nan")


@pytest.mark.parametrize(
    "words", [("--max-nodes", 0), ("--verifier", "nope"), ("--temperature", 0.7)]
)
def test_a_table_without_a_plan_is_an_error(profile, words):
    assert "no plan in " in refused("sweep", profile, "--solver", "chain", *words)


def test_a_page_is_of_documents_that_it_can_tell_of(profile, tmp_path):
    (tmp_path / "costs.json").write_text(json.dumps(costs_content()))
    line = refused("report", profile, tmp_path / "costs.json")
    assert "costs.json: format: got 'costs', expected a profile, a plan" in line


def test_one_rank_is_no_law():
    verifiers = ("rrsw", "rrs", "kseq", "topk")
    entries = [factory.positional(vectors(0, [0.6]), verifier=name) for name in verifiers]
    with pytest.raises(Missing, match="needs a profile of 2 ranks or more"):
        rejections(Ground(factory.profile(entries), 50))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"counts": [1, 10**9], "ms": [5.0, 6.0]}, "costs.0.verify.counts.1: got 1000000000"),
        ({"counts": [1, 64], "ms": [5.0, 1e308]}, "costs.0.verify.ms.1: got 1e+308"),
    ],
)
def test_times_and_counts_that_are_none_are_refused(profile, tmp_path, change, words):
    content = costs_content()
    content["costs"][0]["verify"] = change
    (tmp_path / "costs.json").write_text(json.dumps(content))
    for command in (("show",), ("solve", profile, "--costs")):
        assert words in refused(*command, tmp_path / "costs.json")


def test_results_that_no_document_holds_are_one_line(tmp_path):
    line = refused("predict", "--gpu", "H100", "--overhead-ms", 1e308, "-o", tmp_path / "c.json")
    assert "which no document can hold" in line
    assert list(tmp_path.iterdir()) == []
