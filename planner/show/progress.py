"""The work that is being done right now, on stderr, where somebody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def watched(what: str) -> Iterator[Callable[[str], None]]:
    """A line on stderr that goes away in the end, and who to tell what it should say next.

    Nothing is written where stderr is no terminal.
    """
    with Console(stderr=True).status(what) as status:
        yield status.update
