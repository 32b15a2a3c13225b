"""Cores that other programs hold are seen while decoding, and are not waited for."""

from __future__ import annotations

import math

import pytest
import torch

from planner import PlannerError
from runtime import cores, fused, passes
from runtime.cache import TreeCache
from runtime.compiled_pass import MOST_ROWS, WholePass
from runtime.cores import EVERY, FreeCores
from runtime.fused import FusedModel
from tests.runtime.small_models import small_model
from tree_kernels.host.team import ALONE, Team


class Machine:
    """Four cores, of which others hold some; this process works on one."""

    def __init__(self, monkeypatch) -> None:
        self.now = self.busy = self.own = 0.0
        self.looks, self.look_seconds = 0, 0.0
        monkeypatch.setattr(cores, "allowed_cores", lambda: set(range(4)))
        monkeypatch.setattr(cores, "perf_counter", lambda: self.now)
        monkeypatch.setattr(cores, "process_time", lambda: self.own)
        monkeypatch.setattr(cores, "busy_seconds", self._look)

    def _look(self) -> float:
        self.looks += 1
        self.now += self.look_seconds
        return self.busy

    def passes(self, seconds: float, others: float) -> None:
        self.now += seconds
        self.own += seconds
        self.busy += seconds * (1 + others)


@pytest.fixture
def machine(monkeypatch) -> Machine:
    return Machine(monkeypatch)


def test_what_others_hold_is_not_free(machine) -> None:
    free = FreeCores()
    for _ in range(2):
        assert free.now() == 4
        machine.passes(EVERY / 2, others=3)
        free.done()
    assert free.now() == pytest.approx(1)
    machine.passes(EVERY, others=0.5)
    free.done()
    assert free.now() == pytest.approx(3.5)
    assert machine.looks == 3


def test_what_others_do_in_their_turn_is_not_what_they_do_beside(machine) -> None:
    """Short texts in turns with another program's and another engine's in this process: no look has
    their turns between it and the one before; a program beside all is seen in the first text that
    is long enough."""
    free = FreeCores()
    for _ in range(10):
        for _ in range(3):
            assert free.now() == 4
            machine.passes(EVERY / 10, others=0)
            free.done()
        for own in (0, 4):
            machine.now += 0.3 * EVERY
            machine.busy += 0.3 * EVERY * 4
            machine.own += 0.3 * EVERY * own
    for _ in range(13):
        found = free.now()
        machine.passes(EVERY / 10, others=2)
        free.done()
    assert found == pytest.approx(2)
    machine.now += 10 * EVERY
    assert free.now() == pytest.approx(2)  # nothing else is known


def test_who_gets_little_of_its_core_does_not_pause(machine) -> None:
    """Long passes that others let have a quarter of the time: that is what is to be seen."""
    free = FreeCores()
    for _ in range(12):
        found = free.now()
        machine.now += EVERY / 4
        machine.own += EVERY / 16
        machine.busy += EVERY
        free.done()
    assert found == pytest.approx(0.25)


def test_a_look_that_takes_long_is_rare(machine) -> None:
    free = FreeCores()
    machine.look_seconds = EVERY / 10
    for _ in range(1000):
        free.now()
        machine.passes(EVERY / 10, others=0)
        free.done()
    assert machine.looks <= 3


@pytest.mark.parametrize(("free", "size"), [(4.0, 3), (2.6, 3), (2.4, 2), (0.3, 1), (-0.2, 1)])
def test_a_pass_has_no_more_threads_than_there_are_free_cores(free, size) -> None:
    whole = WholePass(small_model("llama"), 1e-6)
    whole.team = Team(3, 1, 2, 3, 4)
    assert whole.team_for(free) == Team(size, 1, 2, 3, 4)


