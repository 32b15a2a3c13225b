"""The walks down a drafted tree that accept and reject, each as one program on the device: node by
node, with one of the `JUDGES`, or by whole paths."""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl

from .coupling_kernels import hub, sequential
from .judge_kernels import (
    BELOW_ONE,
    ENDS,
    NEVER,
    NO_NUMBERS,
    distinct,
    independent,
    left_over,
    mass_or_even,
    put_share,
    sampled_first,
    sampled_left,
    sums_left,
)
from .pair_kernels import paired

JUDGES = {
    "independent": independent,
    "distinct": distinct,
    "sampled": sampled_first,
    "paired": paired,
    "sequential": sequential,
    "hub": hub,
}
"""The judges of the methods that go down node by node."""


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
    notes,  # float64 [6, n], to write in
    walked,  # int64 [2, n + 1]
    num_nodes,
    num_tokens,
    JUDGE: tl.constexpr,
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
        node, token, used = JUDGE(
            p, q, children + begin, num_children, notes, tokens, uniforms, used, num_tokens, BLOCK
        )
        tl.store(walked + count, node.to(tl.int64))
        tl.store(walked + num_nodes + 1 + count, token)
        count += 1


@triton.jit
def _note(notes, num_nodes, node, rank, even_from, acceptance, left, mass):
    """Write down how far an open node has come."""
    place = notes + num_nodes + node
    tl.store(place, rank.to(tl.float64))
    tl.store(place + num_nodes, even_from.to(tl.float64))
    tl.store(place + 2 * num_nodes, acceptance)
    tl.store(place + 3 * num_nodes, left)
    tl.store(place + 4 * num_nodes, mass)


@triton.jit
def _noted(notes, num_nodes, node):
    """(rank, even_from, acceptance, sum R, sum D) of an open node."""
    place = notes + num_nodes + node
    rank, even_from = tl.load(place).to(tl.int32), tl.load(place + num_nodes).to(tl.int32)
    acceptance = tl.load(place + 2 * num_nodes)
    return (
        rank,
        even_from,
        acceptance,
        tl.load(place + 3 * num_nodes),
        tl.load(place + 4 * num_nodes),
    )


@triton.jit(
    do_not_specialize=["num_nodes", "num_tokens"],
    do_not_specialize_on_alignment=["draft_rows", "starts", "children"],
)
def traverse(
    target_probs,  # float [n, V]
    draft_probs,  # float [m, V]
    draft_rows,  # int32 [n]
    starts,  # int32 [n + 1]
    children,  # int32 [n - 1]
    tokens,  # int64 [n]
    uniforms,  # float64 [n]
    notes,  # float64 [6, n], to write in: shares of children, then what `_note` writes of nodes
    walked,  # int64 [2, n + 1]
    num_nodes,
    num_tokens,
    BLOCK: tl.constexpr,
):
    """One tree, judged by whole paths, depth first from its root: grid (1,).

    A node is entered with an acceptance a.  Its children are tried in turn: each is entered with
    the acceptance a R / D at its token, and if nothing below is accepted, what is left of R is
    (a R - D)+.  Then the node itself is accepted with what has become of a; see `verify_walk`.
    """
    node = tl.zeros([], tl.int32)
    count = tl.zeros([], tl.int32)  # open nodes below the root, the first ones of `walked`
    used = tl.zeros([], tl.int32)
    rank = tl.zeros([], tl.int32)
    even_from = tl.full([], NEVER, tl.int32)
    acceptance = tl.full([], 1.0, tl.float64)
    left = tl.zeros([], tl.float64)
    mass = tl.zeros([], tl.float64)
    token = tl.full([], -1, tl.int64)
    rejected = tl.zeros([], tl.int32)  # 1: the node's child of this rank
    opened = tl.full([], 1, tl.int32)  # 1: the node, of which nothing is summed yet
    accepted = tl.zeros([], tl.int32)  # 1: the node, behind which the text goes on
    sane = tl.full([], 1, tl.int32)
    walking = tl.full([], 1, tl.int32)
    while walking == 1:
        p = target_probs + node.to(tl.int64) * num_tokens
        q = draft_probs + tl.load(draft_rows + node).to(tl.int64) * num_tokens
        begin = tl.load(starts + node)
        num_children = tl.load(starts + node + 1) - begin
        family, shares = children + begin, notes + begin
        # A leaf's p is not looked at before the leaf is accepted.
        if (rejected == 1) | ((opened == 1) & ((num_children > 0) | (accepted == 1))):
            if rejected == 1:
                put_share(shares, rank, left / (acceptance * mass))
                rank += 1
            rest, rest_of_draft = sums_left(
                p, q, rank, even_from, shares, family, tokens, num_tokens, True, BLOCK
            )
            if rejected == 1:
                owed = acceptance * rest / left
                if rest > 0:
                    left = rest
                elif acceptance == 1:  # R and D are equal up to rounding, and R may stay
                    put_share(shares, rank - 1, tl.zeros([], tl.float64))
                    owed = acceptance
                else:
                    rank = num_children
                acceptance = owed / (owed + (1 - acceptance))
                mass, even_from = mass_or_even(rest_of_draft, rank, even_from, num_tokens)
            else:
                left, mass = rest, rest_of_draft
                sane = ((left > 0) & ((mass > 0) | (num_children == 0))).to(tl.int32)
                walking = sane
            opened = tl.zeros([], tl.int32)
            rejected = tl.zeros([], tl.int32)
        if walking == 1:
            if rank < num_children:
                child = tl.load(family + rank)
                tried = tl.load(tokens + child)
                residual, draft = left_over(
                    tl.load(p + tried), tl.load(q + tried), tried, rank, even_from, shares, family,
                    tokens, True,
                )  # fmt: skip
                entered = acceptance * (residual.to(tl.float64) * mass)
                if entered > 0:
                    tl.debug_barrier()  # every warp has read what was noted before
                    _note(notes, num_nodes, node, rank, even_from, acceptance, left, mass)
                    tl.store(walked + count, child.to(tl.int64))
                    tl.store(walked + num_nodes + 1 + count, tried)
                    tl.debug_barrier()
                    acceptance = tl.minimum(entered / (draft.to(tl.float64) * left), 1.0)
                    node = child
                    count += 1
                    rank = tl.zeros([], tl.int32)
                    even_from = tl.full([], NEVER, tl.int32)
                    opened = tl.full([], 1, tl.int32)
                else:
                    rejected = tl.full([], 1, tl.int32)
            else:
                if accepted == 0:
                    accepted = (acceptance == 1).to(tl.int32)
                    if acceptance < 1:
                        accepted = (tl.load(uniforms + used) < acceptance).to(tl.int32)
                        used += 1
                if (accepted == 1) & (opened == 0):
                    height = tl.load(uniforms + used) * BELOW_ONE * left
                    token = sampled_left(
                        p, q, rank, even_from, shares, family, tokens, num_tokens, height, True,
                        BLOCK,
                    )  # fmt: skip
                    walking = tl.zeros([], tl.int32)
                elif accepted == 0:
                    count -= 1
                    opened = tl.zeros([], tl.int32)
                    node = tl.zeros([], tl.int32)
                    if count > 0:
                        node = tl.load(walked + count - 1).to(tl.int32)
                    rank, even_from, acceptance, left, mass = _noted(notes, num_nodes, node)
                    rejected = tl.full([], 1, tl.int32)
    tl.debug_barrier()
    tl.store(walked + count, tl.where(sane == 1, ENDS, NO_NUMBERS).to(tl.int64))
    tl.store(walked + num_nodes + 1 + count, token)
