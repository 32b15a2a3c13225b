"""The text on given plans beside what would be chosen, on given shapes, and on many plans: tables,
sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..optimizer.given import Standing
from ..optimizer.plan_table import PlanRow
from ..optimizer.shapes import Shapes
from .ranking_text import change, verdict
from .tables import Shown, table
from .words import short_names

CHOSEN = "what solve would choose"
ALONE = "not to speculate"


def comparison(standings: list[Standing], whose_times: str) -> list[Shown]:
    """All of them, the fastest first, and how good each given one is.

    whose_times  they are graded by, in words
    """
    headings = ["plan", "what it drafts", "verifier", "tokens per step", "step, ms", "speedup"]
    rows = table("", headings, map(_row, standings), num_left=3)
    best = standings[0]
    lines = [_sentence(each, best) for each in standings if each.name is not None]
    return [rows, "\n".join([*lines, f"Times are {whose_times}."])]


def shape_table(shapes: Shapes) -> list[Shown]:
    """A row for each tree under each verifier; what could not be graded, a line each."""
    headings = ["tree", "verifier", "nodes", "depth", "tokens per step", "step, ms", "speedup"]
    rows = [
        [
            name,
            one.verifier,
            f"{one.num_nodes:.0f}",
            f"{one.depth:.0f}",
            str(one.tokens_per_step),
            f"{one.step_ms.value:.2f}",
            str(one.speedup),
        ]
        for name, one in shapes.graded
    ]
    parts: list[Shown] = [table(str(shapes.sampling), headings, rows, num_left=2)]
    if shapes.refused:
        parts.append("\n".join(f"not graded: {each}" for each in shapes.refused))
    return parts


def plan_rows(rows: Sequence[PlanRow]) -> list[Shown]:
    """A row for each plan in the order of `rows`; above, what is alike in all; below, why there is
    no plan, a line each."""
    paths = list(dict.fromkeys(Path(row.profile) for row in rows))
    names = dict(zip(paths, short_names(paths), strict=True))
    cells = [_conditions(row) | {"profile": names[Path(row.profile)]} for row in rows]
    alike = {name for name, cell in cells[0].items() if all(each[name] == cell for each in cells)}
    apart = [name for name in cells[0] if name not in alike]
    above = [f"{name} {cell}" for name, cell in cells[0].items() if name in alike and cell]
    found = [
        [*map(each.__getitem__, apart), row.plan, str(row.tokens_per_step), str(row.speedup)]
        for row, each in zip(rows, cells, strict=True)
        if row.plan is not None
    ]
    missing = [
        " ".join(["no plan:", *(f"{name} {each[name]}," for name in apart), row.no_plan])
        for row, each in zip(rows, cells, strict=True)
        if row.no_plan is not None
    ]
    headings = [*apart, "plan", "tokens per step", "speedup"]
    parts: list[Shown] = [", ".join(above)] if above else []
    parts += [table("", headings, found, num_left=len(apart) + 1)] if found else []
    return [*parts, "\n".join(missing)] if missing else parts


def _conditions(row: PlanRow) -> dict[str, str]:
    """The names that tell a row from others; the plan's verifier, if there is a plan."""
    asked = row.asked
    return {
        "profile": row.profile,
        "draft": row.draft,
        "T": f"{asked.temperature:g}",
        "batch": str(asked.batch_size),
        "context": "" if asked.context is None else str(asked.context),
        "solver": asked.solver,
        "verifier": row.plan_verifier or asked.verifier,
    }


def name_of(standing: Standing) -> str:
    """The file of a given plan; what the other is."""
    return standing.name or (CHOSEN if standing.is_chosen else ALONE)


def _row(standing: Standing) -> list[str]:
    one = standing.candidate
    what = [one.drafting.words(), one.verifier] if one.speculates else ["nothing", ""]
    times = [str(one.tokens_per_step), f"{one.step_ms.value:.2f}", str(one.speedup)]
    return [name_of(standing), *what, *times]


def _sentence(standing: Standing, best: Standing) -> str:
    one, against = standing.candidate, standing.against_best
    worth = f"speedup {one.speedup} against not speculating{verdict(one.speedup)}"
    if not one.speculates:
        worth = "does not speculate"
    if against is None:
        equal = ", and what solve would choose" if standing.is_chosen else ""
        return f"{standing.name}: {worth}; the fastest of these{equal}."
    speed = change(against.speed, "faster", "slower", "equally fast")
    return f"{standing.name}: {worth}; beside {name_of(best)}, {speed}{verdict(against.speed)}."
