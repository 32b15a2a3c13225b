"""The judge of rejection in pairs, as a part of the kernel `descend`; the names of what it computes
are those of `planner.verifiers.lookahead`."""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl

from . import judges
from .coupling_kernels import top_and_rest
from .judge_kernels import (
    BELOW_ONE,
    ENDS,
    NEVER,
    NO_NUMBERS,
    left_over,
    mass_or_even,
    put_share,
    sampled_left,
    sums_left,
    tried,
)

SWEEPS = tl.constexpr(judges.SWEEPS)


@triton.jit
def _left_of_both(
    p, q, token, rank, even_from, shares, family, tokens, num_tokens, left, mass, top, alone
):  # fmt: skip
    """float64 (R, D, S) at tokens, R and D summing to 1: the second of a pair is drawn from S,
    which is D, or even over what else is not tried where all of D lies on one token."""
    inside = token < num_tokens
    residual, draft = left_over(
        tl.load(p + token, inside, 0.0), tl.load(q + token, inside, 0.0), token, rank, even_from,
        shares, family, tokens, True,
    )  # fmt: skip
    residual = residual.to(tl.float64) / left
    draft = tl.where(inside, draft.to(tl.float64) / mass, 0.0)
    others = inside & (token != top)
    for place in range(rank):
        others = others & (token != tl.load(tokens + tl.load(family + place)))
    even = tl.where(others, 1.0 / tl.maximum(num_tokens - rank - 1, 1), 0.0).to(tl.float64)
    return residual, draft, tl.where(alone, even, draft)


@triton.jit
def _at_first(residual, draft, token, top, at_top, before):
    """(A, A give): the chance of each token to be the first of a pair, as far as something of it
    is to be rejected, and what of that is handed to the second."""
    giving = draft / tl.where(token == top, at_top, 1.0 - draft)
    giving = tl.where(draft > residual, giving, 0.0)
    return giving, tl.minimum(giving, tl.maximum(draft - residual, 0.0) / before)


@triton.jit
def _at_second(residual, draft, following, handed):
    """S take: what of the second is accepted before the first is looked at, over `handed`, Z."""
    return tl.minimum(following, tl.maximum(residual - draft, 0.0) / handed)


@triton.jit
def _swept(
    p, q, rank, even_from, shares, family, tokens, num_tokens, left, mass, top, alone, at_top,
    before, BLOCK: tl.constexpr,
):  # fmt: skip
    """(Z, K) of one sweep, from K of the last."""
    sums = tl.zeros([BLOCK], tl.float64)
    for first in range(0, num_tokens, BLOCK):
        token = first + tl.arange(0, BLOCK)
        residual, draft, following = _left_of_both(
            p, q, token, rank, even_from, shares, family, tokens, num_tokens, left, mass, top, alone
        )
        _, handed = _at_first(residual, draft, token, top, at_top, before)
        sums += handed
    sum_handed = tl.sum(sums, 0)
    sums = tl.zeros([BLOCK], tl.float64)
    if sum_handed > 0:
        for first in range(0, num_tokens, BLOCK):
            token = first + tl.arange(0, BLOCK)
            residual, draft, following = _left_of_both(
                p, q, token, rank, even_from, shares, family, tokens, num_tokens, left, mass, top,
                alone,
            )  # fmt: skip
            sums += _at_second(residual, draft, following, sum_handed)
    return sum_handed, tl.sum(sums, 0)


