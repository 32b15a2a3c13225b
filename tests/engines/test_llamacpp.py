"""llama.cpp, played by a stand-in whose times are known: timed, checked, and never left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from engines import Files, LlamaServer, process, timing
from engines.engine_costs import Early, engine_costs
from engines.llama_server import for_bench
from engines.process import served
from engines.timing import Turns, lengths, time_ended, time_passes, time_steps
from planner.documents.document import PlannerError
from planner.documents.sampling import Sampling
from planner.policies import ConfidentDrafting

from . import standin

GREEDY = Sampling(temperature=0.0)
PROMPTS = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]


SAMPLINGS = [GREEDY, Sampling(temperature=1.0)]
TURNS = Turns(PROMPTS, GREEDY, num_tokens=33, seed=0)


def serving(folder: Path, most_tokens: int = Files.most_tokens) -> LlamaServer:
    folder = standin.installed(folder)
    files = Files(
        str(folder / "target.gguf"), str(folder / "draft.gguf"), place=str(folder),
        most_tokens=most_tokens,
    )  # fmt: skip
    return LlamaServer(files, 256)


@pytest.fixture
def engine(tmp_path: Path) -> LlamaServer:
    return serving(tmp_path)


def running(folder: Path) -> str:
    """Command lines of the stand-in's that are alive."""
    return subprocess.run(["pgrep", "-f", str(folder)], capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("options", "shared"),
    [
        (("-fa", "off", "-ctk", "f32", "--no-warmup"), ["-fa", "0"]),
        (("--flash-attn", "on", "--cache-type-v", "q8_0"), ["-fa", "1", "-ctv", "q8_0"]),
        (("--n-gpu-layers", "20", "--gpu-layers", "9"), ["-ngl", "20", "-ngl", "9"]),
        (("--batch-size", "64", "-ub", "32", "--jinja"), ["-b", "64", "-ub", "32"]),
    ],
)
def test_the_benchmark_is_told_what_the_server_is_told(options, shared) -> None:
    """By whichever of its names."""
    assert for_bench(options) == shared


def all_steps(engine: LlamaServer, turns: Turns, samplings: list[Sampling]):
    """Times of chains of every length that is timed, and of those that end early, in two starts."""
    full, unbegun = (
        {
            length: time_steps(engine, length, turns=turns, samplings=samplings, begun=begun)
            for length in lengths(engine)
        }
        for begun in (True, False)
    )
    ended = {most: time_ended(engine, most, turns=turns) for most in lengths(engine)}
    return full, Early([unbegun] * 2, [ended] * 2)


def test_drafts_that_are_drawn_are_not_measured_as_others(engine: LlamaServer) -> None:
    drawn = replace(engine.files, options=("--spec-draft-sampling", "probabilistic"))
    with pytest.raises(PlannerError, match="engine-option: got --spec-draft-sampling, expected no"):
        _ = replace(engine, files=drawn).facts


def test_it_says_who_it_is(engine: LlamaServer) -> None:
    assert engine.facts.version == "1234 (standin)"
    assert engine.facts.solvers == ["chain", "confident"]


def test_steps_are_counted_as_the_server_takes_them(engine: LlamaServer, tmp_path: Path) -> None:
    drafting = ConfidentDrafting(max_depth=4, confidence=0.0)
    with engine.running(drafting) as server:
        found = server.decode([1, 2, 3], GREEDY, num_tokens=33, seed=0)
    expected = standin.completion([1, 2, 3], 33, 4)
    assert found.tokens == expected["tokens"]
    assert found.num_steps == 32 - found.num_accepted
    assert found.ms == expected["timings"]["predicted_ms"]
    assert running(tmp_path) == ""


def test_equal_requests_at_once_are_summed(engine: LlamaServer) -> None:
    with engine.running(ConfidentDrafting(max_depth=4, confidence=0.0), 3) as server:
        found = server.decode([1, 2, 3], GREEDY, 3, num_tokens=33, seed=0)
    one = standin.completion([1, 2, 3], 33, 4, requests=3)
    assert found.tokens == one["tokens"]
    assert found.num_timed == 3 * 32
    assert found.num_steps == 3 * (32 - one["timings"]["draft_n_accepted"])
    assert found.ms == pytest.approx(3 * one["timings"]["predicted_ms"])


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory):
    """An engine of chains of up to so many tokens, its passes and its steps, timed once each."""

    @cache
    def timed_up_to(most_tokens: int):
        few = serving(tmp_path_factory.mktemp("timed"), most_tokens)
        return few, time_passes(few, TURNS, 4), *all_steps(few, TURNS, SAMPLINGS)

    return timed_up_to


@pytest.mark.parametrize(("most_tokens", "off"), [(5, 1e-4), (7, 0.01)])
def test_costs_add_up_to_the_steps_that_were_timed(timed, most_tokens: int, off: float) -> None:
    """Texts end with shorter steps, which are not all as quick as those of a quick limit."""
    few, passes, steps, early = timed(most_tokens)
    found = engine_costs(few.facts, TURNS.context, SAMPLINGS, passes, steps, early=early)
    assert [costs.sampling for costs in found] == SAMPLINGS
    for costs in found:
        assert costs.target_step.median_ms == [standin.pass_ms(1)]
        counts = costs.overhead["topk"].counts
        assert counts == [1, *(length + 1 for length in lengths(few))]
        times = [standin.step_ms(nodes, max(nodes - 1, 1)) for nodes in counts]
        assert standin.added_up(costs) == pytest.approx(times, rel=off)
        assert costs.unbegun is not None
        times = [standin.step_ms(1, most) for most in costs.unbegun.counts]
        assert costs.unbegun.median_ms == pytest.approx(times, abs=1e-4)
        assert list(costs.ended) == lengths(few)
        for most, curve in costs.ended.items():
            times = [standin.step_ms(nodes, most) for nodes in curve.counts]
            assert curve.median_ms == pytest.approx(times, abs=1e-4)


