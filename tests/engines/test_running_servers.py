"""Servers that somebody else has started: asked, timed, and left running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from engines import PROGRAMS, Files, Program
from engines.asking import is_healthy
from engines.checking import check
from engines.measuring import measure_engine_profile
from engines.running_servers import servers_of
from engines.timing import Turns
from planner.cli import main
from planner.documents.document import PlannerError
from planner.documents.engine import EngineFacts
from planner.optimizer import solve
from planner.policies import TreeDrafting
from profiler import Pair, Settings
from runtime import TableModel

from . import served_standin
from .test_served import GREEDY, NAMES, chain, program

PLAIN, THREE = "http://127.0.0.1:8000", "http://10.0.0.7:8001"


@contextmanager
def served(folder: Path, name: str, *, said: dict[int, int]) -> Iterator[Program]:
    """The engine asked at two servers, of which `said` has what they draft by what is said."""
    own = program(folder, name)
    lone, drafting = (chain(length) if length else None for length in said.values())
    with own.started(lone) as one, own.started(drafting) as other:
        addresses = dict(zip(said, (one.address, other.address), strict=True))
        files = Files("target", "draft", servers=addresses, most_tokens=max(said))
        yield PROGRAMS[name](files, 256)
        assert is_healthy(one.address)
        assert is_healthy(other.address)


def test_words_say_what_drafts_how_much() -> None:
    assert servers_of([f"3={THREE}/", PLAIN]) == {0: PLAIN, 3: THREE}
    assert servers_of([f"0={PLAIN}", "12=https://host/a=b"]) == {0: PLAIN, 12: "https://host/a=b"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([PLAIN], "expected a server without speculation"),
        ([f"3={THREE}", f"4={PLAIN}"], "expected a server without speculation"),
        ([PLAIN, THREE], "two servers that draft 0 tokens"),
        ([PLAIN, f"3={THREE}", f"3={PLAIN}"], "two servers that draft 3 tokens"),
        (["127.0.0.1:8000", f"3={THREE}"], "got '127.0.0.1:8000', expected .K=.URL"),
        ([f"x={PLAIN}", f"3={THREE}"], "got 'x=http"),
        ([f"-1={PLAIN}", f"3={THREE}"], "got '-1=http"),
        ([PLAIN, "3=http://host:port"], "got '3=http://host:port'"),
        ([PLAIN, "3=http://host:99999"], "got '3=http://host:99999'"),
        ([PLAIN, "3="], "got '3='"),
        ([""], "got ''"),
    ],
)
def test_other_words_are_refused(words: list[str], says: str) -> None:
    with pytest.raises(PlannerError, match=says):
        servers_of(words)


@pytest.mark.parametrize("name", NAMES)
def test_they_are_timed_planned_for_and_checked(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the lengths that they have; the profile says where they were, and a check asks them."""
    monkeypatch.setenv("STANDIN_FASTER", "10")
    table = torch.full((12, 12), 0.01, dtype=torch.float64)
    table[range(12), [*range(1, 12), 0]] = 0.89
    pair = Pair(TableModel(table), TableModel(0.9 * table + 0.1 / 12))
    settings = Settings(samplings=(GREEDY,), num_tokens=16)
    with served(tmp_path, name, said={0: 0, 4: 4}) as engine:
        profile = measure_engine_profile(pair, [[1, 2], [3]], settings, engine=engine)
        known = EngineFacts.model_validate_json(profile.engine.model_dump_json())
        assert (known, known.servers) == (engine.facts, engine.files.servers)
        assert known.version == {"vllm": "0.33.0", "sglang": "0.5.23"}[name]
        assert profile.costs[0].verify.counts == [1, 5]
        assert profile.surroundings == []
        assert Files.of(known) == engine.files
        plan = solve(profile, solver="chain")
        plan = plan.model_copy(update={"drafting": TreeDrafting(parents=[-1, 0, 1, 2, 3])})
        result = check(engine, plan, Turns([[1], [2, 3]], GREEDY, num_tokens=19, seed=0))
        assert [run.role for run in result.runs] == ["plain", "plan"]
        steps = len(list(served_standin.steps(19, 4)))
        assert result.planned.tokens_per_step.value == pytest.approx(18 / steps)
        shorter = plan.model_copy(update={"drafting": TreeDrafting(parents=[-1, 0, 1])})
        with pytest.raises(
            PlannerError, match="draft 0, 4 tokens a step, expected one that drafts 2"
        ):
            check(engine, shorter, Turns([[1]], GREEDY, num_tokens=19, seed=0))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("said", [{0: 2, 2: 2}, {0: 0, 1: 2}])
def test_one_that_drafts_more_than_was_said_is_refused(
    tmp_path: Path, name: str, said: dict[int, int]
) -> None:
    wrong = next(length for length, told in said.items() if length != told)
    with (
        served(tmp_path, name, said=said) as engine,
        engine.running(chain(wrong) if wrong else None) as running,
        pytest.raises(PlannerError, match=f"expected {wrong} a step at most, as was said"),
    ):
        running.decode([1], GREEDY, num_tokens=33, seed=0)


def test_one_that_does_not_draft_is_refused(tmp_path: Path) -> None:
    with (
        served(tmp_path, "vllm", said={0: 0, 2: 0}) as engine,
        engine.running(chain(2)) as running,
        pytest.raises(PlannerError, match="metrics of vllm is without"),
    ):
        running.decode([1], GREEDY, num_tokens=33, seed=0)


def test_where_nobody_answers_one_line_says_so() -> None:
    nowhere = {0: "http://127.0.0.1:9", 2: "http://127.0.0.1:9"}
    engine = PROGRAMS["vllm"](Files("target", "draft", servers=nowhere), 256)
    with pytest.raises(PlannerError, match=r"stopped answering.*refused"):
        _ = engine.facts
    with (
        pytest.raises(PlannerError, match="9, which does not say it is ready"),
        engine.running(None),
    ):
        pass
    for name in ("openvino", "hf"):
        with pytest.raises(PlannerError, match="engine-url: got one, expected none"):
            PROGRAMS[name](replace(engine.files), 256)


@pytest.mark.parametrize("more", [("--engine-path", "bin"), ("--max-nodes", "5")])
def test_options_of_what_is_started_do_not_go_with_them(more: tuple[str, str]) -> None:
    words = ("--engine", "vllm", "--engine-url", PLAIN, "--engine-url", f"3={THREE}", *more)
    result = CliRunner().invoke(main, ["profile", *words])
    assert result.exit_code == 1
    assert "engine-url: got servers that run already, expected no --engine-path" in result.stderr
