"""The forms that a document is shown in: text for a person, JSON, or a table as CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence

from ..documents.document import PlannerError
from .tables import Named, Shown, Table, printed

ESTIMATE = re.compile(r"(?P<value>\S+) \[(?P<low>\S+), (?P<high>\S+)\]")
"""A cell that holds a number with its interval."""


def as_json(parts: Sequence[Shown]) -> str:
    """A list with an object for every part: named lines by their names, a table by its title and
    rows (cells by their headings), text as it is.

    Numbers are as they are shown; the document itself holds all of their digits.
    """
    return json.dumps(list(map(_content, parts)), indent=1, ensure_ascii=False)


def as_csv(parts: Sequence[Shown]) -> str:
    """The first table with its headings.  Raises PlannerError where there is none."""
    first = next((part for part in parts if isinstance(part, Table)), None)
    if first is None:
        raise PlannerError("--csv: there is no table in what is shown; --all may show one")
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([first.headings, *first.rows])
    return text.getvalue().rstrip("\n")


FORMS: dict[str | None, Callable[[Sequence[Shown]], str]] = {
    None: printed,
    "json": as_json,
    "csv": as_csv,
}


def _content(part: Shown) -> object:
    if isinstance(part, Named):
        return part.said
    if isinstance(part, Table):
        rows = [dict(zip(part.headings, map(_value, row), strict=True)) for row in part.rows]
        return {"title": part.title, "rows": rows}
    return part


def _value(cell: str) -> object:
    """The number, or the number with its interval, that a cell shows; else its words."""
    estimate = ESTIMATE.fullmatch(cell)
    if estimate:
        return {name: _value(word) for name, word in estimate.groupdict().items()}
    try:
        return float(cell) if "." in cell else int(cell)
    except ValueError:
        return cell or None
