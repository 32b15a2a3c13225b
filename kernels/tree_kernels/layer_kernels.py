"""The kernels of a transformer layer between its products: norms, rotated heads, the MLP's gate.

Each reads its rows once and writes them once, where torch makes a launch and a copy of every sum,
product and change of type in between.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["eps"])
def norm(
    x,  # [n, h], to which `added` is added
    added,  # [n, h] or None
    weight,  # [h]
    out,  # [n, h]
    eps,
    NUM_FEATURES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program a row."""
    columns = tl.arange(0, BLOCK)
    inside = columns < NUM_FEATURES
    here = tl.program_id(0).to(tl.int64) * NUM_FEATURES + columns
    row = tl.load(x + here, mask=inside, other=0.0)
    if added is not None:
        more = tl.load(added + here, mask=inside, other=0.0)
        row = (row.to(tl.float32) + more.to(tl.float32)).to(row.dtype)
        tl.store(x + here, row, mask=inside)
    row = row.to(tl.float32)
    scale = tl.rsqrt(tl.sum(row * row) / NUM_FEATURES + eps)
    normed = row * scale * tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + here, normed.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["eps", "num_positions", "head_stride"])
def turn(
    qkv,  # [n, (H + 2 K) d]: queries are turned where they are
    turns,  # float32 [2, P, d]
    positions,  # int32 or int64 [n]
    places,  # int64 [n]
    keys,  # [K, S, d], rows side by side
    values,  # likewise
    query_norm,  # [d] or None
    key_norm,  # [d] or None
    eps,
    num_positions,
    head_stride,  # from one head's keys to the next one's
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program for every head of a row, counted queries, keys, values.  A head's entries i and
    i + d / 2 are turned together."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    half: tl.constexpr = HEAD_DIM // 2
    first = tl.arange(0, BLOCK)
    inside = first < half
    start = qkv + (row * (HEADS + 2 * KV_HEADS) + head) * HEAD_DIM
    low = tl.load(start + first, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(start + half + first, mask=inside, other=0.0).to(tl.float32)
    is_query, is_value = head < HEADS, head >= HEADS + KV_HEADS
    if query_norm is not None:  # noqa: SIM102 - known when it is compiled, unlike the next
        if not is_value:
            weight = query_norm
            if not is_query:
                weight = key_norm
            squares = tl.sum(low * low) + tl.sum(high * high)
            scale = tl.rsqrt(squares / HEAD_DIM + eps)
            low *= scale * tl.load(weight + first, mask=inside, other=0.0).to(tl.float32)
            high *= scale * tl.load(weight + half + first, mask=inside, other=0.0).to(tl.float32)
    target = start
    if not is_query:
        kv_head = (head - HEADS) % KV_HEADS
        base = keys
        if is_value:
            base = values
        target = base + kv_head * head_stride.to(tl.int64) + tl.load(places + row) * HEAD_DIM
    if not is_value:
        cosines = turns + tl.load(positions + row) * HEAD_DIM
        sines = cosines + num_positions.to(tl.int64) * HEAD_DIM
        cos_low = tl.load(cosines + first, mask=inside, other=0.0)
        cos_high = tl.load(cosines + half + first, mask=inside, other=0.0)
        sin_low = tl.load(sines + first, mask=inside, other=0.0)
        sin_high = tl.load(sines + half + first, mask=inside, other=0.0)
        low, high = low * cos_low - high * sin_low, high * cos_high + low * sin_high
    tl.store(target + first, low.to(qkv.dtype.element_ty), mask=inside)
    tl.store(target + half + first, high.to(qkv.dtype.element_ty), mask=inside)


@triton.jit
def gate(
    gate_up,  # [n, 2 m]
    out,  # [n, m]
    NUM_UNITS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program for `BLOCK` units of a row."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < NUM_UNITS
    here = gate_up + 2 * row * NUM_UNITS + columns
    opened = tl.load(here, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(here + NUM_UNITS, mask=inside, other=0.0).to(tl.float32)
    passed = opened / (1 + tl.exp(-opened)) * up
    tl.store(out + row * NUM_UNITS + columns, passed.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["scale", "num_tokens"])
def soften(
    logits,  # [n, V], rows `row_stride` apart
    probs,  # float32 [n, V]
    scale,
    num_tokens,
    row_stride,
    BLOCK: tl.constexpr,
):
    """One program a row: its largest logit and the sum of exponents, then the shares."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    here = logits + row * row_stride + columns
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    for start in range(0, num_tokens, BLOCK):
        inside = start + columns < num_tokens
        found = tl.load(here + start, mask=inside, other=-float("inf")).to(tl.float32)
        largest = tl.maximum(largest, found)
    most = tl.max(largest)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, num_tokens, BLOCK):
        inside = start + columns < num_tokens
        found = tl.load(here + start, mask=inside, other=-float("inf")).to(tl.float32)
        total += tl.exp((found - most) * scale)
    share = 1.0 / tl.sum(total)
    there = probs + row * num_tokens + columns
    for start in range(0, num_tokens, BLOCK):
        inside = start + columns < num_tokens
        found = tl.load(here + start, mask=inside, other=-float("inf")).to(tl.float32)
        tl.store(there + start, tl.exp((found - most) * scale) * share, mask=inside)
