"""Recursive rejection, and steps that verifiers share: at one node while decoding, and at many.

All methods of rejection keep R, what rejections left of the target, and D, what is left of the
draft: a child drawn from D is accepted with probability R / D at its token, and after a rejection
R becomes norm((R - D)+).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..documents.document import PlannerError
from .namespace import (
    TINY,
    Array,
    at,
    converted,
    fill_at,
    namespace,
    on_host,
    places,
    replaced_at,
    uniforms,
)
from .verifier import Random, Source, Verifier, source_of

SWEEPS = 8
"""Most sweeps of look-ahead's water-filling.  The number is part of the method: decoding, profiles
and planning must agree on it."""

LITTLE_LEFT = 1e-30
"""A draft that is left with less than so much of the target's sum is scaled up to it: the ratio of
both is no float32 where all that is left is below that type's normal numbers."""

NO_NUMBERS = (
    "logits: got NaN or infinity from a model, expected numbers; load the models in bfloat16 or "
    "float32"
)


class Rejection(Verifier):
    """Children tried one after the other; D loses those that were tried where they are distinct."""

    plain_with_one_child = True

    def verify(self, p: Array, q: Array, drafts: Array, rng: Random) -> tuple[int, int]:
        """Try each child on what the earlier ones left; see `Verifier.verify`."""
        rng = source_of(rng)
        residual, draft = p, q
        tokens: list[int] = drafts.tolist()
        for rank, token in enumerate(tokens):
            if rank > 0 and self.distinct:
                draft = without(draft, tokens[:rank])
            left = tried(residual, draft, token, rng)
            if left is None:
                return rank, token
            residual = left
        return -1, sampled(residual, rng)

    def draw_given(
        self, p: Array, q: Array, tokens: Array, num_children: int, source: Source
    ) -> tuple[Array, Array]:
        """Children tried one after the other, given the token that comes out."""
        certain = namespace(p).ones_like(tokens, dtype=namespace(p).float64)
        return self.draw_entered(certain, p, q, tokens, num_children, source)[:2]

    def draw_entered(
        self, entered: Array, p: Array, q: Array, tokens: Array, num_children: int, source: Source
    ) -> tuple[Array, Array, Array]:
        """Children tried one after the other, given the token that comes out.

        With y the token,  P(rank r is accepted | y, all before it were rejected) =
        min(1, D(y) / R(y)),  and a rejected child is distributed as (D - R)+, whatever y is.  The
        children behind the accepted one are drawn from what is left of the draft, as always.  R
        sums to the acceptance, which is 1 where nodes are judged by themselves; what lacks to 1
        grows as `left_over` says.

        Compiled on the host, where the source gives its numbers away.  Raises PlannerError for NaN
        there.
        """
        xp = namespace(tokens)
        numbers = getattr(source, "uniforms", None) if on_host(p) else None
        if numbers is not None:
            from .entered_draws import entered_draws

            if not bool(xp.isfinite(p.sum() + q.sum())):
                raise PlannerError(NO_NUMBERS)
            coins = numbers((num_children, 2, len(tokens)), p.device)
            arrays = map(np.ascontiguousarray, (entered, p, q, tokens, coins))
            children, ranks, entering = entered_draws(*arrays, distinct=self.distinct)
            return xp.asarray(children), xp.asarray(ranks), xp.asarray(entering)
        return self.entered_plainly(entered, p, q, tokens, num_children, source)

    def entered_plainly(
        self, entered: Array, p: Array, q: Array, tokens: Array, num_children: int, source: Source
    ) -> tuple[Array, Array, Array]:
        """`draw_entered`, all nodes' children of a rank together."""
        xp = namespace(tokens)
        residual, draft = rows_to_one(p.double()) * entered[:, None], rows_to_one(q.double())
        missing, untried = 1 - entered[:, None], xp.ones_like(draft)
        token, taken = tokens[:, None], xp.full_like(tokens, -1)
        children, entering = [], []
        for rank in range(num_children):
            searching = taken < 0
            lack, excess = (residual - draft).clamp(min=0), (draft - residual).clamp(min=0)
            there = token.clamp(min=0)
            coin = xp.concatenate(
                (at(lack, there), xp.minimum(at(residual, there), at(draft, there))), -1
            )
            accepted = searching & (tokens >= 0) & (source.categorical(_possible(coin)) == 1)
            rejected = searching & ~accepted & (excess.sum(-1) > 0)
            child = source.categorical(xp.where(rejected[:, None], excess, draft))
            child = xp.where(accepted, tokens, child)
            taken[accepted] = rank
            children.append(child)
            ratio = at(residual, child[:, None]) / _at_least_tiny(at(draft, child[:, None]))
            entering.append(ratio[:, 0].clamp(max=1))
            if self.distinct:
                fill_at(untried, child[:, None], 0.0)
                draft = rows_or_even(replaced_at(draft, child[:, None], 0.0), untried)
            left = lack.sum(-1, keepdims=True) + missing
            residual = xp.where(left > 0, lack / _at_least_tiny(left), residual)
            missing = missing / _at_least_tiny(left)
        return xp.stack(children, -1), taken, xp.stack(entering, -1)


