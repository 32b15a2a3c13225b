"""How far is a measurement, and how long will it still take?  A bar on stderr."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tqdm import tqdm

from .journal import Journal

BAR = "{desc}{percentage:3.0f}%|{bar}| {elapsed} so far, {remaining} left"


class Progress:
    """A bar that moves by work, so that long and short pieces move it in proportion to their time.

    work     by piece, about how long it takes, in whole numbers of any unit
    journal  holds the pieces that were taken before: they are done already
    """

    def __init__(self, work: Mapping[str, int], journal: Journal) -> None:
        self._left = {name: each for name, each in work.items() if not journal.holds(name)}
        total = sum(work.values())
        before = total - sum(self._left.values())
        self._bar = tqdm(total=total, initial=before, bar_format=BAR, desc="profile")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()

    def doing(self, what: str) -> None:
        """Say what is being measured now."""
        self._bar.set_description(what)

    def done(self, name: str) -> None:
        """The piece `name` is there, taken now or before."""
        self._bar.update(self._left.pop(name, 0))
