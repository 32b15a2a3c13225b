"""The bench that every part is handed: device, time that is left, and where its rows go."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

import torch

from .results import Results, Row
from .shapes import DeviceLimits


class Skipped(Exception):
    """A part that cannot run here, and why, in one line."""


class OutOfTime(Exception):
    """A part's time is up; what it has measured stands."""


@dataclass(frozen=True)
class Bench:
    """One part under way."""

    part: str
    results: Results
    deadline: float
    """A reading of `time.monotonic()`."""
    dry: bool
    """Tiny shapes on the CPU, by the reference, to see that everything runs."""

    @property
    def device(self) -> torch.device:
        return torch.device("cpu" if self.dry else "cuda")

    @property
    def dtype(self) -> torch.dtype:
        """The type of everything whose time is taken."""
        return torch.float32 if self.dry else torch.bfloat16

    @property
    def limits(self) -> DeviceLimits:
        """The device's limits as measured in this run.  Raises Skipped where they were not."""
        rows = {row["what"]: row["per_s"] for row in self.results.rows("limits")}
        try:
            return DeviceLimits(rows["copy"], rows["matmul"])
        except KeyError:
            raise Skipped("the limits of the device were not measured") from None

    def left(self) -> float:
        """Seconds."""
        return self.deadline - time.monotonic()

    def check_time(self, needed: float = 0.0) -> None:
        """Raise OutOfTime unless `needed` seconds are left."""
        if self.left() <= needed:
            raise OutOfTime

    def add(self, row: Row) -> None:
        self.results.add(self.part, row)

    def attempt(self, row: Row, measure: Callable[[], Row]) -> None:
        """Add `row` with what `measure()` adds to it, or with the first line of what it raised."""
        try:
            row = {**row, **measure()}
        except (OutOfTime, Skipped):
            raise
        except Exception as error:
            if "illegal memory access" in str(error) or "device-side assert" in str(error):
                raise  # nothing can run in this process any more
            traceback.print_exc()
            row = {**row, "failed": reason(error)}
        self.add(row)


def reason(error: BaseException) -> str:
    """One line."""
    words = " ".join(str(error).split())[:160]
    return f"{type(error).__name__}: {words}"
