"""Settings for SpecDec++'s chains, which end when the next token is unlikely to be accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from ...estimates.step_costs import CHAINS, StepCosts
from ...policies import Drafting, StoppingDrafting
from ...replay.chance_tables import fitted_tables
from ...replay.recorded import Recorded
from ..problem import Limits, Problem, Solver

SCORES = ("confidence", "entropy", "probability")
"""Scores that need no trained head."""

THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
DEPTHS = (1, 2, 3, 4, 5, 6, 8, 12, 20)


@dataclass(frozen=True)
class SpecDecSolver(Solver):
    """The best score that needs no training, the trained head where one scored the recorded trees,
    and for each the best of all thresholds and lengths.

    Where the costs put the threshold (`stopping_threshold`) is one of them.  All are tried, chains
    being played in no time: a short chain that is hardly ever stopped and a long one that often is
    are both good, and what lies between them need not be.
    """

    grows: ClassVar[bool] = True

    def propose(self, problem: Problem) -> Mapping[str, Drafting]:
        lengths = chain_lengths(problem.limits)
        if not lengths:
            return {}
        texts = problem.texts
        priced = stopping_threshold(problem.price_per_ms, problem.costs, texts.recorded)

        def best(scores: Sequence[str]) -> Drafting:
            every = [
                StoppingDrafting.model_validate(
                    {
                        "score": score,
                        "threshold": threshold,
                        "max_depth": length,
                        "head": texts.head if score == "head" else None,
                    }
                )
                for score, threshold, length in product(scores, (priced, *THRESHOLDS), lengths)
            ]
            return problem.fastest(every)[0]

        proposed = {"stopping": best(SCORES)}
        return proposed | ({} if texts.head is None else {"head": best(["head"])})


def chain_lengths(limits: Limits) -> list[int]:
    """Lengths of chains worth trying, as far as there are times; the longest comes last."""
    longest = min(limits.max_depth, limits.max_nodes - 1)
    return [*(depth for depth in DEPTHS if depth < longest), longest] if longest > 0 else []


def stopping_threshold(price_per_ms: float, costs: StepCosts, recorded: Recorded) -> float:
    """h = 1 - price * (c1 + t') / a, inside (0, 1).

    One more token costs a draft pass c1 and a node's verification t', and is emitted with the
    chance that all before it are accepted, times its own mean chance a.
    """
    chains = costs.growing(CHAINS)
    accepted = fitted_tables(recorded, 1).ahead[1, 0]
    ms = chains.draft_ms(chains.draft.first) + costs.growing().node_ms(min(chains.max_nodes, 20))
    needed = price_per_ms * ms / max(accepted, 1e-3)
    return round(min(max(1 - needed, 0.01), 0.99), 4)
