"""Rejection of children in pairs: how the first is rejected serves the second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .namespace import Array, at, converted, fill_at, namespace, replaced_at
from .rejection import SWEEPS, TINY, drawn, left_over, normalised, rows_or_even, sampled, tried
from .verifier import Random, Rank, Verifier, source_of


class LookAhead(Verifier):
    """Draws without replacement, verified two at a time (a, y).

    Recursive rejection (`rrsw`) accepts the first child as often as anything can, sum min(R, D);
    it leaves open *how* the first is rejected.  Here that is decided by what the second is good
    for.  With the residual target R and the shrinking draft D, let

        u = (R - D)+   what the target still lacks      e = (D - R)+   what of D must be rejected
        a is drawn with chance D(a), then y with chance A(a) S(y) / D(a):  A = D / (1 - D), S = D.
        (If all of D lies on a, y is drawn evenly from the untried: A(a) = 1, S even, none on a.)

    Where e(a) > 0, y is accepted with chance give(a) take(y) before a is looked at; otherwise a is
    accepted with chance R(a) / (D(a) - A(a) give(a) K), and if not, both are rejected.  With
    Z = sum of A give and K = sum of S take:

        a is accepted on min(R, D)(a), as it should;      this needs  A(a) give(a) K <= e(a)
        y is accepted on S(y) take(y) Z, in all Z K;      this needs  S(y) take(y) Z <= u(y)
        a is rejected on e(a) - A(a) give(a) K, then y in proportion to S(y) (1 - give(a) take(y))
        R becomes norm(u - S take Z), the same whatever was rejected, so that the output follows p.

    Water-filling makes both as large as the needs allow: from K = 1, eight sweeps of
    give = min(1, e / (A K)), Z, take = min(1, u / (S Z)), K.  From sweep to sweep K falls and Z
    rises, so that the first need, met with the last K but one, is met with the last.  A last child
    without a partner is verified by recursive rejection.

    The choice of give looks at what all pairs can do, so whether a second child is drawn must not
    depend on the first: the method is not incremental.

    Source: Espalier's own; the output law and the rates are checked by enumeration.
    """

    name = "lookahead"
    summary = "rejection in pairs, without replacement"
    law = "without replacement"
    incremental = False
    plain_with_one_child = True

    def verify(self, p: Array, q: Array, drafts: Array, rng: Random) -> tuple[int, int]:
        """Try pair after pair on what the earlier ones left; see `Verifier.verify`."""
        from .lookahead_rates import rejected_pair

        rng = source_of(rng)
        tokens: list[int] = drafts.tolist()
        if not tokens:
            return -1, sampled(p, rng)
        residual, untried = normalised(p).cpu(), normalised(q).cpu()
        target, draft = residual.numpy(), untried.numpy()  # in the same memory
        gone = np.zeros(len(target), np.bool_)
        for rank in range(0, len(tokens) - 1, 2):
            first, second = tokens[rank], tokens[rank + 1]
            wanted = float(target[first])
            if wanted >= draft[first]:
                return rank, first
            chance, weight = rejected_pair(target, draft, gone, first, second)
            if rng.accept(chance, 1.0):
                return rank + 1, second
            if rng.accept(wanted, weight):
                return rank, first
        if len(tokens) % 2:
            left = tried(residual, untried, tokens[-1], rng)
            if left is None:
                return len(tokens) - 1, tokens[-1]
            residual = left
        return -1, sampled(residual.to(p.device), rng)

    def masses(self, p: Array, q: Array, num_ranks: int, rng: Any) -> Iterator[Rank]:
        """min(R, D) and S take Z along one path of rejected pairs; see `Verifier.masses`."""
        xp = namespace(p)
        residual, draft = p, q
        untried = xp.ones_like(q, dtype=xp.bool)
        survival = xp.ones_like(p[:, :1])
        for rank in range(0, num_ranks, 2):
            yield Rank(survival, xp.minimum(residual, draft))
            if rank + 1 == num_ranks:
                return
            pairs = _Pairs.of(residual, draft, untried)
            handed, taken, sum_handed, sum_taken = _water_filled(pairs)
            second = taken * sum_handed
            yield Rank(survival, second)
            if rank + 2 == num_ranks:
                return
            rejected = pairs.excess - handed * sum_taken
            first_gone = drawn(xp.clip(rejected, 0, None, out=rejected), rng)
            give = at(handed, first_gone) / (at(pairs.giving, first_gone) + TINY)
            partner = pairs.following - give * taken
            partner = fill_at(xp.clip(partner, 0, None, out=partner), first_gone, 0.0)
            second_gone = drawn(partner, rng)
            lack = pairs.lack - second
            residual, survival = left_over(xp.clip(lack, 0, None, out=lack), survival)
            both = xp.concatenate((first_gone, second_gone), -1)
            fill_at(untried, both, False)
            draft = rows_or_even(replaced_at(draft, both, 0.0), untried)

    def rates(
        self, p: np.ndarray, q: np.ndarray, num_children: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compiled: every path of rejected pairs where they are few; see `Verifier.rates`."""
        from .lookahead_rates import lookahead_rates

        return lookahead_rates(p, q, num_children, rng)


