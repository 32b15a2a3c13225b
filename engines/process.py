"""A server of an engine's own: started, waited for, and gone when it is not needed any more."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from shutil import which
from threading import current_thread, main_thread
from time import monotonic, sleep

from planner.documents.document import PlannerError

PATIENCE_S = 600.0
"""A large model takes minutes to load."""
FIRST_S, MOST_S = 0.005, 0.1
"""Between the first two questions whether it is ready, and at most: every wait is half as long
again as the one before."""
POLITE_S = 10.0
"""Given to end by itself."""
PORTS, OWN_PORTS, ANY_PORT = range(10_000, 30_000), 1000, 0
"""Below those that systems give to programs that ask for any; so many are a process's own."""

_looked = count()


def program(name: str, folder: str | None, advice: str) -> str:
    """Path of a program.  Raises PlannerError, with `advice`, where there is none."""
    found = which(name, path=folder) if folder else which(name)
    if found is None:
        place = f"in {folder}" if folder else "on PATH"
        raise PlannerError(f"engine: got no program {name} {place}; {advice}")
    return found


def free_port() -> int:
    """A port of this machine that nobody listens on.

    Until a program listens there, another process that looks for a port may be given the same one,
    and its program answer for this one's.  So each process has ports of its own to look among.
    """
    first = PORTS.start + os.getpid() % (len(PORTS) // OWN_PORTS) * OWN_PORTS
    own = (first + next(_looked) % OWN_PORTS for _ in range(OWN_PORTS))
    for port in chain(own, [ANY_PORT]):
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            return int(one.getsockname()[1])
    raise PlannerError("engine: got no free port of this machine, expected one to serve at")


@contextmanager
def served(
    command: Sequence[str], is_ready: Callable[[], bool], *, patience_s: float = PATIENCE_S
) -> Iterator[int]:
    """The process number of `command`, once `is_ready`; ended with all of its children behind.

    Raises PlannerError with the last line that it printed where it ends before it is ready, or is
    not after `patience_s`.
    """
    name = Path(command[0]).name
    with tempfile.TemporaryFile() as log, leaving_nothing():
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        except OSError as error:
            raise PlannerError(f"engine: {command[0]} cannot be run: {error.strerror}") from None
        try:
            until, pause = monotonic() + patience_s, FIRST_S
            while not is_ready():
                if process.poll() is not None:
                    raise PlannerError(
                        f"engine: {name} ended with status {process.returncode} before it was "
                        f"ready: {_last_words(log.fileno())}"
                    )
                if monotonic() > until:
                    raise PlannerError(
                        f"engine: {name} was not ready after {patience_s:.0f} s: "
                        f"{_last_words(log.fileno())}"
                    )
                sleep(pause)
                pause = min(1.5 * pause, MOST_S)
            yield process.pid
        finally:
            _end(process)


@contextmanager
def leaving_nothing() -> Iterator[None]:
    """A SIGTERM becomes an exception, as Ctrl-C does, so that what was started is ended too."""
    if current_thread() is not main_thread():  # where signals cannot be handled
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(process: subprocess.Popen[bytes]) -> None:
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
        except ProcessLookupError:
            break
        try:
            process.wait(POLITE_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _last_words(log: int) -> str:
    """The last line that says anything, of an error if there is one, and of that which caused it
    where another only points there (vLLM)."""
    os.lseek(log, 0, os.SEEK_SET)
    text = os.read(log, 1 << 22).decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line for line in lines if "root cause above" not in line]
    wrong = [line for line in said if "error" in line.lower() or "invalid" in line.lower()]
    return (wrong or lines or ["it printed nothing"])[-1][:300]


def cpu_ms(process: int | None) -> float | None:
    """Milliseconds that all threads of a process have had a processor; None where nobody tells."""
    if process is None:
        return None
    try:
        threads = list(Path(f"/proc/{process}/task").iterdir())
        return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e6
    except (OSError, ValueError):
        return None