# --------------------------------------------------------------- one node, while decoding


def sampled(probs: Array, rng: Source) -> int:
    """One token.  Raises PlannerError for NaN, past whose sum no token is found."""
    token = int(rng.categorical(probs))
    if token >= len(probs):
        raise PlannerError(NO_NUMBERS)
    return token


def normalised(probs: Array) -> Array:
    """float64 [V], summing to 1; probs tensor [V].  Raises PlannerError for NaN."""
    probs = probs.double()
    total = float(probs.sum())
    if not total > 0:
        raise PlannerError(NO_NUMBERS)
    return probs / total


def tried(residual: Array, draft: Array, token: int, rng: Source) -> Array | None:
    """Try `token`, drawn from `draft`, on the residual target: None if it is accepted, else what
    is left, (residual - draft)+, in the residual's own scale.

    Neither needs to be normalised: one scale and no division serves.  Raises PlannerError for NaN.
    """
    shares = (residual[token], draft[token], residual.sum(), draft.sum())
    target, share, target_mass, draft_mass = namespace(residual).stack(shares).tolist()
    if not (target_mass > 0 and draft_mass > 0):
        raise PlannerError(NO_NUMBERS)
    if draft_mass < LITTLE_LEFT * target_mass:
        return tried(residual, draft / draft.sum() * target_mass, token, rng)
    if rng.accept(target * draft_mass, share * target_mass):
        return None
    left = residual.sub(draft, alpha=target_mass / draft_mass).clamp_(min=0)
    # Nothing left: they are equal up to rounding, and the target's stays as good as what is left.
    return left if float(left.sum()) > 0 else residual


def without(draft: Array, gone: list[int]) -> Array:
    """The draft distribution less `gone`, whose last token was the last to go; not normalised, and
    written in place but for the first to go."""
    rest = draft.clone() if len(gone) == 1 else draft
    rest[gone[-1]] = 0
    if float(rest.sum()) > 0:
        return rest
    rest = rest.new_ones(rest.shape)
    rest[gone] = 0
    return rest


# ------------------------------------------------------------------- many nodes at once


def rows_to_one(weights: Array) -> Array:
    """`weights` [N, V] with rows summing to 1; rows of zeros stay so."""
    return weights / _at_least_tiny(weights.sum(-1, keepdims=True))


def rows_or_even(weights: Array, untried: Array) -> Array:
    """`weights` [N, V] with rows summing to 1; rows of zeros are even where `untried` is."""
    xp = namespace(weights)
    total = weights.sum(-1, keepdims=True)
    if bool((total > 0).all()):
        return weights / total
    even = converted(untried, "float64")
    even = even / xp.clip(even.sum(-1, keepdims=True), 1, None)
    return xp.where(total > 0, weights / _at_least_tiny(total), even)


def left_over(lack: Array, survival: Array, entered: float = 1.0) -> tuple[Array, Array]:
    """(R after a rejection, the chance [N, 1] to come so far); lack [N, V] is (R - D)+, which is
    scaled in place.

    entered  what R summed to at first.  If that is 1, it sums to 1 ever after; if not, what it
             lacks, of which nothing has to come, is the larger a share the rarer all this is
    """
    left = lack.sum(-1, keepdims=True)
    if entered < 1:
        left += (1 - entered) / _at_least_tiny(survival)
    lack /= _at_least_tiny(left)
    return lack, survival * left


def drawn(weights: Array, rng: Any) -> Array:
    """One index a row with probability proportional to `weights` [N, V]; int64 [N, 1].

    A row without any weight (nothing can be rejected there) gives an arbitrary index: what follows
    in such a row is multiplied by a survival of zero.
    """
    cumulative = weights.cumsum(-1)
    found = places(cumulative, uniforms(weights, rng) * cumulative[:, -1:])
    return namespace(weights).clip(found, 0, weights.shape[-1] - 1)


def _possible(coin: Array) -> Array:
    """The coin's two sides; heads where a token that cannot come out gives neither any weight."""
    xp = namespace(coin)
    return xp.where(coin.sum(-1, keepdims=True) > 0, coin, xp.ones_like(coin))


def _at_least_tiny(values: Array) -> Array:
    """`values`, float64, at least the smallest normal number: something to divide by."""
    return namespace(values).clip(values, TINY, None)
