"""Threads of a team: each takes its part, and none goes on before all are there."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import numpy as np
import pytest
import torch
from numba import njit

from tree_kernels.host import team as teams
from tree_kernels.host.team import ALONE, borrowed, own_part, run_in_team, team_of, wait_for_all

ROUNDS = 200


@njit
def _count(work, team, rank):
    """A number of one's own becomes, in every round, one more than the sum of all before."""
    counts, before = work
    for _ in range(ROUNDS):
        before[rank] = counts.sum()
        wait_for_all(team)
        counts[rank] = before.max() + 1
        wait_for_all(team)


@njit
def _count_in_team(counts, before, team):
    if team.size == 1:
        _count((counts, before), team, 0)
    else:
        run_in_team(_count, (counts, before), team)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_nobody_overtakes(size):
    """A thread that went on too early would add an old sum, or one that is partly new."""
    torch.ones(2).sum()  # torch and its threads are there
    team = team_of(size)
    if team.size < size:
        pytest.skip("torch's OpenMP is not within reach here")
    counts, before = np.zeros(size, np.int64), np.zeros(size, np.int64)
    _count_in_team(counts, before, team)
    expected = 0
    for _ in range(ROUNDS):
        expected = (expected * size + 1) % 2**64
    assert (counts.view(np.uint64) == expected).all()


SHARED = """
import numpy as np, torch
from numba import njit
from tree_kernels.host.team import own_part, run_in_team, team_of

@njit
def share(work, team, rank):
    start, end = own_part(len(work[0]), 1, rank, team)
    for place in range(start, end):
        work[0][place] += team.size

@njit
def all_of(counts, team):
    run_in_team(share, (counts,), team)

torch.ones(2).sum()
counts = np.zeros(10)
all_of(counts, team_of(5))
print(*sorted({int(each) for each in counts}))
"""


def test_all_is_done_by_fewer_threads_than_were_asked_for():
    """OpenMP may have a limit, which nobody is told."""
    if team_of(2) == ALONE:
        pytest.skip("torch's OpenMP is not within reach here")
    environment = os.environ | {"OMP_THREAD_LIMIT": "3"}
    done = subprocess.run(
        [sys.executable, "-c", SHARED], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["3"]


@pytest.mark.parametrize("unit", [1, 4, 16])
@pytest.mark.parametrize("num_threads", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [0, 1, 5, 16, 33, 100])
def test_parts_are_all_and_none_twice(size, num_threads, unit):
    team = ALONE._replace(size=num_threads)
    parts = [own_part(size, unit, rank, team) for rank in range(num_threads)]
    assert [place for start, end in parts for place in range(start, end)] == list(range(size))
    assert all(start % unit == 0 for start, end in parts if start < end)


def test_without_its_library_a_team_is_one(monkeypatch):
    monkeypatch.setattr(teams, "_addresses", tuple)
    assert team_of(4) == ALONE


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("7f00-7f01 r-xp 0 fe:00 5 /opt/torch/lib/libgomp.so.1\n", "/opt/torch/lib/libgomp.so.1"),
        ("7f r-xp 0 0 5 /a b/libgomp-a34b.so.1.0.0\n8f r 0 0 6 /c\n", "/a b/libgomp-a34b.so.1.0.0"),
        ("7f r-xp 0 0 5 /opt/lib/libiomp5.so", "/opt/lib/libiomp5.so"),
        ("7f r-xp 0 0 5 /opt/lib/libgomplete/x.so", None),
        ("7f rw-p 0 0 0 \n", None),
    ],
)
def test_libraries_are_found_among_what_is_mapped(line, found):
    match = teams.LIBRARIES.search(line)
    assert (match and match[0]) == found


def test_a_library_that_was_replaced_meanwhile_is_passed_over(monkeypatch):
    gone = types.SimpleNamespace(
        exists=lambda: True, read_text=lambda: "7f /gone/libgomp.so.1 (deleted)"
    )
    monkeypatch.setattr(teams, "Path", lambda path: gone)
    assert teams._addresses.__wrapped__() == ()


@njit
def _move(work):
    numbers, (factor, out) = borrowed(work)
    for row in range(len(out)):
        line, given = out[row], numbers[row]
        for place in range(len(line)):
            line[place] = factor * given[place]


def test_borrowed_arrays_are_the_same_ones():
    """Alone and in tuples; none is kept, and none is given back that was not taken."""
    numbers, out = np.arange(12.0).reshape(3, 4), np.zeros((3, 4))
    counted = []
    for factor in (3.0, 5.0, 7.0):
        _move((numbers, (factor, out)))
        assert (out == factor * numbers).all()
        counted.append((sys.getrefcount(numbers), sys.getrefcount(out)))
    assert counted[1] == counted[2]
