"""The best of each verifier and of each solver: what is told of all that was graded."""

from __future__ import annotations

from ..plans.alternatives import Alternative
from .grading import Candidate
from .paired_comparison import compare
from .ranking import Ranking


def alternatives(candidates: list[Candidate], rankings: list[Ranking]) -> list[Alternative]:
    """The `contenders` among ranked candidates, each with how the first of all compares to it."""
    best = candidates[0]
    return [
        Alternative(
            verifier=each.verifier,
            solver=each.solver,
            grows=each.grows,
            nodes=each.num_nodes,
            depth=each.depth,
            tokens_per_step=each.tokens_per_step,
            step_ms=each.step_ms,
            speedup=each.speedup,
            plan_against_it=None if each is best else compare(best, each, rankings),
        )
        for each in contenders(candidates)
    ]


def contenders(candidates: list[Candidate]) -> list[Candidate]:
    """The best of each verifier, of each solver, of each solver under the first one's verifier, and
    the lone root, in the order of the candidates."""
    first, kept = candidates[0].verifier, []
    seen: set[tuple[str, str]] = set()
    for each in candidates:
        kinds = {("verifier", each.verifier), ("solver", each.solver)}
        kinds |= {("both", each.solver)} if each.verifier == first else set()
        if not each.speculates or not kinds <= seen:
            kept.append(each)
            seen |= kinds if each.speculates else set()
    return kept
