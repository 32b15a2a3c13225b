"""A profile of an engine, the plan made from it, and the check of that plan; lies are found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from engines import Files, LlamaServer, OpenVinoPipeline, measuring
from engines.checking import check, neighbouring
from engines.engine_costs import two_clocks
from engines.measuring import measure_engine_profile
from engines.timing import Turns
from planner import PlannerError, load
from planner.documents.sampling import Sampling
from planner.export import export
from planner.optimizer import solve
from planner.plans.plan import Plan
from planner.policies import ConfidentDrafting, TreeDrafting
from planner.show.document_text import render
from profiler import Pair, Settings
from runtime import Decoder, TableModel
from runtime.written import Written, logits_behind

from . import standin

GREEDY = Sampling(temperature=0.0)
PROMPTS = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]


@pytest.fixture(scope="module")
def pair() -> Pair:
    rows = torch.rand(12, 12, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    target = rows**4 / (rows**4).sum(-1, keepdim=True)
    draft = 0.8 * target + 0.2 / 12
    return Pair(TableModel(target), TableModel(draft))


@pytest.fixture(scope="module", autouse=True)
def few_prompts() -> Iterator[None]:
    """The stand-in's times do not scatter."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(measuring, "NUM_TIMED", 4)
        patched.setattr(measuring, "NUM_ENDED", 2)
        yield


def serving(folder: Path, followers: list[int]) -> LlamaServer:
    folder = standin.installed(folder, followers)
    files = Files(
        str(folder / "target.gguf"), str(folder / "draft.gguf"), place=str(folder), most_tokens=6
    )
    return LlamaServer(files, 256)


