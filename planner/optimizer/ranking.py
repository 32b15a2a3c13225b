"""The candidates of one verifier, and what is proven of them; all verifiers' in order."""

from __future__ import annotations

from dataclasses import dataclass

from ..documents.tree import Tree
from ..estimates.evidence import Evidence
from ..estimates.law import AcceptanceLaw
from ..estimates.step_costs import StepCosts
from ..replay.replays import Replays
from ..verifiers import VERIFIERS
from .certificate import upper_bound
from .grading import Candidate, order
from .problem import Limits


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

    def gap(self, tree: Tree) -> float:
        """The fraction by which any tree within the limits could at most be faster than `tree`.

        Under the acceptance that holds inside `tree`, everywhere, and the measured costs.
        """
        law = law_for(self.verifier, self.evidence.law_inside(tree))
        rate = law.expected_tokens(tree) / self.costs.step_ms(tree)
        return max(upper_bound(law, self.costs, self.limits) / rate - 1, 0.0)


def ranked(rankings: list[Ranking]) -> list[Candidate]:
    """All candidates, the best first; the lone root, the same under every verifier, once."""
    candidates = sorted((c for one in rankings for c in one.candidates), key=order)
    lone = next(candidate for candidate in candidates if not candidate.speculates)
    return [c for c in candidates if c.speculates or c is lone]


def law_for(verifier: str, law: AcceptanceLaw) -> AcceptanceLaw:
    """`law` for as many children as the verifier serves."""
    return law.limited(VERIFIERS[verifier].max_children)
