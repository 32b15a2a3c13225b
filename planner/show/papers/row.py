"""A row: a table, a figure or a theorem of a paper, and what can be computed of it here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...documents.document import PlannerError
from .ground import Ground

PROFILE = "a profile"
"""The need of rows on a user's own models."""


@dataclass(frozen=True)
class Spot:
    """The place of a number in the picture of its row."""

    line: str
    """The name of the line, or of the bar, that it belongs to."""
    x: float = 0.0
    under: str = ""
    """The condition that the picture holds under: of several the first is drawn."""


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
    spot: Spot | None = None


@dataclass(frozen=True)
class Lines:
    """A picture of numbers as lines over what they depend on."""

    xlabel: str
    ylabel: str
    xscale: str = "linear"
    yscale: str = "linear"


@dataclass(frozen=True)
class Bars:
    """A picture of numbers as a bar each."""

    xlabel: str


@dataclass(frozen=True)
class Masks:
    """A picture of a tree's attention mask in the two orders of DySpec, for which no number of the
    row is needed."""

    num_nodes: int


@dataclass(frozen=True)
class Orders:
    """A picture of a tree whose nodes have their numbers in the two orders of DySpec, likewise."""

    num_nodes: int


Picture = Lines | Bars | Masks | Orders


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
    picture: Picture | None = None
    """The way in which it is drawn, if it is."""

    def result(self, ground: Ground) -> RowResult | str:
        """The numbers, or in one clause why there are none."""
        if self.compute is None:
            return self.needs
        try:
            return self.compute(ground)
        except PlannerError as error:
            return str(error)
