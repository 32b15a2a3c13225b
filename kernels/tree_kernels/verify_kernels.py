"""The walk down a drafted tree that accepts and rejects, as one program on the device.

At a node R is what rejections have left of the target, D what is left of the draft.  Of both only
sums over the vocabulary are needed, and their entries at one token, for everything else follows
from the children that were rejected: R and D of every token are computed anew wherever they are
looked at, in registers, and nothing of the size of the vocabulary is ever written.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl

INDEPENDENT = tl.constexpr(0)
DISTINCT = tl.constexpr(1)
SAMPLED = tl.constexpr(2)
NEVER = tl.constexpr(2**30)
ENDS = tl.constexpr(-1)
NO_NUMBERS = tl.constexpr(-2)
BELOW_ONE = tl.constexpr(1.0 - 2.0**-50)


@triton.jit
def _left(residual, draft, token, rank, even_from, shares, family, tokens, METHOD: tl.constexpr):
    """(R, D) at tokens, once the first `rank` children are rejected; at first (p, q).

    shares     float64 [rank]  sum R / sum D when each of them was tried
    family     int32 [rank]    these children
    even_from  rank from which D is even over the tokens that are not gone, q being used up
    """
    gone = token < 0
    for tried in range(rank):
        here = tl.where(tried >= even_from, 1.0, draft).to(draft.dtype)
        here = tl.where(gone, 0.0, here).to(draft.dtype)
        share = tl.load(shares + tried).to(draft.dtype)
        residual = tl.maximum(residual - share * here, 0.0)
        if METHOD == DISTINCT:
            gone = gone | (token == tl.load(tokens + tl.load(family + tried)))
    here = tl.where(rank >= even_from, 1.0, draft).to(draft.dtype)
    return residual, tl.where(gone, 0.0, here).to(draft.dtype)


@triton.jit
def _sums(
    p, q, rank, even_from, shares, family, tokens, num_tokens,
    METHOD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """float64 (sum R, sum D)."""
    of_target = tl.zeros([BLOCK], p.dtype.element_ty)
    of_draft = tl.zeros([BLOCK], q.dtype.element_ty)
    for first in range(0, num_tokens, BLOCK):
        token = first + tl.arange(0, BLOCK)
        residual = tl.load(p + token, token < num_tokens, 0.0)
        draft = tl.load(q + token, token < num_tokens, 0.0)
        residual, draft = _left(
            residual, draft, token, rank, even_from, shares, family, tokens, METHOD
        )
        of_target += residual
        of_draft += tl.where(token < num_tokens, draft, 0.0)
    return tl.sum(of_target.to(tl.float64), 0), tl.sum(of_draft.to(tl.float64), 0)


@triton.jit
def _sampled(
    p, q, rank, even_from, shares, family, tokens, num_tokens, height,
    METHOD: tl.constexpr, BLOCK: tl.constexpr,
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
        residual, draft = _left(
            residual, draft, token, rank, even_from, shares, family, tokens, METHOD
        )
        sums = passed + tl.cumsum(residual.to(tl.float64), 0)
        # A sum may be rounded up at a token that R does not have.
        reached = tl.min(tl.where((sums > height) & (residual > 0), token, NEVER), 0)
        found = tl.where(reached < NEVER, reached, found)
        last = tl.maximum(last, tl.max(tl.where(residual > 0, token, -1), 0))
        passed += tl.sum(residual.to(tl.float64), 0)
        first += BLOCK
    return tl.where(found < 0, last, found)


@triton.jit(
    do_not_specialize=["num_nodes", "num_tokens"],
    # Parts of one tensor, which begin anywhere: no tree shall need a kernel of its own.
    do_not_specialize_on_alignment=["draft_rows", "starts", "children"],
)
def descend(
    target_probs,  # float [n, V]
    draft_probs,  # float [m, V]
    draft_rows,  # int32 [n]
    starts,  # int32 [n + 1]
    children,  # int32 [n - 1]
    tokens,  # int64 [n]
    uniforms,  # float64 [n]
    shares,  # float64 [n], to write in
    walked,  # int64 [2, n + 1]
    num_nodes,
    num_tokens,
    METHOD: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One tree, from its root to where nothing more is accepted: grid (1,)."""
    node = tl.zeros([], tl.int32)
    count = tl.zeros([], tl.int32)
    used = tl.zeros([], tl.int32)
    while node >= 0:
        p = target_probs + node.to(tl.int64) * num_tokens
        q = draft_probs + tl.load(draft_rows + node).to(tl.int64) * num_tokens
        begin = tl.load(starts + node)
        num_children = tl.load(starts + node + 1) - begin
        family = children + begin
        rank = tl.zeros([], tl.int32)
        even_from = tl.full([], NEVER, tl.int32)
        chosen = tl.full([], ENDS, tl.int32)
        left, mass = _sums(p, q, rank, even_from, shares, family, tokens, num_tokens, METHOD, BLOCK)
        sane = (left > 0) & ((mass > 0) | (num_children == 0))
        token = tl.full([], -1, tl.int64)
        if METHOD != SAMPLED:
            searching = sane & (num_children > 0)
            while searching:
                child = tl.load(family + rank)
                token = tl.load(tokens + child)
                residual, draft = _left(
                    tl.load(p + token), tl.load(q + token), token, rank, even_from, shares,
                    family, tokens, METHOD,
                )  # fmt: skip
                coin = tl.load(uniforms + used)
                used += 1
                if coin * (draft.to(tl.float64) * left) < residual.to(tl.float64) * mass:
                    chosen = child
                else:
                    tl.debug_barrier()  # every warp has read the shares
                    tl.store(shares + rank, left / mass)
                    tl.debug_barrier()
                    rest, rest_of_draft = _sums(
                        p, q, rank + 1, even_from, shares, family, tokens, num_tokens, METHOD, BLOCK
                    )
                    if rest > 0:
                        rank += 1
                        left = rest
                        mass = rest_of_draft
                        if mass == 0:
                            even_from = rank
                            mass = (num_tokens - rank).to(tl.float64)
                    else:  # R and D are equal up to rounding, where nothing is ever rejected
                        chosen = child
                searching = (chosen < 0) & (rank < num_children)
        if sane & (chosen < 0):
            height = tl.load(uniforms + used) * BELOW_ONE * left
            used += 1
            token = _sampled(
                p, q, rank, even_from, shares, family, tokens, num_tokens, height, METHOD, BLOCK
            ).to(tl.int64)
            if METHOD == SAMPLED:
                for place in range(num_children):
                    child = tl.load(family + place)
                    same = (tl.load(tokens + child) == token) & (chosen < 0)
                    chosen = tl.where(same, child, chosen)
        tl.store(walked + count, tl.where(sane, chosen, NO_NUMBERS).to(tl.int64))
        tl.store(walked + num_nodes + 1 + count, token)
        count += 1
        node = tl.where(sane, chosen, NO_NUMBERS)
