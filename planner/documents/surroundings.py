"""Other programs beside a measurement, and how a profile speaks of them."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from .document import Part

DISTURBED = 0.1
"""Cores taken by others, from which on a piece of a measurement is marked."""
STEADY = 1.05
"""The quickest clock over the slowest, from which on a change of it is told."""


class Surroundings(Part):
    """Other programs on this process's cores while one piece of a profile's times was taken."""

    piece: str
    seconds: float = Field(ge=0, description="that the piece took")
    others: float = Field(
        ge=0,
        description="cores that others held on average; a virtual machine's host counts as one",
    )
    clock_mhz: float = Field(
        default=0.0, ge=0, description="the cores' mean clock; 0 where the system does not tell"
    )
    again: bool = Field(
        default=False, description="taken twice, of which this is the less disturbed one"
    )

    @property
    def is_disturbed(self) -> bool:
        return self.others > DISTURBED


def share_of_others(surroundings: Sequence[Surroundings], num_threads: int) -> float:
    """The share of the cores in use that others held, over all times: what a time may be off by.

    Pieces that are not disturbed count as quiet.  0 where nobody looked.
    """
    seconds = sum(each.seconds for each in surroundings)
    taken = sum(
        each.seconds * each.others / (each.others + num_threads)
        for each in surroundings
        if each.is_disturbed
    )
    return taken / seconds if seconds else 0.0


def beside_words(surroundings: Sequence[Surroundings]) -> str:
    """A line on how quiet it was; empty where nobody looked."""
    seconds = sum(each.seconds for each in surroundings)
    if not seconds:
        return ""
    mean = sum(each.seconds * each.others for each in surroundings) / seconds
    line = f"other programs took {mean:.2f} cores while times were measured"
    clocks = [each.clock_mhz for each in surroundings if each.clock_mhz]
    if clocks and max(clocks) > STEADY * min(clocks):
        line += f", at clocks from {min(clocks) / 1e3:.2f} to {max(clocks) / 1e3:.2f} GHz"
    disturbed = [each for each in surroundings if each.is_disturbed]
    if not disturbed:
        return f"{line}: quiet"
    worst = max(each.others for each in disturbed)
    return (
        f"{line}, up to {worst:.2f}: {len(disturbed)} of {len(surroundings)} pieces are disturbed; "
        "profile again while nothing else runs"
    )