@triton.jit
def _pair_tried(
    p, q, rank, even_from, shares, family, tokens, uniforms, used, num_tokens, left, mass,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Try the children of ranks `rank` and `rank + 1`: (that of the accepted one or -1, random
    numbers used, Z, does all of D lie on one token?)."""
    first = tl.load(tokens + tl.load(family + rank))
    second = tl.load(tokens + tl.load(family + rank + 1))
    top, beside = top_and_rest(
        p, q, rank, even_from, shares, family, tokens, num_tokens, True, BLOCK
    )
    alone = beside == 0
    wanted, drawn, following = _left_of_both(
        p, q, first, rank, even_from, shares, family, tokens, num_tokens, left, mass, top, alone
    )
    accepted = tl.full([], -1, tl.int32)
    given = tl.zeros([], tl.float64)
    if wanted >= drawn:
        accepted = rank
    else:
        at_top = tl.where(alone, mass, beside) / mass
        taken = tl.full([], 1.0, tl.float64)
        before = taken
        more = tl.full([], 1, tl.int32)
        sweep = tl.zeros([], tl.int32)
        while (more == 1) & (sweep < SWEEPS):
            before = taken
            given, taken = _swept(
                p, q, rank, even_from, shares, family, tokens, num_tokens, left, mass, top, alone,
                at_top, before, BLOCK,
            )  # fmt: skip
            more = ((taken > 0) & (taken != before)).to(tl.int32)
            sweep += 1
        handing = taken > 0
        given = tl.where(handing, given, 0.0)
        giving, handed = _at_first(wanted, drawn, first, top, at_top, before)
        other, of_draft, following = _left_of_both(
            p, q, second, rank, even_from, shares, family, tokens, num_tokens, left, mass, top,
            alone,
        )  # fmt: skip
        received = _at_second(other, of_draft, following, tl.where(handing, given, 1.0))
        possible = handing & (giving > 0) & (following > 0)
        chance = tl.where(
            possible,
            handed
            / tl.where(possible, giving, 1.0)
            * received
            / tl.where(possible, following, 1.0),
            0.0,
        )
        weight = drawn - tl.where(handing, handed * taken, 0.0)
        of_first = tl.load(uniforms + used + 1) * weight < wanted
        of_second = tl.load(uniforms + used) < chance
        accepted = tl.where(of_second, rank + 1, tl.where(of_first, rank, -1))
        used += tl.where(of_second, 1, 2)
    return accepted, used, given, alone


@triton.jit
def paired(
    p, q, family, num_children, shares, tokens, uniforms, used, num_tokens, BLOCK: tl.constexpr
):
    """Children drawn without replacement, judged two at a time; a last one like any.

    Whichever pair is rejected, R becomes (R - D - Z S)+: D is taken off as the share of its first
    child, S as that of its second.
    """
    rank = tl.zeros([], tl.int32)
    even_from = tl.full([], NEVER, tl.int32)
    chosen = tl.full([], ENDS, tl.int32)
    token = tl.full([], -1, tl.int64)
    left, mass = sums_left(p, q, rank, even_from, shares, family, tokens, num_tokens, True, BLOCK)
    sane = (left > 0) & ((mass > 0) | (num_children == 0))
    rest_of_draft = mass
    while sane & (chosen < 0) & (rank < num_children):
        num_tried = tl.minimum(num_children - rank, 2)
        if num_tried == 2:
            accepted, used, given, alone = _pair_tried(
                p, q, rank, even_from, shares, family, tokens, uniforms, used, num_tokens, left,
                mass, BLOCK,
            )  # fmt: skip
            if accepted < 0:
                put_share(shares, rank, left / mass)
                if alone:
                    even_from = tl.minimum(even_from, rank + 1)
                    mass = (num_tokens - rank - 1).to(tl.float64)
                put_share(shares, rank + 1, given * left / mass)
        else:
            accepted, used = tried(
                p, q, rank, even_from, shares, family, tokens, uniforms, used, left, mass, True
            )
            if accepted < 0:
                put_share(shares, rank, left / mass)
        if accepted < 0:
            rest, rest_of_draft = sums_left(
                p, q, rank + num_tried, even_from, shares, family, tokens, num_tokens, True, BLOCK
            )
            if rest > 0:
                left = rest
            elif num_tried == 2:  # by rounding alone: R may stay
                put_share(shares, rank, tl.zeros([], tl.float64))
                put_share(shares, rank + 1, tl.zeros([], tl.float64))
            else:  # R and D are equal up to rounding, where nothing is ever rejected
                accepted = rank
        if accepted >= 0:
            chosen = tl.load(family + accepted)
            token = tl.load(tokens + chosen)
        else:
            rank += num_tried
            mass, even_from = mass_or_even(rest_of_draft, rank, even_from, num_tokens)
    if sane & (chosen < 0):
        height = tl.load(uniforms + used) * BELOW_ONE * left
        used += 1
        token = sampled_left(
            p, q, rank, even_from, shares, family, tokens, num_tokens, height, True, BLOCK
        )
    return tl.where(sane, chosen, NO_NUMBERS), token, used
