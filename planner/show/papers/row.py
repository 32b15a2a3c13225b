"""A row: a table, a figure or a theorem of a paper, and what can be computed of it here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...documents.document import PlannerError
from .ground import Ground

PROFILE = "a profile"
"""The need of rows on a user's own models."""


@dataclass(frozen=True)
class RowNumber:
    """A computed number, beside the printed one where there is one to compare it with."""

    what: str
    computed: float
    printed: float | None = None
    where: str = ""
    """The condition that it holds under, such as a temperature."""
    shown: bool = True
    """Does it stand in the table?  In the data all do."""
    unit: str = ""


@dataclass(frozen=True)
class RowResult:
    """The numbers of a row."""

    source: str
    """The facts that they were computed from."""
    numbers: tuple[RowNumber, ...]
    holds: bool | None
    """Does what the paper says hold of them?  None where they cannot tell."""
    note: str = ""

    @classmethod
    def of(
        cls, source: str, numbers: Iterable[RowNumber], holds: bool | None, note: str = ""
    ) -> RowResult:
        """A result, as plain numbers."""
        return cls(source, tuple(numbers), None if holds is None else bool(holds), note)


@dataclass(frozen=True)
class PaperRow:
    """A table, figure or theorem."""

    paper: str
    name: str
    statement: str
    """The point of it, in a sentence that may be true or false."""
    needs: str = ""
    """The thing that it cannot be computed without, beside this program."""
    compute: Callable[[Ground], RowResult] | None = None
    """None: what it needs is not to be had here, or there is nothing to compute."""
    exact: bool = False
    """Is it mathematics, so that it must hold, whatever the models?"""

    def result(self, ground: Ground) -> RowResult | str:
        """The numbers, or in one clause why there are none."""
        if self.compute is None:
            return self.needs
        try:
            return self.compute(ground)
        except PlannerError as error:
            return str(error)
