"""A process that follows: `python -m runtime.follower RANK SIZE DEVICE PORT`, started by
`runtime.processes`.  It ends with the process that started it, which holds its standard input."""

from __future__ import annotations

import os
import sys
import threading

import torch
import torch.distributed as dist

from planner.documents.errors import PlannerError

from .processes import LOCAL, arrived, join
from .tensor_parallel import follow


def _ends_with_its_leader() -> None:
    while os.read(sys.stdin.fileno(), 1):  # a buffered read would abort a process that fails
        pass
    os._exit(0)


def main(rank: int, size: int, device: torch.device, port: int) -> None:
    """Follow until the leader ends."""
    threading.Thread(target=_ends_with_its_leader, daemon=True).start()
    store = dist.TCPStore(LOCAL, port, size, is_master=False)
    store.set(arrived(rank), "")
    follow(join(rank, size, device, store))


if __name__ == "__main__":
    number, size, device, port = sys.argv[1:]
    try:
        main(int(number), int(size), torch.device(device), int(port))
    except PlannerError as error:
        sys.exit(f"error: {error}")
