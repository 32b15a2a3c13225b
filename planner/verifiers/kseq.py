"""K-sequential selection of independent draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .namespace import Array, at, namespace, places, sums_before, sums_from
from .rejection import normalised, sampled
from .verifier import Random, Rank, Verifier, source_of

MOST_SIBLINGS = 8
"""Most children of a node that `masses` tells of: what it yields grows with their square."""

BISECTIONS = 36
"""Halvings of an interval of length 7, down to 1e-10: finer than the float32 of recorded traces."""


class SequentialSelection(Verifier):
    """k independent draws, each accepted with probability min(1, p(x) / (g q(x))) (SpecTr).

    With b = sum min(q, p / g) the chance of each child, the child of rank r is accepted with
    probability b (1 - b)^r, and token x comes out of the k trials with probability
    min(q, p / g)(x) (1 - (1 - b)^k) / b.  The factor g is the smallest in [1, k] for which that
    stays within p(x) everywhere, the root of 1 - (1 - b)^k = g b.  What p has beyond it is sampled
    after the last rejection.  Since g depends on k, so does the acceptance of every child; which
    children are drawn does not.

    Within 1 - 1/e of the best that is possible with independent draws.

    Source: Sun et al. 2023, "SpecTr", Algorithm 3 and section 4.
    """

    name = "kseq"
    summary = "K-sequential selection, independent draws (SpecTr)"
    incremental = False
    by_rank_alone = False
    non_increasing = True
    plain_with_one_child = True

    def verify(self, p: Array, q: Array, drafts: Array, rng: Random) -> tuple[int, int]:
        """One coin a child, none of which depends on the others; see `Verifier.verify`."""
        from .selection_factor import selection_factor

        rng = source_of(rng)
        if len(drafts) == 0:
            return -1, sampled(p, rng)
        target, draft = normalised(p), normalised(q)
        p_host, q_host = target.cpu().numpy(), draft.cpu().numpy()
        factor = selection_factor(p_host, q_host, len(drafts))
        for rank, token in enumerate(drafts.tolist()):
            if rng.accept(float(p_host[token]), factor * float(q_host[token])):
                return rank, token
        accepted = draft.minimum(target / factor)
        chance = float(accepted.sum())
        trials = (1 - (1 - chance) ** len(drafts)) / chance if chance > 0 else 0.0
        residual = (target - trials * accepted).clamp_(min=0)
        return -1, sampled(residual if float(residual.sum()) > 0 else target, rng)

    def masses(self, p: Array, q: Array, num_ranks: int, rng: Any) -> Iterator[Rank]:
        """min(q, p / g) for one child, for each of two, and so on up to `MOST_SIBLINGS`, without
        any chance; see `Verifier.masses`."""
        xp = namespace(p)
        most = min(num_ranks, MOST_SIBLINGS)
        factors = selection_factors(p, q, most)
        for count in range(1, most + 1):
            mass = xp.minimum(q, p / factors[:, count - 1 : count])
            rejected = (q - mass).sum(-1, keepdims=True)
            survival = xp.ones_like(rejected)
            for _ in range(count):
                yield Rank(survival, mass)
                survival = survival * rejected

    def rates(
        self, p: np.ndarray, q: np.ndarray, num_children: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """b (1 - b)^r for exactly `num_children` children; see `Verifier.rates`."""
        from .selection_factor import selection_factor

        nodes = zip(p, q, strict=True)
        factors = np.array([selection_factor(*node, num_children) for node in nodes])[:, None]
        accepted = np.minimum(q, p / factors).sum(-1, keepdims=True)
        # 1 - b as a sum: where q is p up to rounding, the difference would be noise
        rejected = np.maximum(q - p / factors, 0.0).sum(-1, keepdims=True)
        rates = accepted * rejected ** np.arange(num_children)
        return rates, np.zeros_like(rates)


def selection_factors(p: Array, q: Array, most: int, num_bisections: int = BISECTIONS) -> Array:
    """float64 [N, most]: the factors g for 1, 2, ... `most` children at each of N nodes.

    p, q  float64 [N, V], rows summing to 1

    The search of `selection_factor` for many nodes at once: tokens are sorted by p / q, and both
    sides of the inequality read off running sums at the place of g.
    """
    xp = namespace(p)
    tiny = xp.finfo(p.dtype).tiny
    ratio = xp.where(q > 0, p / xp.clip(q, tiny, None), xp.inf)
    order = xp.argsort(ratio, -1)
    ratio, p, q = at(ratio, order), at(p, order), at(q, order)
    p_below, q_below = sums_before(p), sums_before(q)
    p_above, q_above = sums_from(p), sums_from(q)
    counts = xp.ones_like(p[:, :1]) * xp.asarray(range(1, most + 1), device=p.device)

    def within(factors: Array) -> Array:
        place = places(ratio, factors)  # p <= g q before it
        rejected = at(q_below, place) - at(p_below, place) / factors
        lack = at(p_above, place) - factors * at(q_above, place)
        return xp.clip(lack, 0, None) <= xp.clip(rejected, 0, None) ** counts

    low = xp.ones_like(counts)
    high = xp.where(within(low), low, counts)
    for _ in range(num_bisections):
        middle = (low + high) / 2
        enough = within(middle)
        low, high = xp.where(enough, low, middle), xp.where(enough, middle, high)
    return high
