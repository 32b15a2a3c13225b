"""The problem that every solver is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from ..documents.tree import Tree
from ..estimates.law import AcceptanceLaw
from ..estimates.step_costs import StepCosts
from ..policies import Drafting, TreeDrafting
from ..replay.recorded import Tally
from ..replay.replays import Played, Replays

Settings = TypeVar("Settings", bound=Drafting)

STAGES = ((0, 8), (4, 8), (2, 4), (1, 2))
"""The texts that many settings are played on, one stage after the other: every 8th from the first,
which makes an eighth, every 8th from the fifth, which makes a quarter of them; half; and all."""
LEAST_KEPT = 8
"""Settings, even where that is more than half of them."""
LEAST_TEXTS = 32
"""The fewest texts to be parted: where there are fewer, all settings are played on all."""


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
        """Tokens per millisecond on the texts (`Played.rate`)."""
        return Played.of(drafting, self.texts, self.costs).rate

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
        """The same for a grid, played to the end only where it matters: all of it on an eighth of
        the texts, the better half on as many again, the better half of these on twice as many, and
        the better half of these on all (successive halving: Karnin, Koren and Somekh, "Almost
        optimal exploration in multi-armed bandits", 2013).

        Rates are rugged: climbing one axis after the other misses settings that any quarter of the
        texts finds.
        """
        if self.texts.num_texts < LEAST_TEXTS:
            return self.fastest(settings)
        tallies: list[list[Tally]] = [[] for _ in settings]
        kept = np.arange(len(settings))
        for first, step in STAGES:
            texts = self.texts.every(step, first)

            def rate(place: int, texts: Replays = texts) -> float:
                tallies[place].append(texts.play(settings[place]))
                whole = Tally(*map(np.concatenate, zip(*tallies[place], strict=True)))
                costs = self.costs.of(settings[place])
                return Played(whole, costs, [costs.limit(settings[place])]).rate

            with ThreadPoolExecutor() as pool:
                rates = np.array(list(pool.map(rate, kept)))
            best, fastest = kept[np.argmax(rates)], rates.max()
            most = max(-(-len(kept) // 2), LEAST_KEPT)
            kept = np.sort(kept[np.argsort(-rates, kind="stable")[:most]])
        return settings[best], float(fastest)


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
