"""What every solver for growing trees is given, and what it gives back.

No solver marks its own work.  Settings are proposed from all recorded texts; what they are worth is
found by proposing them again from one half of the texts and playing those on the other half, and
the other way round (`choice`): settings that were only lucky on their texts are seen through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..drafting import Drafting, DynamicDrafting, GrownDrafting, StoppingDrafting, head_of
from .cost import CHAINS, StepCosts
from .problem import Limits
from .replay import Played, Replays, covers


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

    def rate(self, drafting: GrownDrafting) -> float:
        """Tokens per millisecond on these texts; -inf for settings that never draft, and for sizes
        or widths that were not timed."""
        tally = self.replays.play(drafting)
        costs = costs_of(drafting, self.costs)
        usable = tally.root_passes.any() and covers(tally, costs)
        return Played(tally, costs).tokens_per_ms if usable else -np.inf

    def verify_ms(self, num_nodes: int) -> np.ndarray:
        """float64 [num_nodes]: verification and overhead, by number of nodes from 1."""
        least = max(self.costs.verify.first, self.costs.overhead.first)
        counts = np.maximum(np.arange(1, num_nodes + 1), least)
        return np.array([self.costs.verify_ms(n) + self.costs.overhead_ms(n) for n in counts])

    def node_ms(self, num_nodes: int) -> float:
        """t': milliseconds that one more node takes, on average up to `num_nodes`."""
        times = self.verify_ms(num_nodes)
        return max(float(np.polyfit(np.arange(len(times)), times, 1)[0]), 0.0)


def costs_of(drafting: Drafting, costs: StepCosts) -> StepCosts:
    """`costs` of growing trees, or those of chains, or of chains that a head ends."""
    head = head_of(drafting)
    if head is not None:
        return costs.growing(head.sha256)
    chain = isinstance(drafting, (StoppingDrafting, DynamicDrafting))
    return costs.growing(CHAINS) if chain else costs


class GrowingSolver(Protocol):
    """A way to find promising settings for trees that grow while they are drafted."""

    def propose(self, estimates: GrowthEstimates, limits: Limits) -> dict[str, GrownDrafting]:
        """Settings worth grading, within the limits, by what tells them apart: the same names
        from other texts."""
        ...


def climbed(
    rate: Callable[[dict[str, Any]], float],
    grid: Mapping[str, Sequence[Any]],
    start: Mapping[str, Any],
    *,
    rounds: int = 2,
) -> dict[str, Any]:
    """The best point that coordinate search finds on `grid`, one axis at a time from `start`.

    rate  of a point, {axis: value}

    Ties go to what was found first.
    """
    best = dict(start)
    known: dict[tuple[Any, ...], float] = {}

    def value(point: dict[str, Any]) -> float:
        key = tuple(point.values())
        if key not in known:
            known[key] = rate(point)
        return known[key]

    for _ in range(rounds):
        before = dict(best)
        for axis, values in grid.items():
            points = [best, *({**best, axis: each} for each in values)]
            best = max(points, key=value)
        if best == before:
            break
    return best
