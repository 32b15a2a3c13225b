"""A document as `planner show` prints it: the answer, and below it what fits a screen or all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..plans.check import Check
from ..plans.plan import Plan
from ..plans.report import Report
from .advice import advice_on
from .document_text import DISPLAYS, Showable, render
from .tables import Named, Shown, Table, printed

SMALL = 16
"""Rows of a plan's tree that the short view has room for."""


def view(document: Showable, path: Path, *, every: bool = False) -> list[Shown]:
    """The advice on the document in the file `path`, and what belongs below it.

    every  all of its parts, instead of those that fit a screen
    """
    advice = advice_on(document, path)
    parts = DISPLAYS[type(document)](document)
    if not every:
        parts = BRIEF.get(type(document), list)(parts)
    return [*([advice.shown] if advice else []), *parts]


def told(document: Showable, path: Path | None) -> str:
    """All of it as text; without advice where it is in no file yet that a command could name."""
    return render(document) if path is None else printed(view(document, path, every=True))


def _advised(parts: list[Shown]) -> list[Shown]:
    """The parts without the line that the advice has in other words."""
    first, *others = parts
    assert isinstance(first, Named)
    return [replace(first, lines={k: v for k, v in first.lines.items() if k != "plan"}), *others]


def _plan_in_brief(parts: list[Shown]) -> list[Shown]:
    """The origin of a plan, and its tree where that is small, or how its trees grow."""
    last = parts[-1]
    room = not isinstance(last, Table) or len(last.rows) <= SMALL
    return _advised([parts[0], *([last] if room and len(parts) > 1 else [])])


def _report_in_brief(parts: list[Shown]) -> list[Shown]:
    """The run and its numbers."""
    return _advised(parts[:2])


BRIEF: dict[type, Callable[[list[Shown]], list[Shown]]] = {
    Plan: _plan_in_brief,
    Report: _report_in_brief,
    Check: _advised,
}
"""The parts that fit a screen, where not all do."""
