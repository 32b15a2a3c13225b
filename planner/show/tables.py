"""The parts that everything that is shown to a person is made of."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.status import Status
from rich.table import Table as RichTable
from rich.text import Text

from .words import percent

WIDTH = 110
"""Columns of what is printed."""

MOST_GROUPS = 10
"""Columns of a table of shares, at most."""


@dataclass(frozen=True)
class Named:
    """Lines with a name each; those that say nothing are left out."""

    lines: Mapping[str, str]
    width: int
    """Columns of the names."""
    pasted: tuple[str, ...] = ()
    """Names of lines that are there to be pasted, and so are never broken."""

    @property
    def said(self) -> dict[str, str]:
        """The lines that say something."""
        return {name: words for name, words in self.lines.items() if words}

    def __rich__(self) -> RenderableType:
        return Group(*(self._line(name, words) for name, words in self.said.items()))

    def _line(self, name: str, words: str) -> RenderableType:
        first = f"{name:<{self.width}}"
        if name in self.pasted:
            return Text(first + words, no_wrap=True, overflow="ignore")
        later = " " * self.width
        return textwrap.fill(
            words, WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False
        )


@dataclass(frozen=True)
class Table:
    """A table without lines; its first `num_left` columns hold words, the others numbers."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    num_left: int = 1
    gap: int = 2
    """Columns between two of it."""

    def __rich__(self) -> RenderableType:
        made = RichTable(box=None, padding=(0, self.gap, 0, 0))
        for index, heading in enumerate(self.headings):
            is_number = index >= self.num_left
            side: Literal["left", "right"] = "right" if is_number else "left"
            made.add_column(heading, justify=side, no_wrap=is_number, overflow="fold")
        for row in self.rows:
            made.add_row(*row)
        return Group(self.title, made) if self.title else made


Shown = str | Named | Table
"""A part of what is shown."""


def printed(parts: Iterable[Shown]) -> str:
    """The parts below one another, an empty line between any two, as plain text."""
    console = Console(
        width=WIDTH, color_system=None, highlight=False, markup=False, emoji=False,
        force_jupyter=False,
    )  # fmt: skip
    texts = []
    for part in parts:
        with console.capture() as capture:
            console.print(part, crop=False)
        texts.append("\n".join(line.rstrip() for line in capture.get().splitlines()))
    return "\n\n".join(texts)


def watched(what: str) -> Status:
    """A line on stderr, where that is a terminal, that can be updated and goes away in the end."""
    return Console(stderr=True).status(what)


def table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    num_left: int = 1,
    gap: int = 2,
) -> Table:
    """A `Table` of any rows; those that are shorter than the headings end in empty cells."""
    width = len(headings)
    full = (tuple(row) + ("",) * (width - len(row)) for row in rows)
    return Table(title, tuple(headings), tuple(full), num_left, gap)


def shares_table(what: str, rows: Mapping[str, Sequence[float]]) -> Table:
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
