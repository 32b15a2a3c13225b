"""Settings for chains that end when the next token is unlikely to be accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product, starmap

from ...estimates.step_costs import CHAINS
from ...policies import (
    ConfidentDrafting,
    Drafting,
    DynamicDrafting,
    StoppingDrafting,
)
from ...replay.chance_tables import fitted_tables
from ..growing import GrowthEstimates
from ..problem import Limits

SCORES = ("confidence", "entropy", "probability")
"""That need no trained head."""

THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
DEPTHS = (1, 2, 3, 4, 5, 6, 8, 12, 20)

ASSISTED_TOKENS, ASSISTED_CONFIDENCE = 20, 0.4
"""Hugging Face's defaults."""
CONFIDENCES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class SpecDecSolver:
    """SpecDec++'s rule: the best score that needs no training, the trained head where one scored
    the recorded trees, and for each the best of all thresholds and lengths.

    Where the costs put the threshold (`stopping_threshold`) is one of them.  All are tried, chains
    being played in no time: a short chain that is hardly ever stopped and a long one that often is
    are both good, and what lies between them need not be.
    """

    def propose(self, estimates: GrowthEstimates, limits: Limits) -> dict[str, Drafting]:
        lengths = _lengths(limits)
        if not lengths:
            return {}
        priced, head = stopping_threshold(estimates), estimates.replays.head

        def stopping(score: str, threshold: float, max_depth: int) -> StoppingDrafting:
            settings = {"score": score, "threshold": threshold, "max_depth": max_depth}
            used = head if score == "head" else None
            return StoppingDrafting.model_validate(settings | {"head": used})

        def best(scores: Sequence[str]) -> StoppingDrafting:
            every = starmap(stopping, product(scores, (priced, *THRESHOLDS), lengths))
            return estimates.fastest(list(every))

        proposed: dict[str, Drafting] = {"stopping": best(SCORES)}
        if head is not None:
            proposed["head"] = best(["head"])
        return proposed


@dataclass(frozen=True)
class AssistedSolver:
    """Hugging Face's assisted generation: as it is by default, and with its heuristic schedule."""

    def propose(self, estimates: GrowthEstimates, limits: Limits) -> dict[str, Drafting]:
        longest = min(limits.max_depth, limits.max_nodes - 1)
        if longest < 1:
            return {}
        ways = {"constant": ASSISTED_TOKENS, "heuristic": 5}
        return {
            schedule: DynamicDrafting.model_validate(
                {
                    "max_depth": longest,
                    "confidence": ASSISTED_CONFIDENCE,
                    "num_tokens": num_tokens,
                    "schedule": schedule,
                }
            )
            for schedule, num_tokens in ways.items()
        }


@dataclass(frozen=True)
class TunedAssistedSolver:
    """Hugging Face's assisted generation at its best: how many tokens, and the confidence below
    which one ends a chain."""

    def propose(self, estimates: GrowthEstimates, limits: Limits) -> dict[str, Drafting]:
        every = [
            DynamicDrafting(max_depth=length, num_tokens=length, confidence=confidence)
            for length, confidence in product(_lengths(limits), CONFIDENCES)
        ]
        return {"constant": estimates.fastest(every)} if every else {}


@dataclass(frozen=True)
class ConfidentSolver:
    """The best of llama.cpp's settings: the longest chain, and the confidence that ends one."""

    def propose(self, estimates: GrowthEstimates, limits: Limits) -> dict[str, Drafting]:
        every = [
            ConfidentDrafting(max_depth=length, confidence=confidence)
            for length, confidence in product(_lengths(limits), CONFIDENCES)
        ]
        return {"confident": estimates.fastest(every)} if every else {}


def _lengths(limits: Limits) -> list[int]:
    """Of chains, as far as there are times."""
    longest = min(limits.max_depth, limits.max_nodes - 1)
    return [*(depth for depth in DEPTHS if depth < longest), longest] if longest > 0 else []


def stopping_threshold(estimates: GrowthEstimates) -> float:
    """h = 1 - price * (c1 + t') / a, inside (0, 1).

    One more token costs a draft pass c1 and a node's verification t', and is emitted with the
    chance that all before it are accepted, times its own mean chance a.
    """
    costs = estimates.costs.growing(CHAINS)
    accepted = fitted_tables(estimates.replays.recorded, 1).ahead[1, 0]
    ms = costs.draft_ms(1) + estimates.node_ms(min(costs.max_nodes, 20))
    needed = estimates.price_per_ms * ms / max(accepted, 1e-3)
    return round(min(max(1 - needed, 0.01), 0.99), 4)
