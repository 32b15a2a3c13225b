"""Methods that only the engine drafts by: what it counts is the acceptance, no model is loaded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from engines import PROGRAMS, Files, Program, measuring
from engines.acceptance_sources import CountedByEngine
from engines.measuring import measure_engine_profile
from planner import load
from planner.cli import main
from planner.documents.document import PlannerError
from planner.documents.origin import ModelInfo
from planner.documents.profile import Profile
from planner.documents.sampling import Sampling
from planner.estimates.other_costs import with_costs
from planner.export import export
from planner.optimizer import solve
from planner.policies import TreeDrafting
from profiler import Settings

from . import served_standin, standin

GREEDY = Sampling(temperature=0.0)
PROMPTS = [[1, 2], [3], [4, 5, 6]]
MODEL = ModelInfo(name="t", fingerprint="", num_parameters=0, vocab_size=12, max_positions=256)
PAIR = CountedByEngine(MODEL, MODEL.model_copy(update={"name": "heads"}))
METHODS = [("vllm", "eagle3"), ("vllm", "mtp"), ("sglang", "EAGLE3"), ("sglang", "NEXTN")]
ALONE = ("mtp", "NEXTN")
"""Methods without a file of their own."""


def program(folder: Path, name: str, method: str) -> Program:
    draft = "" if method in ALONE else str(folder / "draft")
    files = Files(
        str(folder / "target"), draft, place=str(folder), most_tokens=3, method=method
    )  # fmt: skip
    return PROGRAMS[name](files, 256)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_FASTER", "20")
    monkeypatch.setattr(measuring, "NUM_TIMED", 2)


@pytest.mark.parametrize(("name", "method"), METHODS)
@pytest.mark.usefixtures("quick")
def test_what_the_server_counts_is_what_is_planned_with(
    tmp_path: Path, name: str, method: str
) -> None:
    served_standin.installed(tmp_path, name)
    engine = program(tmp_path, name, method)
    samplings = (GREEDY, Sampling(temperature=0.6))
    settings = Settings(samplings=samplings, num_tokens=16)
    profile = measure_engine_profile(PAIR, PROMPTS, settings, engine=engine)
    assert profile.engine == engine.facts
    assert profile.engine.method == method
    assert (profile.arrays, profile.replays) == (None, [])
    assert [each.sampling for each in profile.acceptance] == list(samplings)
    known = {n: list(served_standin.steps(64, n)) for n in (1, 2, 3)}
    for entry in profile.acceptance:
        assert [chains.length for chains in entry.counted] == [1, 2, 3]
        for chains in entry.counted:
            per_prompt = {prompt.tokens / prompt.steps for prompt in chains.prompts}
            assert per_prompt == {63 / len(known[chains.length])}
            assert {0, 1} <= {prompt.prompt for prompt in chains.prompts} <= {0, 1, 2}
        best = max(entry.counted, key=lambda chains: len(chains.prompts))
        assert len(entry.prompts) == len({text.prompt for text in entry.counted[0].prompts})
        found = {prompt.prompt for prompt in best.prompts}
        assert found == {0, 1, 2}  # those that were not timed are counted, too
    profile.save(tmp_path / "profile.json")
    assert load(tmp_path / "profile.json") == profile
    plan = solve(profile, solver="chain")
    changed = {"drafting": TreeDrafting(parents=[-1, 0, 1]), "predicted": None}
    told = export(plan.model_copy(update=changed), name).content
    assert method in told
    assert ("heads" in told) == (method not in ALONE)
    other = next(each for each in ("vllm", "sglang") if each != name)
    with pytest.raises(PlannerError, match=f"says nothing of {other}"):
        export(plan, other, profile=profile)


@pytest.mark.usefixtures("quick")
def test_with_llama_cpp_whole_steps_are_timed(tmp_path: Path) -> None:
    """Its benchmark knows a draft model's passes, and no chain ends by itself."""
    folder = standin.installed(tmp_path)
    files = Files(
        str(folder / "target.gguf"), "", place=str(folder), most_tokens=2, method="ngram-simple"
    )
    engine = PROGRAMS["llamacpp"](files, 256)
    profile = measure_engine_profile(PAIR, PROMPTS, Settings(samplings=(GREEDY,)), engine=engine)
    assert profile.engine.solvers == ["chain"]
    assert profile.costs[0].unbegun is None
    done = standin.completion([1], 64, 2)["timings"]
    (entry,) = profile.acceptance
    tokens = [each.tokens / each.steps for each in entry.counted[1].prompts]
    assert tokens == pytest.approx([63 / (63 - done["draft_n_accepted"])] * len(tokens))


