"""All rows, printed for people or as data."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby

from ..tables import WIDTH, watched
from .ground import Ground
from .row import PaperRow, RowNumber, RowResult

Outcome = tuple[PaperRow, RowResult | str]
_INDENT = 12


def outcomes(rows: Iterable[PaperRow], ground: Ground) -> list[Outcome]:
    """Every row with its result, or with why there is none."""
    found = []
    with watched("rows") as status:
        for row in rows:
            status.update(f"{row.paper}: {row.name}")
            found.append((row, row.result(ground)))
    return found


def agree(found: Iterable[Outcome]) -> bool:
    """Does everything hold that must, whatever the models?"""
    return all(isinstance(result, RowResult) and result.holds for row, result in found if row.exact)


def as_text(found: Sequence[Outcome]) -> str:
    """Two lines a row, or more: what it says, and what came of it; a paper's below its name."""
    parts = []
    for paper, rows in groupby(found, key=lambda each: each[0].paper):
        parts.append("\n".join([paper, *(_lines(row, result) for row, result in rows)]))
    computed = sum(isinstance(result, RowResult) for _, result in found)
    verdict = "everything exact agrees" if agree(found) else "NOT everything exact agrees"
    parts.append(f"{computed} of {len(found)} rows computed; {verdict}")
    return "\n\n".join(parts)


def as_json(found: Sequence[Outcome]) -> str:
    """A list with an object a row; a row without a result says why."""
    return json.dumps([_content(row, result) for row, result in found], indent=1)


def _lines(row: PaperRow, result: RowResult | str) -> str:
    if isinstance(result, str):
        return _filled(row.name, row.statement) + "\n" + _filled("  -", result)
    numbers = _words(result.numbers) + (f"; {result.note}" if result.note else "")
    verdict = _verdict(row, result.holds)
    return (
        _filled(row.name, row.statement)
        + "\n"
        + _filled(f"  {verdict}", f"{numbers} [{result.source}]")
    )


def _verdict(row: PaperRow, holds: bool | None) -> str:
    if holds is None:
        return "?"
    return (
        {True: "agrees", False: "FAILS"}[holds] if row.exact else {True: "yes", False: "no"}[holds]
    )


def _words(numbers: Iterable[RowNumber]) -> str:
    """The numbers that are shown, those under one condition behind it."""
    shown = [number for number in numbers if number.shown]
    groups = []
    for where, several in groupby(shown, key=lambda each: each.where):
        words = ", ".join(map(_number, several))
        groups.append(f"{where}: {words}" if where else words)
    return "; ".join(groups)


def _number(number: RowNumber) -> str:
    unit = f" {number.unit}" if number.unit else ""
    beside = "" if number.printed is None else f" ({_rounded(number.printed)})"
    return f"{number.what} {_rounded(number.computed)}{unit}{beside}"


def _rounded(value: float) -> str:
    """Three digits or so; a count as it is."""
    if value == round(value) and abs(value) > 1:
        return f"{value:.0f}"
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 100 else 0
    return f"{round(value, digits) + 0.0:.{digits}f}"  # never -0.000


def _filled(name: str, words: str) -> str:
    indent = " " * _INDENT
    return textwrap.fill(
        words, WIDTH, initial_indent=f"{name:<{_INDENT}}", subsequent_indent=indent,
        break_on_hyphens=False,
    )  # fmt: skip


def _content(row: PaperRow, result: RowResult | str) -> dict[str, object]:
    said: dict[str, object] = {
        "paper": row.paper, "name": row.name, "statement": row.statement, "exact": row.exact,
    }  # fmt: skip
    if isinstance(result, str):
        return said | {"reason": result}
    numbers = [
        {
            "what": n.what,
            "where": n.where,
            "unit": n.unit,
            "computed": float(n.computed),
            "printed": n.printed,
        }
        for n in result.numbers
    ]
    found = {"source": result.source, "holds": result.holds, "note": result.note}
    return said | found | {"numbers": numbers}
