"""Other programs' share of the machine is seen, and disturbed pieces are taken again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from time import process_time

import numpy as np
import pytest

from planner.cli.models import free_threads
from planner.documents.surroundings import Surroundings, beside_words, share_of_others
from profiler import measure
from profiler.disturbance import BESIDE, Beside, core_seconds, free_cores, watched
from profiler.journal import Journal, Piece
from profiler.measure import MOST_AGAIN, Progress

WORK = "from time import process_time\nwhile process_time() < {}: pass"


def work(seconds: float) -> None:
    end = process_time() + seconds
    while process_time() < end:
        pass


def piece() -> Piece:
    work(0.05)
    return {"ms": np.ones(2)}


def test_work_of_this_process_and_of_those_it_started_is_its_own() -> None:
    busy, own = core_seconds()
    work(0.5)
    subprocess.run([sys.executable, "-c", WORK.format(0.5)], check=True)
    busy_then, own_then = core_seconds()
    assert own_then - own >= 0.9
    assert busy_then - busy >= 0.9


def test_work_of_others_is_theirs() -> None:
    # a grandchild whose parent has ended belongs to nobody here
    start = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WORK.format(2)!r}])"

    def measure() -> Piece:
        subprocess.run([sys.executable, "-c", start], check=True)
        work(1.0)
        return {}

    seconds, others, *_ = watched(measure)[BESIDE]
    assert others * seconds > 0.2


@pytest.mark.parametrize(("free", "threads"), [(3.9, 4), (3.1, 3), (0.4, 1), (-0.2, 1), (7.6, 4)])
def test_no_more_threads_than_free_cores(monkeypatch, capsys, free: float, threads: int) -> None:
    monkeypatch.setattr("profiler.disturbance.free_cores", lambda: free)
    assert free_threads(4) == threads
    said = capsys.readouterr().err
    assert said == "" if threads == 4 else "instead of 4; --threads 4 takes all" in said


def test_the_system_says_which_cores_are_free() -> None:
    assert -0.1 <= free_cores(0.5) <= (os.cpu_count() or 1)


@pytest.mark.parametrize("clock", [None, OSError])
def test_a_system_that_tells_no_clock(monkeypatch, clock) -> None:
    def told():
        if clock is OSError:
            raise OSError
        return clock

    monkeypatch.setattr("psutil.cpu_freq", told)
    assert Beside(*watched(piece)[BESIDE]).clock_mhz == 0.0


def seen(monkeypatch: pytest.MonkeyPatch, others: list[float]) -> Callable[..., Piece]:
    """`watched`, as if pieces took a second each and others took so many cores beside them."""
    left: Iterator[float] = iter(others)

    def made(measure: Callable[[], Piece]) -> Piece:
        cores = next(left)
        return measure() | {"ms": np.array(cores), BESIDE: np.array(Beside(1.0, cores))}

    monkeypatch.setattr(measure, "watched", made)
    return made


def test_a_disturbed_piece_is_taken_again_and_the_better_one_kept(monkeypatch) -> None:
    seen(monkeypatch, [0.0, 0.02, 0.0, 0.0, 0.9, 0.3, 0.8, 0.0])
    with Progress({}, Journal(None, {})) as progress:
        pieces = [progress.timed(f"times-{number}", piece) for number in range(6)]
    # the second disturbed one came too soon behind the first to be taken again
    assert [float(each["ms"]) for each in pieces] == [0.0, 0.02, 0.0, 0.0, 0.3, 0.8]
    assert [each.others for each in progress.surroundings] == [0.0, 0.02, 0.0, 0.0, 0.3, 0.8]
    assert [each.again for each in progress.surroundings] == [False] * 4 + [True, False]
    assert all(BESIDE not in each for each in pieces)


def test_measuring_again_keeps_within_its_share(monkeypatch) -> None:
    seen(monkeypatch, [1.0] * 100)
    with Progress({}, Journal(None, {})) as progress:
        for number in range(40):
            progress.timed(f"times-{number}", piece)
    assert sum(each.again for each in progress.surroundings) == MOST_AGAIN * 40


def test_what_was_seen_is_kept_with_the_piece(monkeypatch, tmp_path) -> None:
    seen(monkeypatch, [0.7])
    for _ in range(2):
        with Progress({}, Journal(tmp_path / "profile.json", {})) as progress:
            progress.timed("times-0", piece)
        assert [each.others for each in progress.surroundings] == [0.7]


def test_the_share_of_others_counts_disturbed_pieces_by_their_time() -> None:
    quiet = Surroundings(piece="times-0", seconds=3.0, others=0.1)
    loud = Surroundings(piece="times-1", seconds=1.0, others=2.0)
    assert share_of_others([], 2) == 0
    assert share_of_others([quiet], 2) == 0
    assert share_of_others([loud], 2) == pytest.approx(0.5)
    assert share_of_others([quiet, loud], 2) == pytest.approx(0.125)


def test_the_words_say_how_quiet_it_was() -> None:
    quiet = Surroundings(piece="times-0", seconds=3.0, others=0.02)
    loud = Surroundings(piece="times-1", seconds=1.0, others=0.9)
    assert beside_words([]) == ""
    assert beside_words([quiet]).endswith("took 0.02 cores while times were measured: quiet")
    words = beside_words([quiet, loud])
    assert "took 0.24 cores" in words
    assert "up to 0.90: 1 of 2 pieces are disturbed" in words
    assert "clocks" not in words
    slower = [
        each.model_copy(update={"clock_mhz": mhz}) for each, mhz in ((quiet, 3000), (loud, 2400))
    ]
    assert "while times were measured, at clocks from 2.40 to 3.00 GHz" in beside_words(slower)