@pytest.mark.parametrize(
    ("name", "changed", "says"),
    [
        ("vllm", {"method": "eagle9"}, "engine-method: got eagle9, expected draft_model, eagle"),
        ("openvino", {"method": "eagle3"}, "expected none: it drafts by a draft model alone"),
        ("vllm", {"method": "eagle3", "draft": ""}, "engine-draft: got none, expected the model"),
        ("vllm", {"method": "ngram"}, "engine-draft: got draft, expected none: ngram copies"),
    ],
)
def test_methods_that_it_cannot_draft_by_are_refused(
    name: str, changed: dict[str, str], says: str
) -> None:
    with pytest.raises(PlannerError, match=says):
        PROGRAMS[name](replace(Files("target", "draft"), **changed), 256)


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(word) for word in words])
    return done.exit_code, done.output


@pytest.fixture
def heads(tmp_path: Path, quick: None) -> Path:
    """A folder with a program, a model's config and prompts for `planner profile`."""
    served_standin.installed(tmp_path, "vllm")
    model = tmp_path / "model"
    model.mkdir()
    config = {"model_type": "deepseek_v3", "vocab_size": 100, "max_position_embeddings": 256}
    (model / "config.json").write_text(json.dumps({"text_config": config, "dtype": "bfloat16"}))
    (tmp_path / "prompts.jsonl").write_text('{"ids": [1, 2, 3]}\n{"ids": [4, 5]}\n')
    return tmp_path


def profiled(folder: Path, *words: object) -> tuple[int, str]:
    named = ("--engine", "vllm", "--engine-path", folder, "--target", folder / "model")
    more = ("--engine-target", folder / "target", "--prompts", folder / "prompts.jsonl")
    return run(
        "profile", *named, *more, "--temperature", 0, "--num-tokens", 16, "--max-nodes", 3,
        "-o", folder / "profile.json", *words,
    )  # fmt: skip


def test_from_the_command_line_only_the_engine_loads_the_models(heads: Path) -> None:
    code, said = profiled(heads, "--engine-method", "eagle3", "--draft", heads / "draft")
    assert code == 0, said
    profile = Profile.load(heads / "profile.json")
    assert profile.draft.name == str(heads / "draft")
    assert (profile.target.vocab_size, profile.execution.dtype) == (100, "bfloat16")
    code, said = run("show", heads / "profile.json", "--all")
    assert code == 0, said
    assert "drafting by eagle3" in said
    assert "what the engine counted of its chains" in said
    assert run("show", heads / "profile.json", "--png", heads / "it.png")[0] == 0
    assert run("report", heads / "profile.json", "-o", heads / "it.html")[0] == 0
    code, said = run("solve", heads / "profile.json", "-o", heads / "plan.json")
    assert code == 0, said
    code, said = run("decode", heads / "plan.json", "--prompt", "x")
    assert code == 1
    assert "planner check asks the engine" in said
    code, said = run("grade", heads / "profile.json", "2^2")
    assert (code, "Traceback" in said) == (1, False)


def test_a_method_without_a_file_goes_by_its_own_name(heads: Path) -> None:
    code, said = profiled(heads, "--engine-method", "mtp")
    assert code == 0, said
    profile = Profile.load(heads / "profile.json")
    assert (profile.draft.name, profile.engine.draft) == ("mtp", "")
    assert "draft    mtp" in run("show", heads / "profile.json")[1]


