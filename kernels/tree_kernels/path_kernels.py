"""The accepted path as Triton kernels: finding it, and moving its rows behind the prefix."""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num_rows", "most"])
def keep(
    cache,  # [L, B, Hkv, S, D]
    prefix_lengths,  # int32 [B]
    rows,  # int32 [B, most]
    counts,  # int32 [B]
    num_rows,
    most,
    layer_stride,
    batch_stride,
    head_stride,
    row_stride,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
):
    """One head of one layer of one text: grid (Hkv, L, B).

    Rows move towards the front only, for rows[i] >= i.  So chunk after chunk, each read before it
    is written, gives what reading everything first would give.
    """
    text, dims = tl.program_id(2).to(tl.int64), tl.arange(0, BLOCK_D)
    cache += tl.program_id(1).to(tl.int64) * layer_stride + text * batch_stride
    cache += tl.program_id(0).to(tl.int64) * head_stride
    prefix = tl.load(prefix_lengths + text)
    count = tl.minimum(tl.minimum(tl.load(counts + text), most), num_rows - prefix)
    for first in range(0, count, BLOCK_ROWS):
        place = first + tl.arange(0, BLOCK_ROWS)
        row = tl.load(rows + text * most + place, place < count, -1)
        moved = (row > place) & (row < num_rows - prefix)  # the others stand where they belong
        inside = moved[:, None] & (dims < HEAD_DIM)[None, :]
        source = (prefix + row).to(tl.int64)[:, None] * row_stride + dims[None, :]
        held = tl.load(cache + source, inside, 0.0)  # [rows, D]
        tl.debug_barrier()  # every warp has read
        target = (prefix + place).to(tl.int64)[:, None] * row_stride + dims[None, :]
        tl.store(cache + target, held, inside)


@triton.jit(do_not_specialize=["num_nodes"])
def walk(
    parents,  # int32 [B, n]
    tokens,  # int64 [B, n]
    sampled,  # int64 [B, n]
    tree_sizes,  # int32 [B] or None
    rows,  # int32 [B, n]
    counts,  # int32 [B]
    next_tokens,  # int64 [B]
    num_nodes,
    BLOCK_NODES: tl.constexpr,
):
    """One text: grid (B,).  All nodes ask at once whether they are the child to go to."""
    text = tl.program_id(0).to(tl.int64)
    size = num_nodes
    if tree_sizes is not None:
        size = tl.minimum(tl.load(tree_sizes + text), num_nodes)
    nodes = tl.arange(0, BLOCK_NODES)
    line = text * num_nodes
    above = tl.load(parents + line + nodes, nodes < size, -1)
    held = tl.load(tokens + line + nodes, nodes < size, -1)
    path = tl.zeros([BLOCK_NODES], tl.int32)
    count = tl.full([], 1, tl.int32)
    token = tl.load(sampled + line)
    child = tl.min(tl.where((above == 0) & (held == token), nodes, BLOCK_NODES), 0)
    while child < BLOCK_NODES:
        path = tl.where(nodes == count, child, path)
        count += 1
        token = tl.load(sampled + line + child)
        fits = (above == child) & (held == token) & (nodes > child)
        child = tl.min(tl.where(fits, nodes, BLOCK_NODES), 0)
    tl.store(rows + line + nodes, path, nodes < num_nodes)
    tl.store(counts + text, count)
    tl.store(next_tokens + text, token)
