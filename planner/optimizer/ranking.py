"""The candidates of one verifier, and what is proven of them; all verifiers' in order, and which of
them to carry out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from ..documents.estimate import Estimate, hope
from ..documents.tree import Tree
from ..estimates.evidence import Evidence
from ..estimates.law import AcceptanceLaw
from ..estimates.step_costs import StepCosts
from ..replay.replays import Replays
from ..verifiers import VERIFIERS
from .certificate import upper_bound
from .grading import Candidate, order
from .problem import Limits

LOSS = 3.0
"""The gain that makes up for a loss, as a multiple of it: see `settled`."""


@dataclass(frozen=True)
class Ranking:
    """All that is known of one verifier, and all that was graded under it."""

    verifier: str
    evidence: Evidence
    costs: StepCosts
    limits: Limits
    candidates: list[Candidate]
    replays: Replays | None = None
    """Recorded trees that growing ones were graded on, if any were."""

    def gap(self, tree: Tree) -> float | None:
        """The fraction by which any tree within the limits could at most be faster than `tree`.

        Under the acceptance that holds inside `tree`, everywhere, and the measured costs.  None
        where whole paths are judged: no acceptance holds everywhere, that of a node being what
        stands below it.
        """
        if len(self.evidence.entered) > 1:
            return None
        law = law_for(self.verifier, self.evidence.law_inside(tree))
        rate = law.expected_tokens(tree) / self.costs.step_ms(tree)
        return max(upper_bound(law, self.costs, self.limits) / rate - 1, 0.0)


def ranked(rankings: list[Ranking]) -> list[Candidate]:
    """All candidates, the best first; the lone root, the same under every verifier, once."""
    candidates = sorted((c for one in rankings for c in one.candidates), key=order)
    lone = next(candidate for candidate in candidates if not candidate.speculates)
    return [c for c in candidates if c.speculates or c is lone]


def settled(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The same, the one to carry out first.

    candidates  the fastest first, one of them without speculation

    That is the fastest, unless by its interval it may be slower than not to speculate.  Then it is
    the one of the best `prospect`: not to speculate, where all others may lose more than a third of
    what they may win.
    """
    first = candidates[0]
    if first.speculates and first.speedup.low < 1:
        first = max(candidates, key=lambda each: prospect(each.speedup))  # of equals the fastest
    return [first, *(each for each in candidates if each is not first)]


def prospect(speedup: Estimate) -> float:
    """E max(0, x) - LOSS E max(0, -x) of x, the logarithm of a speedup.

    x is taken to be normal, with the estimate's interval.  Who does not speculate has been promised
    nothing and loses nothing; who does gives up a certainty, so a loss counts `LOSS` times a gain.
    At 3, x needs a mean of .44 standard deviations: a chance of two in three to be faster at all.
    """
    mean = log(speedup.value)
    spread = log(speedup.high / speedup.low) / (2 * 1.96)
    return hope(mean, spread) - LOSS * hope(-mean, spread)


def law_for(verifier: str, law: AcceptanceLaw) -> AcceptanceLaw:
    """`law` for as many children as the verifier serves."""
    return law.limited(VERIFIERS[verifier].max_children)
