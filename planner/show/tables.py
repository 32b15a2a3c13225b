"""The parts that everything that is printed for a person is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from rich.console import Console, Group, RenderableType
from rich.status import Status
from rich.table import Table

from .words import percent

Shown = RenderableType
"""What can be printed: a string, a table, or several of them."""

MOST_GROUPS = 10
"""Columns of a table of shares, at most."""


def printed(parts: Iterable[Shown]) -> str:
    """The parts below one another, an empty line between any two, as plain text."""
    console = Console(width=110, color_system=None, highlight=False, markup=False, emoji=False)
    texts = []
    for part in parts:
        with console.capture() as capture:
            console.print(part)
        texts.append("\n".join(line.rstrip() for line in capture.get().splitlines()))
    return "\n\n".join(texts)


def watched(what: str) -> Status:
    """A line on stderr, where that is a terminal, that can be updated and goes away in the end."""
    return Console(stderr=True).status(what)


def named(lines: Mapping[str, str], width: int) -> str:
    """A line for each that says something, behind its name in a column so wide."""
    return "\n".join(f"{name:<{width}}{words}" for name, words in lines.items() if words)


def table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    num_left: int = 1,
    gap: int = 2,
) -> Shown:
    """A table without lines; its first `num_left` columns hold words, the others numbers."""
    made = Table(box=None, padding=(0, gap, 0, 0))
    for index, heading in enumerate(headings):
        made.add_column(heading, justify="left" if index < num_left else "right")
    for row in rows:
        made.add_row(*row)
    return Group(title, made) if title else made


def shares_table(what: str, rows: Mapping[str, Sequence[float]]) -> Shown:
    """Shares by a count from the first to the last that occur, neighbours joined if these are many.

    rows  by name: entry c is the share at count c; what lies behind the last is 0
    """
    columns = list(zip_longest(*rows.values(), fillvalue=0.0))
    first = next((count for count, shares in enumerate(columns) if max(shares) > 0), 0)
    end = len(columns)
    size = max(1, -(-(end - first) // MOST_GROUPS))
    groups = [range(start, min(start + size, end)) for start in range(first, end, size)]
    names = [str(each[0]) if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in groups]
    cells = [
        [name, *(percent(sum(columns[count][place] for count in each)) for each in groups)]
        for place, name in enumerate(rows)
    ]
    return table("", [what, *names], cells)
