"""The judges of children that are accepted by a coupling of all of them with the target, as parts
of the kernel `descend`: K-sequential selection, and SpecHub's pairs.

What they are told and return is as in `judge_kernels`.  Both distributions are brought to sums of 1
in float64: what decides here are differences of sums that may be nearly equal.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl

from . import judges
from .judge_kernels import (
    BELOW_ONE,
    ENDS,
    NEVER,
    NO_NUMBERS,
    first_above,
    independent,
    left_over,
    sums_left,
)

BISECTIONS = tl.constexpr(judges.BISECTIONS)


@triton.jit
def _both(p, q, token, num_tokens, left, mass):
    """float64 (p / sum p, q / sum q) at tokens, 0 behind the vocabulary's end."""
    target = tl.load(p + token, token < num_tokens, 0.0).to(tl.float64)
    return target / left, tl.load(q + token, token < num_tokens, 0.0).to(tl.float64) / mass


@triton.jit
def _weighed(
    p, q, num_tokens, left, mass, one, other, hub, coin, WEIGHT: tl.constexpr, BLOCK: tl.constexpr
):
    """A token drawn in proportion to what the function `WEIGHT` of (p, q, token, one, other, hub)
    says; to p if that is nothing, by rounding."""
    total = tl.zeros([], tl.float64)
    for first in range(0, num_tokens, BLOCK):
        token = first + tl.arange(0, BLOCK)
        target, draft = _both(p, q, token, num_tokens, left, mass)
        total += tl.sum(WEIGHT(target, draft, token, one, other, hub), 0)
    something = total > 0
    height = coin * BELOW_ONE * tl.where(something, total, 1.0)
    passed = tl.zeros([], tl.float64)
    found = tl.full([], -1, tl.int32)
    last = tl.full([], -1, tl.int32)
    begin = tl.zeros([], tl.int32)
    while (found < 0) & (begin < num_tokens):
        token = begin + tl.arange(0, BLOCK)
        target, draft = _both(p, q, token, num_tokens, left, mass)
        weights = tl.where(something, WEIGHT(target, draft, token, one, other, hub), target)
        passed, found, last = first_above(weights, token, height, passed, found, last)
        begin += BLOCK
    return tl.where(found < 0, last, found).to(tl.int64)


# ------------------------------------------------------------------ K-sequential selection


@triton.jit
def _selectable(p, q, left, mass, factor, num_children, num_tokens, BLOCK: tl.constexpr):
    """(sum (q - p / g)+, and is sum (p - g q)+ at most that to the power of the children?)."""
    lack = tl.zeros([BLOCK], tl.float64)
    excess = tl.zeros([BLOCK], tl.float64)
    for first in range(0, num_tokens, BLOCK):
        token = first + tl.arange(0, BLOCK)
        target, draft = _both(p, q, token, num_tokens, left, mass)
        lack += tl.maximum(target - factor * draft, 0.0)
        excess += tl.maximum(draft - target / factor, 0.0)
    rejected = tl.sum(excess, 0)
    all_rejected = tl.full([], 1.0, tl.float64)
    for _ in range(num_children):
        all_rejected *= rejected
    return rejected, all_rejected, tl.sum(lack, 0) <= all_rejected


@triton.jit
def _unselected(target, draft, token, factor, trials, hub):
    """p - trials min(q, p / g)"""
    return tl.maximum(target - trials * tl.minimum(draft, target / factor), 0.0)


@triton.jit
def sequential(
    p, q, family, num_children, shares, tokens, uniforms, used, num_tokens, BLOCK: tl.constexpr
):
    """Independent draws, each accepted with chance p / (g q), with one factor g for all."""
    never = tl.full([], NEVER, tl.int32)
    left, mass = sums_left(p, q, 0, never, shares, family, tokens, num_tokens, False, BLOCK)
    sane = (left > 0) & ((mass > 0) | (num_children == 0))
    chosen = tl.full([], ENDS, tl.int32)
    token = tl.full([], -1, tl.int64)
    factor = tl.full([], 1.0, tl.float64)
    trials = tl.zeros([], tl.float64)
    if sane & (num_children > 0):
        low = tl.full([], 1.0, tl.float64)
        rejected, all_rejected, within = _selectable(
            p, q, left, mass, low, num_children, num_tokens, BLOCK
        )
        factor = tl.where(within, low, num_children.to(tl.float64))
        for _ in range(BISECTIONS):
            middle = (low + factor) / 2
            rejected, all_rejected, within = _selectable(
                p, q, left, mass, middle, num_children, num_tokens, BLOCK
            )
            low = tl.where(within, low, middle)
            factor = tl.where(within, middle, factor)
        rank = tl.zeros([], tl.int32)
        while (chosen < 0) & (rank < num_children):
            child = tl.load(family + rank)
            token = tl.load(tokens + child)
            target, draft = _both(p, q, token, num_tokens, left, mass)
            chosen = tl.where(tl.load(uniforms + used) * (factor * draft) < target, child, chosen)
            used += 1
            rank += 1
        rejected, all_rejected, within = _selectable(
            p, q, left, mass, factor, num_children, num_tokens, BLOCK
        )
        accepted = 1.0 - rejected  # 0: and so are all trials
        trials = (1.0 - all_rejected) / tl.where(accepted > 0, accepted, 1.0)
    if sane & (chosen < 0):
        token = _weighed(
            p, q, num_tokens, left, mass, factor, trials, never, tl.load(uniforms + used),
            _unselected, BLOCK,
        )  # fmt: skip
        used += 1
    return tl.where(sane, chosen, NO_NUMBERS), token, used


# ---------------------------------------------------------------------------- SpecHub's pairs


