"""By how much is one plan faster than another, and could that be chance?

Both are predicted on the same prompts and costed from the same tables, so most of what is uncertain
is uncertain of both alike: the intervals of their ratios are narrower than their own suggest.
Tokens: the ratio in every bootstrap sample of the prompts.  Times: a measured time that enters both
steps counts only as far as its shares of the two differ; as in `cost`, what is left of one curve is
added as if fully correlated, separately for either step, and different curves are independent.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from ..plan import Estimate
from .bootstrap import interval
from .choice import Contest
from .cost import Time
from .grading import Candidate


@dataclass(frozen=True)
class Comparison:
    """Ratios, one to the other, with their 95 % intervals."""

    tokens_per_step: Estimate
    step_ms: Estimate
    speed: Estimate
    """Tokens per millisecond."""

    @property
    def could_be_chance(self) -> bool:
        """Does the interval of the speeds' ratio contain 1?"""
        return self.speed.low <= 1 <= self.speed.high


def compare(one: Candidate, other: Candidate, contests: list[Contest]) -> Comparison:
    """`one` against `other`, both from `contests` of the same profile, sampling and conditions."""
    by_name = {contest.verifier: contest for contest in contests}
    mine, theirs = by_name[one.verifier], by_name[other.verifier]
    tokens = _tokens_ratio(one, mine, other, theirs)
    step = _step_ratio(one, mine, other, theirs)
    below = np.hypot(np.log(tokens.value / tokens.low), np.log(step.high / step.value))
    above = np.hypot(np.log(tokens.high / tokens.value), np.log(step.value / step.low))
    return Comparison(tokens, step, _around(tokens.value / step.value, float(below), float(above)))


def _tokens_ratio(one: Candidate, mine: Contest, other: Candidate, theirs: Contest) -> Estimate:
    a, b = one.tokens_per_step, other.tokens_per_step
    value = a.value / b.value
    num_prompts = mine.evidence.num_prompts
    if num_prompts != theirs.evidence.num_prompts:  # not the same prompts: no pairs
        below = np.hypot(np.log(a.value / a.low), np.log(b.high / b.value))
        above = np.hypot(np.log(a.high / a.value), np.log(b.value / b.low))
        return _around(value, float(below), float(above))
    samples = mine.evidence.samples(one.tree) / theirs.evidence.samples(other.tree)
    low, high = interval(samples, num_prompts, least=a.low / b.high, most=a.high / b.low)
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def _step_ratio(one: Candidate, mine: Contest, other: Candidate, theirs: Contest) -> Estimate:
    """From the error of log(step of one) - log(step of other), linear in every measured time."""
    shares: dict[tuple[str, int], float] = defaultdict(float)
    errors: dict[tuple[str, int], float] = {}
    for candidate, contest, sign in ((one, mine, 1.0), (other, theirs, -1.0)):
        for place, time in _times(candidate, contest):
            shares[place] += sign / candidate.step_ms.value
            errors[place] = time.error_ms
    by_curve: dict[tuple[str, bool], float] = defaultdict(float)
    for (curve, count), share in shares.items():
        by_curve[curve, share > 0] += share * errors[curve, count]
    error = 1.96 * float(np.sqrt(sum(part**2 for part in by_curve.values())))
    return _around(one.step_ms.value / other.step_ms.value, error, error)


def _times(candidate: Candidate, contest: Contest) -> list[tuple[tuple[str, int], Time]]:
    """The measured times that its step is the sum of, by curve and count."""
    costs, size = contest.costs, candidate.tree.num_nodes
    if size == 1:
        return [(("target step", 1), costs.autoregressive)]
    widths = [int(width) for width in candidate.tree.widths[1:]]
    return [
        (("verify", size), costs.verify(size)),
        ((f"overhead {contest.verifier}", size), costs.overhead(size)),
        (("draft", 0), costs.draft_root),
        *((("draft", width), costs.draft(width)) for width in widths),
    ]


def _around(value: float, below: float, above: float) -> Estimate:
    """An interval by its widths on the logarithmic scale."""
    return Estimate(
        value=value, low=value * float(np.exp(-below)), high=value * float(np.exp(above))
    )
