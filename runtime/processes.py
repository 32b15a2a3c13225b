"""Processes that compute together: how they begin, what they are told, how they end.

The first of them leads, and starts the others on its own machine; or torchrun has started all, on
one machine or several.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any

import torch
import torch.distributed as dist

from planner.documents.errors import PlannerError

LOCAL = "127.0.0.1"
LEASE = timedelta(days=365)
"""How long followers wait to be told something."""


class Processes:
    """This process and those that compute with it.

    size      how many there are
    rank      which of them this one is; 0 leads
    children  the others, where this one has started them
    """

    def __init__(self, size: int, rank: int, children: Sequence[subprocess.Popen[bytes]]) -> None:
        self.size, self.rank = size, rank
        self.over = False
        self.turn = threading.Lock()
        """Held by the thread whose pass all make."""
        self._children = children
        self._on_hosts = dist.new_group(backend="gloo", timeout=LEASE)
        self._numbers = count()
        self._gone: list[int] = []
        if rank == 0:
            atexit.register(self.end)

    def number_of(self, thing: object) -> int:
        """A number under which the others keep their part of `thing`, until that is gone here."""
        number = next(self._numbers)
        weakref.finalize(thing, self._gone.append, number).atexit = False
        return number

    def tell(self, what: object) -> None:
        """Send `what` to the others, with the numbers of what is gone."""
        gone = self._gone[:]
        del self._gone[: len(gone)]  # what goes meanwhile is told the next time
        dist.broadcast_object_list([(gone, what)], src=0, group=self._on_hosts)

    def told(self) -> tuple[list[int], Any]:
        """The leader's words: the numbers of what is gone, and what there is to do."""
        received: list[Any] = [None]
        dist.broadcast_object_list(received, src=0, group=self._on_hosts)
        gone, what = received[0]
        return gone, what

    def all_say(self, what: object) -> list[Any]:
        """Each process's words, in the order of their ranks; all say theirs at the same time."""
        said: list[Any] = [None] * self.size
        dist.all_gather_object(said, what, group=self._on_hosts)
        return said

    def end(self, *, in_step: bool = True) -> None:
        """Let the others end.

        in_step  they wait to be told something; otherwise they are in the middle of something, and
                 those that this process has started are stopped
        """
        if self.over:
            return
        self.over = True
        atexit.unregister(self.end)
        if in_step and self.rank == 0:
            with suppress(RuntimeError):
                self.tell(None)
        for child in self._children:
            if not in_step:
                child.kill()
            assert child.stdin is not None
            child.stdin.close()
            child.wait()
        dist.destroy_process_group()


def num_launched() -> int:
    """How many processes torchrun has started; 1: it has not started this one."""
    return int(os.environ.get("WORLD_SIZE", "1")) if dist.is_torchelastic_launched() else 1


def start(size: int, device: torch.device) -> Processes:
    """The processes, of which this one leads unless torchrun has made it another.

    Raises PlannerError where so many cannot be.
    """
    if num_launched() > 1:
        if num_launched() != size:
            raise PlannerError(
                f"tensor parallel: got {size}, expected the {num_launched()} processes that "
                "torchrun has started"
            )
        return join(int(os.environ["RANK"]), size, device)
    server = dist.TCPStore(LOCAL, 0, size, is_master=True, wait_for_workers=False)
    children = [_child(rank, size, device, server.port) for rank in range(1, size)]
    try:
        _wait_for(server, children)
        return join(0, size, device, server, children)
    except BaseException:
        for child in children:
            child.kill()
            child.wait()
        raise


def join(
    rank: int,
    size: int,
    device: torch.device,
    store: dist.Store | None = None,
    children: Sequence[subprocess.Popen[bytes]] = (),
) -> Processes:
    """This process, once all have met.

    store     where they meet; None: where torchrun says
    children  those of them that this process has started
    """
    backend = "gloo"
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
        backend = "nccl"
    if not dist.is_initialized():
        own = device if backend == "nccl" else None
        if store is None:
            dist.init_process_group(backend, device_id=own)
        else:
            dist.init_process_group(backend, store=store, rank=rank, world_size=size, device_id=own)
    return Processes(size, rank, children)


def _child(rank: int, size: int, device: torch.device, port: int) -> subprocess.Popen[bytes]:
    """Another process, which a signal from the terminal does not reach: this one ends it."""
    own = {"LOCAL_RANK": str(rank), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-m", "runtime.follower", *map(str, (rank, size, device.type, port))],
        env=os.environ | own, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip


def arrived(rank: int) -> str:
    """The word in the store that a process leaves when it is there."""
    return f"arrived/{rank}"


def _wait_for(store: dist.Store, children: Sequence[subprocess.Popen[bytes]]) -> None:
    words = [arrived(rank) for rank in range(1, len(children) + 1)]
    while not store.check(words):
        for child in children:
            if child.poll() is not None:
                raise PlannerError(
                    "tensor parallel: a process that was started has ended at once, with status "
                    f"{child.returncode}; what it said is above"
                )
        time.sleep(0.02)
