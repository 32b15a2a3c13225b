"""Cores that other programs hold are seen while decoding, and are not waited for."""

from __future__ import annotations

import pytest
import torch

from runtime import cores, fused
from runtime.cache import TreeCache
from runtime.compiled_pass import WholePass
from runtime.cores import EVERY, FreeCores
from runtime.fused import MOST_ROWS, FusedModel
from tests.runtime.small_models import small_model
from tree_kernels.host.team import Team


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
    machine.passes(EVERY / 2, others=3)
    assert free.now() == 4
    machine.passes(EVERY / 2, others=3)
    assert free.now() == pytest.approx(1)
    machine.passes(EVERY, others=0.5)
    assert free.now() == pytest.approx(3.5)
    assert machine.looks == 3


def test_what_happened_in_a_long_pause_is_not_what_happens_now(machine) -> None:
    """Say, another engine's turn."""
    free = FreeCores()
    machine.passes(3 * EVERY, others=3)
    assert free.now() == 4
    machine.passes(EVERY, others=1)
    assert free.now() == pytest.approx(3)


def test_what_others_do_while_it_is_their_turn_is_not_what_they_do_beside(machine) -> None:
    """Short texts in turns with another program's: no look has a turn of the other between it and
    the one before; a program beside both is seen in the first text that is long enough."""
    free = FreeCores()
    for _ in range(10):
        for _ in range(3):
            machine.passes(EVERY / 10, others=0)
            assert free.now() == 4
        machine.now += 0.7 * EVERY
        machine.busy += 0.7 * EVERY * 4
        assert free.now() == 4
    for _ in range(11):
        machine.passes(EVERY / 10, others=2)
        found = free.now()
    assert found == pytest.approx(2)
    machine.now += 10 * EVERY
    assert free.now() == pytest.approx(2)  # nothing else is known


def test_who_gets_little_of_its_core_does_not_pause(machine) -> None:
    """Long passes that others let have a quarter of the time: that is what is to be seen."""
    free = FreeCores()
    for _ in range(12):
        machine.now += EVERY / 4
        machine.own += EVERY / 16
        machine.busy += EVERY
        found = free.now()
    assert found == pytest.approx(0.25)


def test_a_look_that_takes_long_is_rare(machine) -> None:
    free = FreeCores()
    machine.look_seconds = EVERY / 10
    for _ in range(1000):
        machine.passes(EVERY / 10, others=0)
        free.now()
    assert machine.looks <= 3


@pytest.mark.parametrize(("free", "size"), [(4.0, 3), (2.6, 3), (2.4, 2), (0.3, 1), (-0.2, 1)])
def test_a_pass_has_no_more_threads_than_there_are_free_cores(free, size) -> None:
    whole = WholePass(small_model("llama"), 1e-6)
    whole.team = Team(3, 1, 2, 3, 4)
    assert whole.team_for(free) == Team(size, 1, 2, 3, 4)


def test_the_pass_over_a_prompt_does_not_hide_the_pause_before_it(machine, monkeypatch) -> None:
    """It is a long one, and not made by a team; who would ask behind it alone would see neither
    pause nor work, but half of each."""
    free = FreeCores()
    monkeypatch.setattr(fused, "CORES", free)
    model = FusedModel(small_model("llama"))
    model._whole.most_rows = 1
    for _ in range(10):
        machine.now += 0.7 * EVERY
        machine.busy += 0.7 * EVERY * 4  # another's turn
        cache = TreeCache(2, 128)
        for size in (MOST_ROWS + 1, 1, 1):
            tokens = torch.zeros(size, dtype=torch.int64)
            model.forward(tokens, tokens + torch.arange(size), cache)
            cache.append(size)
            machine.passes(EVERY / 4, others=0)
        assert free.now() == 4


def test_of_this_machine() -> None:
    free = FreeCores()
    assert free.now() == len(cores.allowed_cores())
    assert cores.busy_seconds() > 0
