"""The ratio of two plans' speeds: by how much is one faster, and could that be chance?

Both are predicted on the same prompts and costed from the same tables, so most of what is uncertain
is uncertain of both alike: the intervals of their ratios are narrower than their own suggest.
Tokens: the ratio in every bootstrap sample of the prompts, for as many other ones.  Times: a
measured time that enters both steps counts only as far as its shares of the two differ; as in
`step_costs`, what is left of one curve is added as if fully correlated, separately for either step,
and different curves are independent.  What all steps with a draft may be off by alike counts where
one side has no draft.
Where trees grow, both sides are played on the recorded trees, so that the same luck meets both; a
step's time then varies from text to text too.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from ..documents.estimate import Estimate
from ..estimates.bootstrap import foreseen
from ..estimates.intervals import inverse, normal, product, relative
from ..plans.alternatives import Comparison
from ..replay.replays import Played
from .grading import Candidate
from .ranking import Ranking


def compare(one: Candidate, other: Candidate, rankings: list[Ranking]) -> Comparison:
    """`one` against `other`, both from `rankings` of the same profile, sampling and conditions."""
    by_name = {ranking.verifier: ranking for ranking in rankings}
    sides = [_Side.of(each, by_name[each.verifier]) for each in (one, other)]
    if one.grows or other.grows:
        sides = [side.on_recorded_trees() for side in sides]
    tokens = _tokens_ratio(*sides)
    timed = _step_ratio(*sides)
    if not (one.grows or other.grows):
        speed = product(tokens, inverse(timed))
        return Comparison(tokens_per_step=tokens, step_ms=timed, speed=speed)
    step, speed = (product(each, relative(timed)) for each in _varying(*sides))
    return Comparison(tokens_per_step=tokens, step_ms=step, speed=speed)


@dataclass(frozen=True)
class _Side:
    """A candidate with all that it can be compared by."""

    candidate: Candidate
    ranking: Ranking
    tokens: np.ndarray | None
    """float64 [2000]: tokens per step, by bootstrap sample of the texts"""
    step_ms: np.ndarray | None
    """float64 [2000]: likewise, where it varies"""
    lengths: list[float]
    """Lengths of the texts; they tell whether two sides were measured on the same."""

    @classmethod
    def of(cls, candidate: Candidate, ranking: Ranking) -> _Side:
        """A side with the tokens of a fixed tree, as the traces have them; of growing ones none."""
        tokens = None if candidate.grows else ranking.evidence.samples(candidate.tree)
        return cls(candidate, ranking, tokens, None, [float(ranking.evidence.num_prompts)])

    def on_recorded_trees(self) -> _Side:
        """Played there, if any were recorded."""
        played, replays = self.candidate.played, self.ranking.replays
        if played is None and replays is not None and replays.hold(self.candidate.drafting):
            played = Played.of(self.candidate.drafting, replays, self.ranking.costs)
        if played is None:
            return replace(self, tokens=None, step_ms=None)
        lengths = played.tally.tokens.tolist()
        samples = played.samples(), played.step_samples()
        return _Side(self.candidate, self.ranking, *samples, lengths)


def _tokens_ratio(one: _Side, other: _Side) -> Estimate:
    a, b = one.candidate.tokens_per_step, other.candidate.tokens_per_step
    if one.tokens is None or other.tokens is None or one.lengths != other.lengths:
        return product(a, inverse(b))  # not the same texts: no pairs
    samples = one.tokens / other.tokens
    return _sampled(a.value / b.value, samples, one, a.low / b.high, a.high / b.low)


def _varying(one: _Side, other: _Side) -> tuple[Estimate, Estimate]:
    """Ratios of the step's time and of speed, as far as both vary from text to text."""
    a, b = one.candidate, other.candidate
    step, speed = a.step_ms.value / b.step_ms.value, a.tokens_per_ms / b.tokens_per_ms
    if one.tokens is None or other.tokens is None or one.lengths != other.lengths:
        unpaired = product(a.tokens_per_step, inverse(b.tokens_per_step))
        return _exactly(step), product(unpaired, _exactly(1 / step))
    assert one.step_ms is not None
    assert other.step_ms is not None
    times = one.step_ms / other.step_ms
    most = 1e3
    return (
        _sampled(step, times, one, step / most, step * most),
        _sampled(speed, one.tokens / other.tokens / times, one, speed / most, speed * most),
    )


def _sampled(value: float, samples: np.ndarray, side: _Side, least: float, most: float) -> Estimate:
    """`value` with the interval of the samples (`foreseen`), which are moved to lie around it: what
    is compared may have been graded with more than these texts."""
    num_texts = len(side.lengths) if side.step_ms is not None else int(side.lengths[0])
    if side.step_ms is None:
        return foreseen(value, samples, num_texts, least=least, most=most)
    middle = float(np.median(samples))
    found = foreseen(middle, samples, num_texts, least=least, most=most)
    return product(_exactly(value), relative(found))


def _step_ratio(one: _Side, other: _Side) -> Estimate:
    """The ratio of the steps' times; its logarithm's error is linear in every measured time."""
    shares: dict[tuple[str, int], float] = defaultdict(float)
    errors: dict[tuple[str, int], float] = {}
    for side, sign in ((one, 1.0), (other, -1.0)):
        for place, error_ms, often in _times(side.candidate, side.ranking):
            shares[place] += sign * often / side.candidate.step_ms.value
            errors[place] = error_ms
    by_curve: dict[tuple[str, bool], float] = defaultdict(float)
    for (curve, count), share in shares.items():
        by_curve[curve, share > 0] += share * errors[curve, count]
    if one.candidate.speculates != other.candidate.speculates:
        by_curve["steps with a draft", True] = one.ranking.costs.shared_error
    error = float(np.sqrt(sum(part**2 for part in by_curve.values())))
    return normal(one.candidate.step_ms.value / other.candidate.step_ms.value, error)


def _times(candidate: Candidate, ranking: Ranking) -> list[tuple[tuple[str, int], float, float]]:
    """The standard errors of the measured times that its step is the sum of, by curve and count,
    and how often each time is."""
    costs = ranking.costs

    def named(curve: str) -> str:
        """The curve's name: of walks every verifier has its own, of passes all have the same."""
        return f"{curve}, {ranking.verifier}" if "overhead" in curve else curve

    if candidate.played is not None:
        rounds = candidate.played.tally.rounds.sum()
        return [
            ((named(each.curve), int(count)), float(error), float(often / rounds))
            for each in candidate.played.spent
            for count, error, often in zip(
                each.counts, each.error_ms, each.often.sum(axis=0), strict=True
            )
        ]
    size = candidate.tree.num_nodes
    if size == 1:
        return [(("target step", 1), costs.autoregressive.error_ms, 1.0)]
    widths = [int(width) for width in candidate.tree.widths[1:]]
    return [
        (("verify", size), costs.verify(size).error_ms, 1.0),
        ((named(costs.overhead.what), size), costs.overhead(size).error_ms, 1.0),
        ((costs.draft.what, 0), costs.draft_root.error_ms, 1.0),
        *(((costs.draft.what, width), costs.draft(width).error_ms, 1.0) for width in widths),
    ]


def _exactly(value: float) -> Estimate:
    return Estimate(value=value, low=value, high=value)
