"""What every solver for growing trees is given, and what it gives back.

No solver marks its own work.  Settings are proposed from all recorded texts; what they are worth is
found by proposing them again from one half of the texts and playing those on the other half, and
the other way round (`choice`): settings that were only lucky on their texts are seen through.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from ..estimates.step_costs import CHAINS, StepCosts
from ..policies import Drafting
from ..replay.replays import Played, Replays, covers
from .problem import Limits

Grown = TypeVar("Grown", bound=Drafting)

GLANCED = 4
"""Of many settings all are played on every fourth text, and the best fourth of them on all."""
LEAST_KEPT = 8
"""Settings, even where that is more than a fourth."""
LEAST_GLANCE = 8
"""Texts; where a fourth would be fewer, all settings are played on all."""


@dataclass(frozen=True)
class GrowthEstimates:
    """What the profile says about one verifier, at one batch size and context."""

    replays: Replays
    """Texts on which settings may be tried."""
    costs: StepCosts
    """Of trees that grow, no head being asked."""
    price_per_ms: float
    """Tokens per millisecond of the fastest plan known so far that drafts: what time is worth.  Not
    drafting at all may be faster; but that is another plan, not a setting of a rule that drafts."""
    max_children: int
    """Most children of a node."""

    def rate(self, drafting: Drafting) -> float:
        """Tokens per millisecond on these texts (`rate_on`)."""
        return rate_on(self.replays, drafting, costs_of(drafting, self.costs))

    def rates(self, settings: Sequence[Drafting]) -> np.ndarray:
        """float64 [settings]: the rate of each, on all cores."""
        with ThreadPoolExecutor() as pool:  # compiled rounds let go of the interpreter
            return np.array(list(pool.map(self.rate, settings)))

    def fastest(self, settings: Sequence[Grown]) -> Grown:
        """The one of the highest rate; the first of equals."""
        return settings[int(np.argmax(self.rates(settings)))]

    def fastest_of_many(self, settings: Sequence[Grown]) -> Grown:
        """The same for a grid, played to the end only where it matters: all of it on a quarter of
        the texts, and its better quarter on all texts.

        Rates are rugged: climbing one axis after the other misses settings that any quarter of the
        texts finds.
        """
        if self.replays.num_texts >= GLANCED * LEAST_GLANCE:
            glance = replace(self, replays=self.replays.every(GLANCED))
            kept = max(-(-len(settings) // GLANCED), LEAST_KEPT)
            order = np.argsort(-glance.rates(settings), kind="stable")[:kept]
            settings = [settings[place] for place in np.sort(order)]
        return self.fastest(settings)

    def verify_ms(self, num_nodes: int) -> np.ndarray:
        """float64 [num_nodes]: verification and overhead, by number of nodes from 1."""
        least = max(self.costs.verify.first, self.costs.overhead.first)
        counts = np.maximum(np.arange(1, num_nodes + 1), least)
        return np.array([self.costs.verify_ms(n) + self.costs.overhead_ms(n) for n in counts])

    def node_ms(self, num_nodes: int) -> float:
        """t': milliseconds that one more node takes, on average up to `num_nodes`."""
        times = self.verify_ms(num_nodes)
        return max(float(np.polyfit(np.arange(len(times)), times, 1)[0]), 0.0)


def rate_on(texts: Replays, drafting: Drafting, costs: StepCosts) -> float:
    """Tokens per millisecond of rounds played on `texts`; -inf for settings that never draft, and
    for sizes or widths that were not timed.

    costs  of growing trees of that kind (`costs_of`)
    """
    tally = texts.play(drafting)
    usable = tally.root_passes.any() and covers(tally, costs)
    return Played(tally, costs).tokens_per_ms if usable else -np.inf


def costs_of(drafting: Drafting, costs: StepCosts) -> StepCosts:
    """`costs` of growing trees, or those of chains, or of chains that a head ends."""
    head = drafting.trained_head
    if head is not None:
        return costs.growing(head.sha256)
    return costs.growing(CHAINS) if drafting.grows_chains else costs


class GrowingSolver(Protocol):
    """A way to find promising settings for trees that grow while they are drafted."""

    def propose(self, estimates: GrowthEstimates, limits: Limits) -> dict[str, Drafting]:
        """Settings worth grading, within the limits, by what tells them apart: the same names
        from other texts."""
        ...
