"""The page of metrics of an engine's server (Prometheus), and the counters that are read there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from planner.documents.document import PlannerError

from .asking import asked


class CounterNames(NamedTuple):
    """The names under which a server counts what it does speculatively."""

    steps: str
    """Passes of the target over drafted tokens."""
    drafted: str | None = None
    """None: it drafts as many tokens as it was told, always."""
    accepted: str | None = None
    """None: all but one a step, since no step goes without drafted tokens."""


class Counted(NamedTuple):
    """Counts that a page shows; those that it does not keep are 0."""

    steps: int
    drafted: int
    accepted: int

    def since(self, before: Counted) -> Counted:
        """The counts that were added behind `before`."""
        return Counted(*(now - then for now, then in zip(self, before, strict=True)))


def counted(engine: str, address: str, names: CounterNames, *, started: bool = True) -> Counted:
    """Counts of all that the server has done so far.

    engine   how errors call it
    started  has it answered a request yet?  Before that, counters may be missing on its page

    Raises PlannerError where the page cannot be had, and where a counter is missing on it.
    """
    try:
        with asked(engine, f"{address}/metrics") as answer:
            page = answer.read().decode(errors="replace")
    except PlannerError as error:
        raise PlannerError(f"{error}; it is asked for {address}/metrics") from None
    found = totals(page)
    missing = [name for name in names if name and name not in found]
    if missing and started:
        raise PlannerError(
            f"engine: the page of metrics of {engine} is without {', '.join(missing)}; expected "
            "them as vLLM 0.33 and SGLang 0.5.23 write them"
        )
    return Counted(*(int(found.get(name or "", 0)) for name in names))


def totals(page: str) -> Mapping[str, float]:
    """Every metric's value, summed over its labels."""
    found: dict[str, float] = {}
    for name, value in re.findall(r"^([\w:]+)(?:\{.*\})? ([-+.\deE]+)$", page, re.MULTILINE):
        found[name] = found.get(name, 0.0) + float(value)
    return found
