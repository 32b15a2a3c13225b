"""The judges of one node's children, as parts of the kernels that walk down a drafted tree.

At a node R is what rejections have left of the target, D what is left of the draft.  Of both only
sums over the vocabulary are needed, and their entries at one token, for everything else follows
from the children that were rejected and a number for each of them, its share: R and D of every
token are computed anew wherever they are looked at, in registers, and nothing of the size of the
vocabulary is ever written.

A judge is told one node's p and q, its children and the walk's random numbers; it returns (the
accepted child, `ENDS` or `NO_NUMBERS`; the token that comes out; random numbers used so far).
"""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl

from . import judges

NEVER = tl.constexpr(2**30)
ENDS = tl.constexpr(judges.ENDS)
NO_NUMBERS = tl.constexpr(-2)
BELOW_ONE = tl.constexpr(judges.BELOW_ONE)
GREATEST_SHARE = tl.constexpr(1e74)
"""Shares are two factors of at most `GREATEST_FACTOR`: where all that is left of the draft is below
the normal numbers, what makes one of it is no float32."""
GREATEST_FACTOR = tl.constexpr(1e37)
LEAST_FACTOR = tl.constexpr(1e-37)


@triton.jit
def left_over(
    residual, draft, token, rank, even_from, shares, family, tokens, DISTINCT: tl.constexpr
):
    """(R, D) at tokens, once the first `rank` children are rejected; at first (p, q).

    shares     float64 [rank]  what was taken off R for each of them, as a multiple of D
    family     int32 [rank]    these children
    even_from  rank from which D is even over the tokens that are not gone, q being used up
    """
    gone = token < 0
    for tried in range(rank):
        here = tl.where(tried >= even_from, 1.0, draft).to(draft.dtype)
        here = tl.where(gone, 0.0, here).to(draft.dtype)
        share = tl.load(shares + tried)
        here *= tl.minimum(share, GREATEST_FACTOR).to(draft.dtype)
        here *= tl.maximum(share * LEAST_FACTOR, 1.0).to(draft.dtype)
        residual = tl.maximum(residual - here, 0.0)
        if DISTINCT:
            gone = gone | (token == tl.load(tokens + tl.load(family + tried)))
    here = tl.where(rank >= even_from, 1.0, draft).to(draft.dtype)
    return residual, tl.where(gone, 0.0, here).to(draft.dtype)