def test_a_server_that_does_not_accept_all_that_it_should_is_found(
    engine: LlamaServer, monkeypatch
) -> None:
    monkeypatch.setattr(LlamaServer, "accepting", LlamaServer.running)
    with pytest.raises(PlannerError, match="got 2 steps for 3 drafted tokens"):
        time_ended(engine, 3, turns=TURNS)


@pytest.mark.parametrize(("begun", "num_decoded"), [(True, timing.LEAST[1]), (False, 1)])
def test_a_slow_engine_decodes_as_few_prompts_as_will_do(
    engine: LlamaServer, monkeypatch, begun: bool, num_decoded: int
) -> None:
    monkeypatch.setattr(timing, "SECONDS", (0.0, 0.0))
    turns = Turns(PROMPTS * 2, GREEDY, num_tokens=33, seed=0)
    found = time_steps(engine, 3, turns=turns, samplings=SAMPLINGS, begun=begun)
    assert {name: times.shape for name, times in found.items()} == dict.fromkeys(
        ("plain", "drafted", "length", "tokens", "steps"), (2, num_decoded)
    )


@pytest.mark.parametrize("most_tokens", [7, 12])
def test_a_benchmark_that_met_a_slower_machine_changes_no_step(timed, most_tokens: int) -> None:
    """The longer chains are on both sides of a stair."""
    few, passes, steps, early = timed(most_tokens)
    slow = {name: 1.6 * times for name, times in passes.items()}
    for taken in (passes, slow):
        costs, _ = engine_costs(few.facts, TURNS.context, SAMPLINGS, taken, steps, early=early)
        times = [standin.step_ms(n, max(n - 1, 1)) for n in costs.overhead["topk"].counts]
        assert standin.added_up(costs) == pytest.approx(times, rel=0.02)


def test_a_staircase_is_timed_at_every_size(engine: LlamaServer) -> None:
    times = engine.passes(range(1, 13), context=8, repeats=4).target
    assert times[9][0] < times[8][0]
    assert list(times) == list(range(1, 13))


@pytest.mark.parametrize(
    ("how", "says"),
    [("old", "invalid argument"), ("dies", "stopped answering"), ("silent", "without tokens")],
)
def test_what_goes_wrong_is_one_line_and_leaves_nothing_running(
    engine: LlamaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, says: str
) -> None:
    monkeypatch.setenv("STANDIN", how)
    with (
        pytest.raises(PlannerError, match=says) as raised,
        engine.running(ConfidentDrafting(max_depth=2, confidence=0.0)) as server,
    ):
        server.decode([1], GREEDY, num_tokens=4, seed=0)
    assert "\n" not in str(raised.value)
    assert running(tmp_path) == ""


def test_a_server_that_never_is_ready_is_ended(tmp_path: Path) -> None:
    folder = standin.installed(tmp_path)
    command = [str(folder / "llama-server"), "-m", str(folder / "target.gguf")]
    with (
        pytest.raises(PlannerError, match="not ready after"),
        served(command, lambda: False, patience_s=1.0),
    ):
        pass
    assert running(tmp_path) == ""


def test_whoever_is_terminated_leaves_no_server_behind(tmp_path: Path) -> None:
    folder = standin.installed(tmp_path)
    command = [str(folder / "llama-server"), "-m", str(folder / "target.gguf")]
    code = (  # by itself, since its package imports torch
        f"import sys\nsys.path.insert(0, {str(Path(process.__file__).parent)!r})\n"
        "from process import served\n"
        f"with served({command!r}, lambda: True):\n"
        "    print('ready', flush=True)\n    import time; time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as held:
        assert held.stdout is not None
        assert held.stdout.readline() == "ready\n"
        assert running(tmp_path) != ""
        held.terminate()
        assert held.wait(30) == 128 + signal.SIGTERM
    assert running(tmp_path) == ""


def test_a_missing_program_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(PlannerError, match="expected a GGUF file of the target"):
        _ = LlamaServer(Files("nowhere.gguf", "draft.gguf", place=str(tmp_path)), 256).facts
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    file = str(tmp_path / "a.gguf")
    with pytest.raises(PlannerError, match="no program llama-server"):
        _ = LlamaServer(Files(file, file, place=str(tmp_path)), 256).facts


def test_steps_alone_tell_how_they_compare_with_plain_ones(engine: LlamaServer) -> None:
    """Noise that both have alike does not favour either, where no benchmark times passes."""
    rng = np.random.default_rng(0)
    ratios = {length: 1.1 + 0.05 * length for length in range(1, 17)}
    steps = {
        length: {
            "plain": 6.0 * rng.lognormal(sigma=0.2, size=(1, 24)),
            "drafted": 6.0 * ratio * rng.lognormal(sigma=0.2, size=(1, 24)),
            "length": np.full((1, 24), float(length)),
        }
        for length, ratio in ratios.items()
    }
    none = {"target": np.zeros((0, 0)), "draft": np.zeros((0, 0))}
    (found,) = engine_costs(engine.facts, 64, [GREEDY], none, steps, early=Early())
    assert found.unbegun is None
    assert found.ended == {}
    medians = np.array(found.verify.median_ms)
    told = np.mean(medians[1:] / medians[0] / np.array(list(ratios.values())))
    assert told == pytest.approx(1.0, abs=0.03)
