"""The problem that every solver is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from ..documents.tree import Tree
from ..estimates.law import AcceptanceLaw
from ..estimates.step_costs import StepCosts
from ..policies import Drafting, TreeDrafting
from ..replay.replays import Replays

Settings = TypeVar("Settings", bound=Drafting)

GLANCED = 4
"""Of many settings all are played on every fourth text, and the best fourth of them on all."""
LEAST_KEPT = 8
"""Settings, even where that is more than a fourth."""
LEAST_GLANCE = 8
"""Texts; where a fourth would be fewer, all settings are played on all."""


@dataclass(frozen=True)
class Limits:
    """Bounds that a proposed tree may not exceed."""

    max_nodes: int
    """Root included."""
    max_depth: int
    """Levels below the root."""


@dataclass(frozen=True)
class Problem:
    """All that a profile says about one verifier, at one batch size and context.

    The last three are for solvers of growing trees; the others are asked without them.
    """

    law: AcceptanceLaw
    """Acceptance of no more children than the verifier serves."""
    costs: StepCosts
    limits: Limits
    replays: Replays | None = None
    """Recorded trees on which settings may be tried."""
    price_per_ms: float = 0.0
    """Tokens per millisecond of the fastest plan known so far that drafts: what time is worth.  Not
    drafting at all may be faster; but that is another plan, not a setting of a policy."""
    max_children: int = 1
    """Most children of a node of a tree that grows."""

    @property
    def texts(self) -> Replays:
        """The recorded trees.  Raises TypeError where there are none."""
        if self.replays is None:
            raise TypeError("a problem of fixed trees: no trees were recorded to play on")
        return self.replays

    def rate(self, drafting: Drafting) -> float:
        """Tokens per millisecond on the texts (`Replays.rate`)."""
        return self.texts.rate(drafting, self.costs)

    def rates(self, settings: Sequence[Drafting]) -> np.ndarray:
        """float64 [settings]: the rate of each, on all cores."""
        with ThreadPoolExecutor() as pool:  # compiled rounds let go of the interpreter
            return np.array(list(pool.map(self.rate, settings)))

    def fastest(self, settings: Sequence[Settings]) -> tuple[Settings, float]:
        """The one of the highest rate, the first of equals, and its rate."""
        rates = self.rates(settings)
        best = int(np.argmax(rates))
        return settings[best], float(rates[best])

    def fastest_of_many(self, settings: Sequence[Settings]) -> tuple[Settings, float]:
        """The same for a grid, played to the end only where it matters: all of it on a quarter of
        the texts, and its better quarter on all texts.

        Rates are rugged: climbing one axis after the other misses settings that any quarter of the
        texts finds.
        """
        if self.texts.num_texts >= GLANCED * LEAST_GLANCE:
            glance = replace(self, replays=self.texts.every(GLANCED))
            kept = max(-(-len(settings) // GLANCED), LEAST_KEPT)
            order = np.argsort(-glance.rates(settings), kind="stable")[:kept]
            settings = [settings[place] for place in np.sort(order)]
        return self.fastest(settings)


class Solver(Protocol):
    """A way to find promising settings.  Its own settings are fields; it marks no one's work."""

    grows: ClassVar[bool] = False
    """Does it propose trees that grow while they are drafted, which need recorded trees?"""
    by_default: ClassVar[bool] = True
    """Is it asked where no solver is named?"""

    def propose(self, problem: Problem) -> Mapping[str, Drafting]:
        """Settings worth grading, within the limits, by a name that tells them apart: the same
        names from other texts.  The first of equals come first."""
        ...


def numbered(trees: Iterable[Tree]) -> dict[str, Drafting]:
    """Fixed trees by their place in the order in which they are proposed."""
    return {
        str(place): TreeDrafting(parents=tree.parents.tolist()) for place, tree in enumerate(trees)
    }
