"""The lines that an export says to the person who asked for it."""

from __future__ import annotations

from collections.abc import Sequence

from ..plans.plan import Plan
from .words import percent, summary


def exported(own: Plan, theirs: Plan | None, engine: str, notes: Sequence[str]) -> list[str]:
    """Lines: what the engine will do, what that costs against the plan itself, what to know.

    own     the plan
    theirs  what the engine will do, as a plan of ours; None where nothing was planned
    """
    lines = []
    if theirs is not None:
        lines.append(f"{engine}: {summary(theirs)}")
        lines.append(_loss(own, theirs))
        if theirs.predicted is not None:
            lines.append(f"note: predicted with times of this runtime; those of {engine} differ")
    return [*lines, *(f"note: {note}" for note in notes)]


def _loss(own: Plan, theirs: Plan) -> str:
    if theirs.predicted is None:
        return "note: nothing is predicted of it"
    if own.predicted is None or own.made_from is None:
        return "note: what it loses against the plan itself is not known"
    ours, other = own.predicted.speedup.value, theirs.predicted.speedup.value
    if other >= ours:
        return f"the plan itself: speedup {ours:.2f}; nothing is lost by the change"
    return f"the plan itself: speedup {ours:.2f}; {percent(1 - other / ours)} of its speed is lost"