def test_every_pass_is_told_of(machine, monkeypatch) -> None:
    """The long one over a prompt, which no team makes, too: else it would belong to the pause
    before it, and what others did in that would be taken for what they do beside it."""
    free, told = FreeCores(), []
    monkeypatch.setattr(free, "now", lambda: told.append("now") or 4.0)
    monkeypatch.setattr(free, "done", lambda: told.append("done"))
    monkeypatch.setattr(fused, "CORES", free)
    model = FusedModel(small_model("llama"))
    cache = TreeCache(2, 128)
    model._whole.row_counts = {1}
    told.clear()
    for size in (MOST_ROWS + 1, 1):
        tokens = torch.zeros(size, dtype=torch.int64)
        model.forward(tokens, tokens + torch.arange(size), cache)
        cache.append(size)
    assert told == ["now", "done"] * 2


def beside(free: float) -> FreeCores:
    """Cores of which others left so many when they were last looked at."""
    found = FreeCores()
    found._free, found._left, found._next = free, math.inf, math.inf
    return found


@pytest.mark.parametrize(
    ("free", "threads", "too_few"), [(2.0, 2, False), (1.2, 2, True), (0.2, 1, False)]
)
def test_where_threads_would_wait_passes_are_in_one_call(
    monkeypatch, free: float, threads: int, too_few: bool
) -> None:
    """Of few rows, all of which would be in parts otherwise; not of more than one call takes."""
    calls = []
    monkeypatch.setattr(fused, "CORES", beside(free))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    model = FusedModel(small_model("llama"))
    model._whole.row_counts = ()
    monkeypatch.setattr(
        model._whole, "read", lambda *_: calls.append(1) or (torch.empty(1, 1),) * 2
    )
    for size in (MOST_ROWS + 1, MOST_ROWS):
        tokens = torch.zeros(size, dtype=torch.int64)
        model.forward(tokens, tokens + torch.arange(size), TreeCache(2, 128))
    assert calls == [1] * too_few


def test_ways_are_chosen_for_a_machine_that_is_free(monkeypatch) -> None:
    """Beside a program that will end, a team of fewer would be compared with itself."""
    asked, threads = [], torch.get_num_threads()
    monkeypatch.setattr(fused, "CORES", beside(0.1))
    model = FusedModel(small_model("llama"))
    model._threads_timed = threads
    monkeypatch.setattr(WholePass, "team_for", lambda _, free: asked.append(free) or ALONE)
    model.choose_ways()
    assert set(asked) == {threads}


def test_threads_of_which_torch_has_other_numbers_take_turns_without_the_clock(monkeypatch) -> None:
    model, timed, row = FusedModel(small_model("llama")), [], torch.arange(1)
    monkeypatch.setattr(fused, "team_of", lambda size: ALONE)
    monkeypatch.setattr(model, "_seconds", lambda num_rows: timed.append(num_rows) or 1.0)
    found = []
    for threads in (31, 32, 31, 32):
        monkeypatch.setattr(fused.torch, "get_num_threads", lambda threads=threads: threads)
        model.forward(row, row, TreeCache(2, 1))
        found.append(len(timed))
    assert 0 < found[0] < found[1] == found[2] == found[3]


@pytest.mark.parametrize(("free", "threads"), [(2.0, 2), (1.2, 1)])
def test_between_passes_nobody_is_waited_for(monkeypatch, free: float, threads: int) -> None:
    """Where others hold a core all that is not a pass is done by one thread, of one text and of
    several; all threads are there for passes, and behind it, whatever is raised."""
    seen = []

    class Asked:
        model = None

        def answer(self) -> str:
            seen.append(("pass", torch.get_num_threads()))
            return "answer"

    def asking():
        for _ in range(2):
            seen.append(("between", torch.get_num_threads()))
            assert (yield Asked()) == "answer"
        seen.append(("between", torch.get_num_threads()))
        raise PlannerError("the end")

    monkeypatch.setattr(passes, "CORES", beside(free))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(PlannerError, match="the end"):
            passes.alone(asking())
        passes.together(
            [asking()], last=None, answer=lambda several: [each.answer() for each in several]
        )
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    step = [("between", threads), ("pass", 2)]
    assert seen == [*step * 2, ("between", threads)] * 2


def test_of_this_machine() -> None:
    free = FreeCores()
    assert free.now() == len(cores.allowed_cores())
    assert cores.busy_seconds() > 0