def test_methods_that_are_not_named_well_are_one_line(heads: Path) -> None:
    code, said = profiled(heads, "--engine-method", "eagle3")
    assert (code, "engine-draft: got none" in said) == (1, True)
    code, said = profiled(heads, "--engine-method", "eagel")
    assert (code, "engine-method: got eagel, expected draft_model" in said) == (1, True)
    code, said = profiled(heads, "--engine-method", "")
    assert (code, "engine-method: got an empty name" in said) == (1, True)
    code, said = run("profile", "--engine-method", "eagle3")
    assert (code, "name it with --engine" in said) == (2, True)
    code, said = run("profile", "--engine", "vllm", "--engine-method", "mtp")
    assert (code, "target: got none" in said) == (1, True)
    config = {"text_config": None, "vocab_size": 100}
    (heads / "model" / "config.json").write_text(json.dumps(config))
    code, said = profiled(heads, "--engine-method", "mtp")
    assert (code, "max_position_embeddings: missing" in said) == (1, True)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """A profile by MTP layers."""
    folder = served_standin.installed(tmp_path_factory.mktemp("counted"), "vllm")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("STANDIN_FASTER", "20")
        patched.setattr(measuring, "NUM_TIMED", 2)
        settings = Settings(samplings=(GREEDY,), num_tokens=16)
        engine = program(folder, "vllm", "mtp")
        return measure_engine_profile(PAIR, PROMPTS, settings, engine=engine)


def test_plans_for_a_method_are_for_that_alone(counted: Profile, tmp_path: Path) -> None:
    plan = solve(counted)
    plan.save(tmp_path / "plan.json")
    (tmp_path / "prompts.jsonl").write_text('{"ids": [1, 2, 3]}\n{"ids": [4]}\n')
    prompts = ("--prompts", tmp_path / "prompts.jsonl", "--num-prompts", 2)
    code, said = run("check", tmp_path / "plan.json", *prompts, "--engine-method", "eagle3")
    assert (code, "engine-method: got eagle3, but the plan is for mtp" in said) == (1, True), said
    started = {"options": ["--dtype", "float16"]}
    optioned = counted.model_copy(update={"engine": counted.engine.model_copy(update=started)})
    tree = solve(optioned).model_copy(
        update={"drafting": TreeDrafting(parents=[-1, 0]), "predicted": None}
    )
    assert "measured with --dtype float16: give vllm that, too" in export(tree, "vllm").notes
    facts = counted.engine.model_copy(update={"method": "bogus"})
    bogus = counted.model_copy(update={"engine": facts})
    with pytest.raises(PlannerError, match=r"engine.method: got bogus, expected draft_model"):
        export(solve(bogus), "vllm", profile=bogus)


def edited(content: dict[str, object], how: str) -> dict[str, object]:
    entry, engine = content["acceptance"][0], content["engine"]
    if how == "no counts":
        del entry["counted"]
    elif how == "no method":
        del engine["method"]
    elif how == "no engine":
        content["engine"] = None
    elif how == "a long chain":
        entry["counted"][1]["length"] = 10**9
    else:
        entry["counted"][0]["prompts"][0]["tokens"] = 10**6
    return content


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("no counts", "counted where engine.method is"),
        ("no method", "counted where engine.method is"),
        ("no engine", "counted where engine.method is"),
        ("a long chain", r"counted\.1\.length: got 1000000000"),
        ("too many tokens", "tokens of at most"),
    ],
)
def test_edited_counts_are_one_line(counted: Profile, how: str, says: str) -> None:
    with pytest.raises(PlannerError, match=says):
        Profile.parse(edited(json.loads(counted.to_json()), how), "here")


def test_other_costs_are_of_the_same_drafting(counted: Profile) -> None:
    facts = counted.engine.model_copy(update={"method": "eagle3"})
    other = counted.model_copy(update={"engine": facts})
    with pytest.raises(PlannerError, match=r"got times of eagle3 in vllm, expected .* mtp in vllm"):
        with_costs(counted, other)
    plain = counted.model_copy(update={"engine": None})
    with pytest.raises(PlannerError, match=r"got times of mtp in vllm, expected .* a draft model"):
        with_costs(plain, counted)
    assert with_costs(counted, counted).acceptance == counted.acceptance