@triton.jit
def top_and_rest(
    p, q, rank, even_from, shares, family, tokens, num_tokens,
    DISTINCT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """(the first token of the greatest D, the sum of D without it)."""
    top = tl.full([], 0, tl.int32)
    greatest = tl.full([], -1.0, tl.float64)
    beside = tl.zeros([], tl.float64)
    for first in range(0, num_tokens, BLOCK):
        token = first + tl.arange(0, BLOCK)
        residual = tl.load(p + token, token < num_tokens, 0.0)
        draft = tl.load(q + token, token < num_tokens, 0.0)
        residual, draft = left_over(
            residual, draft, token, rank, even_from, shares, family, tokens, DISTINCT
        )
        draft = tl.where(token < num_tokens, draft.to(tl.float64), -1.0)
        highest = tl.max(draft, 0)
        where = tl.min(tl.where(draft == highest, token, NEVER), 0)
        higher = highest > greatest
        # The greatest so far joins the others when it is beaten.
        beside += tl.sum(tl.where((token < num_tokens) & (token != where), draft, 0.0), 0)
        beside += tl.maximum(tl.where(higher, greatest, highest), 0.0)
        top = tl.where(higher, where, top)
        greatest = tl.where(higher, highest, greatest)
    return top, beside


@triton.jit
def _hub_pairs(target, draft, token, steep, even, hub):
    """(f, s, the mass of the pairs (a, x), that of (x, a)): what of the two kinds of pairs is
    accepted as x; 0 at the hub a and behind the vocabulary's end, where q is below 0."""
    beside = (token != hub) & (draft >= 0)
    then_hub = tl.where(beside, draft, 0.0)
    hub_then = tl.where(beside, steep * draft + even, 0.0)
    wanted = tl.where(beside, target, 0.0)
    as_first = tl.minimum(wanted, then_hub)
    return as_first, tl.minimum(wanted - as_first, hub_then), hub_then, then_hub


@triton.jit
def _outside_pairs(target, draft, token, steep, even, hub):
    """p - f - s, and nothing of the hub."""
    as_first, as_second, _, _ = _hub_pairs(target, draft, token, steep, even, hub)
    return tl.where(token == hub, 0.0, tl.maximum(target - as_first - as_second, 0.0))


@triton.jit
def _hub(p, q, family, shares, tokens, uniforms, used, num_tokens, BLOCK: tl.constexpr):
    """The judge of two children, one of which is the draft's most probable token."""
    never = tl.full([], NEVER, tl.int32)
    left, mass = sums_left(p, q, 0, never, shares, family, tokens, num_tokens, False, BLOCK)
    sane = (left > 0) & (mass > 0)
    chosen = tl.full([], ENDS, tl.int32)
    token = tl.full([], -1, tl.int64)
    if sane:
        hub, beside = top_and_rest(p, q, 0, never, shares, family, tokens, num_tokens, False, BLOCK)
        of_hub, heavy = _both(p, q, hub, num_tokens, left, mass)
        alone = beside == 0
        steep = tl.where(alone, 0.0, heavy * mass / tl.where(alone, 1.0, beside))
        even = tl.where(alone, heavy / (num_tokens - 1), 0.0)
        spare_first = tl.zeros([BLOCK], tl.float64)
        spare_second = tl.zeros([BLOCK], tl.float64)
        for first in range(0, num_tokens, BLOCK):
            here = first + tl.arange(0, BLOCK)
            target, draft = _both(p, q, here, num_tokens, left, mass)
            draft = tl.where(here < num_tokens, draft, -1.0)
            as_first, as_second, hub_then, then_hub = _hub_pairs(
                target, draft, here, steep, even, hub
            )
            spare_first += hub_then - as_second
            spare_second += then_hub - as_first
        spare_first, spare_second = tl.sum(spare_first, 0), tl.sum(spare_second, 0)
        hub_first = tl.minimum(of_hub, spare_first)
        hub_second = tl.minimum(of_hub - hub_first, spare_second)
        one, two = tl.load(family), tl.load(family + 1)
        hub_leads = tl.load(tokens + one) == hub
        other = tl.where(hub_leads, two, one)
        token = tl.load(tokens + other)
        target, draft = _both(p, q, token, num_tokens, left, mass)
        as_first, as_second, hub_then, then_hub = _hub_pairs(target, draft, token, steep, even, hub)
        accepted = tl.where(hub_leads, as_second, as_first)
        if tl.load(uniforms + used) * tl.where(hub_leads, hub_then, then_hub) < accepted:
            chosen = other
            used += 1
        else:
            token = hub.to(tl.int64)
            spare = tl.where(hub_leads, spare_first, spare_second)
            to_hub = tl.load(uniforms + used + 1) * spare < tl.where(
                hub_leads, hub_first, hub_second
            )
            chosen = tl.where(to_hub, tl.where(hub_leads, one, two), ENDS)
            used += 2
        if chosen < 0:
            token = _weighed(
                p, q, num_tokens, left, mass, steep, even, hub, tl.load(uniforms + used),
                _outside_pairs, BLOCK,
            )  # fmt: skip
            used += 1
    return tl.where(sane, chosen, NO_NUMBERS), token, used


@triton.jit
def hub(
    p, q, family, num_children, shares, tokens, uniforms, used, num_tokens, BLOCK: tl.constexpr
):
    """Pairs with the draft's most probable token; a lone child is tried like any."""
    if num_children > 1:
        chosen, token, used = _hub(p, q, family, shares, tokens, uniforms, used, num_tokens, BLOCK)
    else:
        chosen, token, used = independent(
            p, q, family, num_children, shares, tokens, uniforms, used, num_tokens, BLOCK
        )
    return chosen, token, used
