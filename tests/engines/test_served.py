"""vLLM and SGLang, played by a stand-in whose steps are known: counted, timed, not left behind."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from time import perf_counter

import pytest
import torch

from engines import PROGRAMS, Files, Program
from engines.checking import check
from engines.measuring import measure_engine_profile
from engines.metrics_page import totals
from engines.process import OWN_PORTS, free_port
from engines.timing import Turns
from planner.documents.document import PlannerError
from planner.documents.sampling import Sampling
from planner.export import export, sglang, vllm
from planner.export.notations import as_flags
from planner.optimizer import solve
from planner.policies import ConfidentDrafting, TreeDrafting
from profiler import Pair, Settings
from runtime import TableModel

from . import served_standin
from .test_llamacpp import running

GREEDY = Sampling(temperature=0.0)
NAMES = ("vllm", "sglang")
OTHERS_ALIKE = 12
"""Tokens of the vocabulary of the pair whose greedy text the stand-in writes."""


def program(folder: Path, name: str, *, options: tuple[str, ...] = (), most: int = 2) -> Program:
    served_standin.installed(folder, name, [*range(1, OTHERS_ALIKE), 0])
    files = Files(
        str(folder / "target"), str(folder / "draft"), place=str(folder), options=options,
        most_tokens=most,
    )  # fmt: skip
    return PROGRAMS[name](files, 256)


@pytest.fixture(params=NAMES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    return program(tmp_path, request.param)


def chain(length: int) -> ConfidentDrafting:
    return ConfidentDrafting(max_depth=length, confidence=0.0)


def test_they_say_who_they_are(engine: Program) -> None:
    assert engine.facts.version == {"vllm": "0.33.0", "sglang": "0.5.23"}[engine.facts.name]
    assert (engine.facts.verifier, engine.facts.solvers) == ("topk", ["chain"])


def test_equal_requests_at_once_are_counted_together(engine: Program) -> None:
    known = list(served_standin.steps(33, 4))
    with engine.running(chain(4), 3) as server:
        found = server.decode([1, 2, 3], GREEDY, 3, num_tokens=33, seed=0)
    assert found.tokens == [(4 + place) % 12 for place in range(33)]
    assert (found.num_timed, found.num_steps) == (3 * 32, 3 * len(known))


@pytest.mark.parametrize(("length", "num_tokens"), [(1, 17), (2, 33), (4, 33), (4, 34), (7, 18)])
def test_steps_are_counted_as_the_server_takes_them(
    engine: Program, length: int, num_tokens: int
) -> None:
    known = list(served_standin.steps(num_tokens, length))
    with engine.running(chain(length)) as server:
        for _ in range(2):  # counters go on from where they stood
            start = perf_counter()
            found = server.decode([1, 2, 3], GREEDY, num_tokens=num_tokens, seed=0)
            around = 1e3 * (perf_counter() - start)
            assert found.tokens == [(4 + place) % 12 for place in range(num_tokens)]
            assert found.num_timed == num_tokens - 1
            assert found.num_steps == len(known)
            assert found.num_accepted == num_tokens - 1 - len(known)
            told = {"vllm": length * len(known), "sglang": 0}
            assert found.num_drafted == told[engine.facts.name]
            slept = len(known) * served_standin.step_ms(1 + length)
            # who waits for a core sees a token late, the first one too
            assert slept / 2 <= found.ms <= around - served_standin.PROMPT_MS / 2


def test_alone_every_token_is_a_step(engine: Program) -> None:
    with engine.running(None) as server:
        found = server.decode([5], Sampling(temperature=0.6, top_k=3), num_tokens=9, seed=1)
    assert (found.num_steps, found.num_drafted, found.num_accepted) == (8, 0, 0)


def test_steps_of_vllm_that_draft_nothing_are_counted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN", "pauses")
    known = list(served_standin.steps(19, 2, pausing=True))
    assert sum(1 + right for _, right in known) == 18
    with program(tmp_path, "vllm").running(chain(2)) as server:
        found = server.decode([1], GREEDY, num_tokens=19, seed=0)
    assert found.num_steps == len(known)
    assert found.num_drafted == sum(drafted for drafted, _ in known)


def test_of_a_first_chunk_with_more_than_one_token_the_rest_is_timed(
    engine: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN", "lumps")
    with engine.running(chain(2)) as server:
        found = server.decode([1], GREEDY, num_tokens=31, seed=0)
    known = list(served_standin.steps(31, 2))
    lump = 1 + known[0][1] + 1
    assert found.num_timed == 31 - lump
    assert abs(found.num_steps - (len(known) - 1)) <= 1
    assert len(found.tokens) == 31


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("dies", "stopped answering"),
        ("fails", "stopped answering.*EngineCore"),
        ("silent", "without token ids"),
        ("bare", "metrics of .* is without .*_total"),
        ("refuses", "refused a request"),
        ("shared", "somebody else"),
        ("full", "Free memory on device"),
    ],
)
def test_what_goes_wrong_is_one_line_and_leaves_nothing_running(
    engine: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, says: str
) -> None:
    monkeypatch.setenv("STANDIN", how)
    with pytest.raises(PlannerError, match=says) as raised, engine.running(chain(2)) as server:
        server.decode([1], GREEDY, num_tokens=8, seed=0)
    assert "\n" not in str(raised.value)
    assert running(tmp_path) == ""


@pytest.mark.parametrize("name", NAMES)
def test_an_option_that_it_does_not_know_is_said_by_it(tmp_path: Path, name: str) -> None:
    unknown = program(tmp_path, name, options=("--speculate-harder", "2"))
    with (
        pytest.raises(PlannerError, match="unrecognized arguments: --speculate-harder") as raised,
        unknown.running(chain(2)),
    ):
        pass
    assert "\n" not in str(raised.value)
    assert running(tmp_path) == ""


def test_a_port_in_use_is_one_line(
    engine: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setattr("engines.completions.free_port", lambda: taken.getsockname()[1])
        with pytest.raises(PlannerError, match="Address already in use"), engine.running(None):
            pass
    assert running(tmp_path) == ""


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_started_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(PlannerError, match=f"no program {name} in .*; pip install {name}"):
        _ = PROGRAMS[name](Files("target", "draft", place=str(tmp_path)), 256).facts
    with pytest.raises(PlannerError, match="expected a folder or a name that"):
        _ = PROGRAMS[name](Files("embedded/target", "embedded/draft"), 256).facts
    with pytest.raises(PlannerError, match="engine-option: got --port=80"):
        _ = program(tmp_path, name, options=("--port=80",)).facts


def test_metrics_are_summed_over_their_labels() -> None:
    page = '# TYPE a_total counter\na_total{engine="0"} 3.0\na_total{engine="1"} 1e+02\nb 2.5\n'
    assert totals(page) == {"a_total": 103.0, "b": 2.5}


@pytest.mark.parametrize("name", NAMES)
def test_plans_from_its_times_are_told_and_checked(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exported setting is what it was timed and checked with."""
    monkeypatch.setenv("STANDIN_FASTER", "10")
    engine = program(tmp_path, name)
    table = torch.full((12, 12), 0.01, dtype=torch.float64)
    table[range(12), [*range(1, 12), 0]] = 0.89
    pair = Pair(TableModel(table), TableModel(0.9 * table + 0.1 / 12))
    settings = Settings(samplings=(GREEDY,), num_tokens=16)
    profile = measure_engine_profile(pair, [[1, 2], [3]], settings, engine=engine)
    assert profile.engine == engine.facts
    plan = solve(profile, solver="chain")
    again = [each.piece for each in profile.surroundings if each.piece.startswith("again-1-")]
    assert f"again-1-{plan.drafting.most_nodes - 1}" in again
    plan = plan.model_copy(update={"drafting": TreeDrafting(parents=[-1, 0, 1])})
    told = export(plan, name, draft=str(tmp_path / "draft")).content
    if name == "vllm":
        assert json.loads(told) == vllm.settings_of(plan.drafting, str(tmp_path / "draft"))
    else:
        assert told == as_flags(sglang.flags_of(plan.drafting, str(tmp_path / "draft")))
    if solve(profile).speculates:
        assert "chain" in export(plan, name, profile=profile).plan.drafting.words()
    turns = Turns([[1], [2, 3]], GREEDY, num_tokens=19, seed=0)
    result = check(engine, plan, turns, others=())
    known = len(list(served_standin.steps(19, 2)))
    assert result.planned.tokens_per_step.value == pytest.approx(18 / known)
    assert result.planned.num_same == 2
    assert running(tmp_path) == ""


def test_processes_look_for_ports_where_others_do_not(monkeypatch) -> None:
    """One that is taken is passed over."""
    mine = [free_port() for _ in range(3)]
    assert len(set(mine)) == 3
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", mine[-1] + 1))
        taken.listen()
        assert free_port() not in {*mine, mine[-1] + 1}
    me = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: me + 1)
    others = [free_port() for _ in range(3)]
    assert {port // OWN_PORTS for port in mine}.isdisjoint(port // OWN_PORTS for port in others)