@pytest.fixture(scope="module")
def engine(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> LlamaServer:
    """One whose greedy text is that of the pair's target."""
    followers = [
        int(logits_behind(pair.target, Written([token], [0])).argmax()) for token in range(12)
    ]
    return serving(tmp_path_factory.mktemp("engine"), followers)


@pytest.fixture(scope="module")
def profile(pair: Pair, engine: LlamaServer):
    settings = Settings(samplings=(GREEDY, Sampling(temperature=0.6)), num_tokens=40)
    return measure_engine_profile(pair, PROMPTS, settings, engine=engine)


def test_the_profile_says_whose_times_it_holds(profile, tmp_path: Path) -> None:
    profile.save(tmp_path / "profile.json")
    again = load(tmp_path / "profile.json")
    assert again.engine.name == "llamacpp"
    assert again.engine.version == "1234 (standin)"
    assert {entry.verifier for entry in again.acceptance} == {"topk"}
    assert {entry.verifier for entry in again.replays} == {"topk"}
    assert "llamacpp" in render(again)


@pytest.mark.parametrize(("once", "is_said"), [(2.0, True), (3.6, False), (5.0, True)])
def test_the_benchmark_is_compared_with_the_steps(once: float, is_said: bool) -> None:
    passes = {"target": np.full((3, 2), once), "draft": np.ones((3, 2))}
    line = two_clocks(passes, {1: {"plain": np.full((1, 4), 4.0)}})
    assert line.startswith(f"one token takes {once:.3g} ms in the benchmark and 4 ms in a step")
    assert ("profile again" in line) == is_said
    assert two_clocks({"target": np.zeros((0, 0))}, {}) == ""


@pytest.mark.parametrize("prompts", [[], [[]], [[99]]])
def test_prompts_that_cannot_be_continued_are_refused(pair: Pair, engine, prompts) -> None:
    settings = Settings(samplings=(GREEDY,), num_tokens=8)
    with pytest.raises(PlannerError, match="prompts"):
        measure_engine_profile(pair, prompts, settings, engine=engine)


def test_an_interrupted_profile_goes_on_unless_a_file_was_written_anew(
    pair: Pair, tmp_path: Path
) -> None:
    engine = serving(tmp_path, [0] * 12)
    settings = Settings(samplings=(GREEDY,), num_tokens=8)

    def said() -> list[str]:
        lines: list[str] = []
        with pytest.raises(PlannerError, match=r"engine-target: got"):
            measure_engine_profile(
                pair, PROMPTS, settings,
                engine=engine, output=tmp_path / "profile.json", report_line=lines.append,
            )  # fmt: skip
        return lines

    assert said() == []
    assert "continuing an interrupted run" in said()[0]
    target = tmp_path / "target.gguf"
    target.write_text(target.read_text() + "\n")
    assert said() == []


def test_a_repetition_penalty_is_refused(pair: Pair, engine) -> None:
    penal = Sampling(temperature=0.0, repetition_penalty=1.1)
    settings = Settings(samplings=(penal,), num_tokens=8)
    with pytest.raises(PlannerError, match=r"repetition-penalty: got one, expected none"):
        measure_engine_profile(pair, PROMPTS, settings, engine=engine)


@pytest.mark.parametrize(
    ("most_tokens", "length", "fault"),
    [
        (127, 3, "max_nodes: got 128, expected at most 127 with an engine"),
        (
            16,
            129,
            "prompts: got one of 129 tokens, expected at most 128: chains of up to 16 tokens",
        ),
    ],
)
def test_what_would_fail_at_the_end_is_refused_at_the_start(
    pair: Pair, engine, most_tokens: int, length: int, fault: str
) -> None:
    models = (pair.target, pair.draft)
    short = Pair(*(TableModel(model._table, max_positions=256) for model in models))
    few = replace(engine, files=replace(engine.files, most_tokens=most_tokens))
    settings = Settings(samplings=(GREEDY,), num_tokens=8)
    with pytest.raises(PlannerError, match=fault):
        measure_engine_profile(short, [[1] * length], settings, engine=few)


def test_a_min_p_that_is_refused_with_a_draft_is_not_measured(pair: Pair, engine, monkeypatch):
    cut = Sampling(temperature=0.6, min_p=0.1)
    facts = engine.facts.model_copy(update={"name": "vllm"})
    monkeypatch.setitem(vars(engine), "facts", facts)
    settings = Settings(samplings=(cut,), num_tokens=8)
    with pytest.raises(PlannerError, match=r"min-p: got 0\.1, expected none: vLLM refuses"):
        measure_engine_profile(pair, PROMPTS, settings, engine=engine)


def test_files_of_another_model_are_refused(pair: Pair, tmp_path: Path) -> None:
    other = serving(tmp_path, [11] * 12)
    settings = Settings(samplings=(GREEDY,), num_tokens=8)
    with pytest.raises(PlannerError, match="expected the same model"):
        measure_engine_profile(pair, PROMPTS, settings, engine=other)


@pytest.mark.parametrize("temperature", [0.0, 0.6])
def test_plans_are_what_the_engine_can_carry_out(profile, temperature: float) -> None:
    plan = solve(profile, temperature=temperature)
    assert isinstance(plan.drafting, (TreeDrafting, ConfidentDrafting))
    assert plan.drafting.most_children <= 1
    assert {each.solver for each in plan.made_from.alternatives} <= {"chain", "confident", "none"}
    if not plan.speculates:
        with pytest.raises(PlannerError, match="leave its speculative decoding off"):
            export(plan, "llamacpp", profile=profile)
        return
    told = export(plan, "llamacpp", profile=profile, draft="draft.gguf").content
    assert f"--spec-draft-n-max {plan.drafting.most_nodes - 1}" in told


def test_requests_at_once_are_timed_and_planned_for(pair: Pair, engine: LlamaServer) -> None:
    settings = Settings(samplings=(GREEDY,), num_tokens=40, batch_sizes=(4,))
    engine = replace(engine, files=replace(engine.files, most_tokens=3))
    many = measure_engine_profile(pair, PROMPTS[:2], settings, engine=engine)
    assert [costs.batch_size for costs in many.costs] == [1, 4]
    alone, four = many.costs
    assert alone.target_step.median_ms == [standin.pass_ms(1)]
    assert four.target_step.median_ms == [standin.pass_ms(4)]
    counts = four.overhead["topk"].counts
    times = [standin.step_ms(nodes, max(nodes - 1, 1), 4) for nodes in counts]
    # texts' last steps, being shorter, lie off the staircase
    assert standin.added_up(four) == pytest.approx(times, rel=0.01)
    plan = solve(many, temperature=0.0, solver="chain", batch_size=4)
    turns = Turns(PROMPTS, plan.sampling, num_tokens=49, seed=0, requests=4)
    result = check(engine, plan, turns, others=())
    assert result.plain.ms_per_token == standin.pass_ms(4)
    assert "4 equal requests at once" in render(result)


def test_what_the_engine_cannot_carry_out_is_refused(profile, pair: Pair) -> None:
    with pytest.raises(PlannerError, match="llamacpp, whose times the profile holds, can carry"):
        solve(profile, solver="sequoia")
    plan = solve(profile, temperature=0.0)
    with pytest.raises(PlannerError, match="got one made for llamacpp"):
        Decoder.from_plan(plan, pair.target, pair.draft)


def checked(engine: LlamaServer, plan: Plan):
    return check(engine, plan, Turns(PROMPTS * 3, plan.sampling, num_tokens=49, seed=0))


def honest(profile) -> Plan:
    """A plan whose promises are what the stand-in does."""
    plan = solve(profile, temperature=0.0, solver="chain")
    drafting = TreeDrafting(parents=[-1, 0, 1])
    return plan.model_copy(update={"drafting": drafting, "predicted": None})


def test_a_check_measures_what_the_engine_does(
    profile, engine: LlamaServer, tmp_path: Path
) -> None:
    plan = honest(profile)
    result = checked(engine, plan)
    whole = standin.completion(PROMPTS[0], 49, 2)["timings"]
    alone = standin.completion(PROMPTS[0], 49, 0)["timings"]
    assert result.planned.tokens_per_step.value == 48 / (48 - whole["draft_n_accepted"])
    assert result.planned.speedup.value == pytest.approx(
        alone["predicted_ms"] / whole["predicted_ms"]
    )
    assert result.planned.num_same == result.num_greedy == 9
    assert {run.role for run in result.runs} == {"plain", "plan", "neighbour", "default"}
    assert result.faults == []
    result.save(tmp_path / "check.json")
    assert load(tmp_path / "check.json") == result
    assert "9 of 9 texts are those without speculation" in render(result)


def test_an_edited_prediction_is_found(profile, engine: LlamaServer) -> None:
    plan = honest(profile)
    told = solve(profile, temperature=0.0, solver="chain").predicted
    lie = {"value": 9.0, "low": 8.9, "high": 9.1}
    content = told.model_dump() | {"speedup": lie, "reach": None, "optimality_gap": None}
    predicted = type(told).model_validate(content)
    faults = checked(engine, plan.model_copy(update={"predicted": predicted})).faults
    assert any(fault.startswith("speedup: predicted 9.00") for fault in faults)


def test_changed_greedy_text_is_found(
    profile, engine: LlamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN", "lies")
    faults = checked(engine, honest(profile)).faults
    assert any(fault.startswith("greedy text: 0 of 9") for fault in faults)


def test_neighbours_stay_within_what_was_timed() -> None:
    found = neighbouring(ConfidentDrafting(max_depth=6, confidence=0.9), most_tokens=6)
    assert all(1 <= each.max_depth <= 6 and 0 <= each.confidence <= 0.95 for each in found)
    assert len({(each.max_depth, each.confidence) for each in found}) == len(found)


class Started:
    """Stands for a pipeline of OpenVINO GenAI."""


def test_a_pipeline_ends_with_the_last_that_asks_it_whoever_keeps_its_name(monkeypatch):
    """One that went on would be timed beside others that are started anew."""
    monkeypatch.setattr(OpenVinoPipeline, "_start", lambda self, drafts: Started())
    engine = OpenVinoPipeline(Files("target", "draft"), 256)
    short, long = (ConfidentDrafting(max_depth=most, confidence=0.0) for most in (1, 4))
    with engine.running(long) as first:
        with engine.running(short) as second:
            assert second.pipeline is first.pipeline
        assert list(engine._started) == [True]
        assert isinstance(first.pipeline, Started)
    assert list(engine._started) == []
    with engine.running(None) as plain, engine.running(short) as drafted:
        assert plain.pipeline is not drafted.pipeline
    assert list(engine._started) == []