@triton.jit
def sums_left(
    p, q, rank, even_from, shares, family, tokens, num_tokens,
    DISTINCT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """float64 (sum R, sum D)."""
    of_target = tl.zeros([BLOCK], p.dtype.element_ty)
    of_draft = tl.zeros([BLOCK], q.dtype.element_ty)
    for first in range(0, num_tokens, BLOCK):
        token = first + tl.arange(0, BLOCK)
        residual = tl.load(p + token, token < num_tokens, 0.0)
        draft = tl.load(q + token, token < num_tokens, 0.0)
        residual, draft = left_over(
            residual, draft, token, rank, even_from, shares, family, tokens, DISTINCT
        )
        of_target += residual
        of_draft += tl.where(token < num_tokens, draft, 0.0)
    return tl.sum(of_target.to(tl.float64), 0), tl.sum(of_draft.to(tl.float64), 0)


@triton.jit
def first_above(weights, token, height, passed, found, last):
    """A search for the first token up to which weights sum to more than `height`, one block on:
    (sum so far, that token or -1, the last token of any weight so far or -1)."""
    weights = weights.to(tl.float64)
    sums = passed + tl.cumsum(weights, 0)
    # A sum may be rounded up at a token that weighs nothing.
    reached = tl.min(tl.where((sums > height) & (weights > 0), token, NEVER), 0)
    found = tl.where((found < 0) & (reached < NEVER), reached, found)
    last = tl.maximum(last, tl.max(tl.where(weights > 0, token, -1), 0))
    return passed + tl.sum(weights, 0), found, last


@triton.jit
def sampled_left(
    p, q, rank, even_from, shares, family, tokens, num_tokens, height,
    DISTINCT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The first token up to which R sums to more than `height`; the last that R has, if none."""
    passed = tl.zeros([], tl.float64)
    found = tl.full([], -1, tl.int32)
    last = tl.full([], -1, tl.int32)
    first = tl.zeros([], tl.int32)
    while (found < 0) & (first < num_tokens):
        token = first + tl.arange(0, BLOCK)
        residual = tl.load(p + token, token < num_tokens, 0.0)
        draft = tl.load(q + token, token < num_tokens, 0.0)
        residual, draft = left_over(
            residual, draft, token, rank, even_from, shares, family, tokens, DISTINCT
        )
        passed, found, last = first_above(residual, token, height, passed, found, last)
        first += BLOCK
    return tl.where(found < 0, last, found).to(tl.int64)


@triton.jit
def put_share(shares, place, share):
    """Write one of the shares, for every warp to read."""
    tl.debug_barrier()  # every warp has read the shares
    tl.store(shares + place, tl.minimum(share, GREATEST_SHARE))
    tl.debug_barrier()


@triton.jit
def mass_or_even(mass, rank, even_from, num_tokens):
    """(sum D, even_from), with D even where nothing was left of it at this rank."""
    empty = mass == 0
    mass = tl.where(empty, (num_tokens - rank).to(tl.float64), mass)
    return mass, tl.where(empty, tl.minimum(rank, even_from), even_from)


@triton.jit
def tried(
    p, q, rank, even_from, shares, family, tokens, uniforms, used, left, mass,
    DISTINCT: tl.constexpr,
):  # fmt: skip
    """Try the child of one rank: (the rank, or -1 where it is rejected; random numbers used)."""
    token = tl.load(tokens + tl.load(family + rank))
    residual, draft = left_over(
        tl.load(p + token), tl.load(q + token), token, rank, even_from, shares, family, tokens,
        DISTINCT,
    )  # fmt: skip
    accepted = tl.load(uniforms + used) * (draft.to(tl.float64) * left) < (
        residual.to(tl.float64) * mass
    )
    return tl.where(accepted, rank, -1), used + 1


@triton.jit
def sampled_first(
    p, q, family, num_children, shares, tokens, uniforms, used, num_tokens, BLOCK: tl.constexpr
):
    """A child is accepted if it is the token that the target samples."""
    never = tl.full([], NEVER, tl.int32)
    left, mass = sums_left(p, q, 0, never, shares, family, tokens, num_tokens, False, BLOCK)
    chosen = tl.full([], ENDS, tl.int32)
    token = tl.full([], -1, tl.int64)
    if (left > 0) & ((mass > 0) | (num_children == 0)):
        height = tl.load(uniforms + used) * BELOW_ONE * left
        used += 1
        token = sampled_left(
            p, q, 0, never, shares, family, tokens, num_tokens, height, False, BLOCK
        )
        for place in range(num_children):
            child = tl.load(family + place)
            same = (tl.load(tokens + child) == token) & (chosen < 0)
            chosen = tl.where(same, child, chosen)
    else:
        chosen = tl.full([], NO_NUMBERS, tl.int32)
    return chosen, token, used


@triton.jit
def _one_by_one(
    p, q, family, num_children, shares, tokens, uniforms, used, num_tokens,
    DISTINCT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    rank = tl.zeros([], tl.int32)
    even_from = tl.full([], NEVER, tl.int32)
    chosen = tl.full([], ENDS, tl.int32)
    token = tl.full([], -1, tl.int64)
    left, mass = sums_left(
        p, q, rank, even_from, shares, family, tokens, num_tokens, DISTINCT, BLOCK
    )
    sane = (left > 0) & ((mass > 0) | (num_children == 0))
    rest_of_draft = mass
    while sane & (chosen < 0) & (rank < num_children):
        accepted, used = tried(
            p, q, rank, even_from, shares, family, tokens, uniforms, used, left, mass, DISTINCT
        )
        if accepted < 0:
            put_share(shares, rank, left / mass)
            rest, rest_of_draft = sums_left(
                p, q, rank + 1, even_from, shares, family, tokens, num_tokens, DISTINCT, BLOCK
            )
            if rest > 0:
                left = rest
            else:  # R and D are equal up to rounding: R stays
                put_share(shares, rank, tl.zeros([], tl.float64))
        if accepted >= 0:
            chosen = tl.load(family + accepted)
            token = tl.load(tokens + chosen)
        else:
            rank += 1
            mass, even_from = mass_or_even(rest_of_draft, rank, even_from, num_tokens)
    if sane & (chosen < 0):
        height = tl.load(uniforms + used) * BELOW_ONE * left
        used += 1
        token = sampled_left(
            p, q, rank, even_from, shares, family, tokens, num_tokens, height, DISTINCT, BLOCK
        )
    return tl.where(sane, chosen, NO_NUMBERS), token, used


@triton.jit
def independent(
    p, q, family, num_children, shares, tokens, uniforms, used, num_tokens, BLOCK: tl.constexpr
):
    """Children drawn independently, tried one after the other."""
    return _one_by_one(
        p, q, family, num_children, shares, tokens, uniforms, used, num_tokens, False, BLOCK
    )


@triton.jit
def distinct(
    p, q, family, num_children, shares, tokens, uniforms, used, num_tokens, BLOCK: tl.constexpr
):
    """Children drawn without replacement, tried one after the other."""
    return _one_by_one(
        p, q, family, num_children, shares, tokens, uniforms, used, num_tokens, True, BLOCK
    )
