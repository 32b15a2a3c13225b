"""The parts that everything that is printed for a person is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

Shown = RenderableType
"""What can be printed: a string, a table, or several of them."""


def printed(parts: Iterable[Shown]) -> str:
    """The parts below one another, an empty line between any two, as plain text."""
    console = Console(width=110, color_system=None, highlight=False, markup=False, emoji=False)
    texts = []
    for part in parts:
        with console.capture() as capture:
            console.print(part)
        texts.append("\n".join(line.rstrip() for line in capture.get().splitlines()))
    return "\n\n".join(texts)


def table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, num_left: int = 1
) -> Group:
    """A table without lines; its first `num_left` columns hold words, the others numbers."""
    made = Table(box=None, padding=(0, 2, 0, 0))
    for index, heading in enumerate(headings):
        made.add_column(heading, justify="left" if index < num_left else "right")
    for row in rows:
        made.add_row(*row)
    return Group(Text(title), made)


def grouped(shares: Sequence[float], most: int = 10) -> list[tuple[str, range]]:
    """Counts from the first to the last that occur, joined until there are at most `most` groups:
    (name, the counts in it)."""
    first = next((count for count, share in enumerate(shares) if share > 0), 0)
    end = len(shares)
    size = max(1, -(-(end - first) // most))
    parts = [range(start, min(start + size, end)) for start in range(first, end, size)]
    return [(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}", part) for part in parts]