class _Pairs(NamedTuple):
    """The pairs that are drawn and what is needed of them at N nodes, float64 [N, V] each."""

    giving: Array
    """A; of use only where something of a is to be rejected (e > 0)."""
    following: Array
    """S: the pair (a, y) is drawn with chance A(a) S(y)."""
    excess: Array
    """e"""
    lack: Array
    """u"""

    @classmethod
    def of(cls, target: Array, draft: Array, untried: Array) -> _Pairs:
        """The pairs for R and D, float64 [N, V] with rows summing to 1; untried bool [N, V]."""
        xp = namespace(draft)
        excess, lack = draft - target, target - draft
        excess = xp.clip(excess, 0, None, out=excess)
        lack = xp.clip(lack, 0, None, out=lack)
        top = draft.argmax(-1, keepdims=True)
        # 1 - D(top), without the cancellation
        beside = replaced_at(draft, top, 0.0).sum(-1, keepdims=True)
        alone = beside <= 0
        after = fill_at(1 - draft, top, xp.where(alone, at(draft, top), beside))
        after += TINY
        giving = draft / after
        if not bool(alone.any()):
            return cls(giving, draft, excess, lack)
        even = replaced_at(converted(untried, "float64"), top, 0.0)
        even /= xp.clip(even.sum(-1, keepdims=True), 1, None)
        return cls(giving, xp.where(alone, even, draft), excess, lack)


def _water_filled(pairs: _Pairs) -> tuple[Array, Array, Array, Array]:
    """(A give, S take, float64 [N, V] each, Z, K, [N, 1]), with Z K = 0 if nothing is handed on.

    All sweeps but the last are in single precision, until they change nothing that it shows.  K
    comes out within some 1e-6 of itself, and as it falls from sweep to sweep, Z K and the mass of
    the rejected stay within their bounds to the same precision.  For many nodes at once this takes
    half the time.
    """
    xp = namespace(pairs.excess)
    rough = _Pairs(*(converted(each, "float32") for each in pairs))
    sum_taken, tiny = xp.ones_like(rough.excess[:, :1]), float(xp.finfo(xp.float32).tiny)
    for _ in range(SWEEPS - 1):
        before = sum_taken
        *_, sum_taken = _swept(rough, before, tiny)
        if bool((before - sum_taken <= 1e-6 * before).all()):
            break
    return _swept(pairs, converted(sum_taken, "float64"), TINY)


def _swept(pairs: _Pairs, sum_taken: Array, tiny: float) -> tuple[Array, Array, Array, Array]:
    """One sweep, from K of the last; `tiny` is lost in any sum but one of nothing, which it makes
    fit to divide by."""
    xp = namespace(pairs.excess)
    handed = pairs.excess / sum_taken
    sum_handed = xp.minimum(pairs.giving, handed, out=handed).sum(-1, keepdims=True)
    sum_handed += tiny
    taken = pairs.lack / sum_handed
    sum_taken = xp.minimum(pairs.following, taken, out=taken).sum(-1, keepdims=True)
    sum_taken += tiny
    return handed, taken, sum_handed, sum_taken
