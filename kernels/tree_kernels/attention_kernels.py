"""Tree attention as Triton kernels: split attention over one work list, and its combination.

A program serves BLOCK_M rows of one key-value head.  A row is a pair (node, query head): the G
heads of a group read the same keys, so that they lie side by side, row = node * G + head.  What
the rows of a tile look at is one list of three parts,

    full prefix blocks   BLOCK_N keys each, seen by every row: no mask and no bounds
    prefix tail          what is left of the prefix, in blocks of 32 keys
    tree blocks          32 keys each, one word of ancestor bits a row

and the list is cut into `num_splits` shares of about equal length, one program each.  A share
gives, for its own keys s and with scores x_s = scaling * log2(e) * <q, k_s>,

    lse = log2 sum_s 2^x_s,    o = sum_s 2^(x_s - lse) v_s,

and `combine` puts the shares of a row together: out = sum_i 2^(lse_i - lse) o_i.  Lengths are read
from device memory, so that one captured graph serves every step.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl

from .attention_call import BITS
from .step_kernels import tree_lengths

BITS = tl.constexpr(BITS)
HIDDEN = tl.constexpr(float("-inf"))


@triton.jit
def _lengths(text, prefix_lengths, tree_sizes, tree_rows, num_nodes, num_rows, num_words):
    """(prefix rows, queries that are nodes, tree rows) of one text, none past its tensor's end."""
    prefix = tl.minimum(tl.load(prefix_lengths + text), num_rows)
    nodes, rows = tree_lengths(text, tree_sizes, tree_rows, num_nodes)
    return prefix, nodes, tl.minimum(rows, tl.minimum(num_words * BITS, num_rows - prefix))


@triton.jit
def _length(text, tile, prefix, tree, block_counts, num_tiles):
    """The length of one tile's list, in keys / 32."""
    if block_counts is None:
        blocks = tl.cdiv(tree, BITS)
    else:
        blocks = tl.load(block_counts + text * num_tiles + tile)
    return tl.cdiv(prefix, BITS) + blocks


@triton.jit
def _cut(split, num_splits, length):
    """The place where a split begins, in keys / 32; it has the full blocks that end in it."""
    return split * length // num_splits


@triton.jit
def _dot(a, b, acc, INTERPRETED: tl.constexpr):
    """acc + a b.  The interpreter would multiply bfloat16 by its bit patterns."""
    if INTERPRETED:
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, acc, input_precision="ieee")


@triton.jit
def _absorb(
    mixed, mass, top, scores, values, factor, GUARDED: tl.constexpr, INTERPRETED: tl.constexpr
):
    """One step of online softmax: what the rows have seen so far and one more block of keys.

    mixed   float32 [M, D]  sum of 2^(x - top) v
    mass    float32 [M]     sum of 2^(x - top)
    top     float32 [M]     greatest x
    scores  float32 [M, N]  x / factor, -inf where hidden
    values  [N, D]

    GUARDED: a row may have seen nothing at all, where -inf - -inf would be NaN.
    """
    higher = tl.maximum(top, tl.max(scores, 1) * factor)
    base = higher
    if GUARDED:
        base = tl.where(higher == HIDDEN, 0.0, higher)
    weights = tl.exp2(scores * factor - base[:, None])
    fade = tl.exp2(top - base)
    mass = mass * fade + tl.sum(weights, 1)
    mixed = _dot(weights.to(values.dtype), values, mixed * fade[:, None], INTERPRETED)
    return mixed, mass, higher


@triton.jit
def _see_full_blocks(
    mixed,
    mass,
    top,
    q,  # [M, D]
    factor,
    key,  # [S, D] of this text and head
    value,
    key_row_stride,
    value_row_stride,
    begin,
    end,
    prefix,
    HEAD_DIM: tl.constexpr,
    BLOCK_N: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """The full prefix blocks between `begin` and `end` of the list: no mask, no bounds."""
    per_block: tl.constexpr = BLOCK_N // BITS
    nothing = tl.zeros([q.shape[0], BLOCK_N], tl.float32)
    dims = tl.arange(0, q.shape[1])
    columns = tl.arange(0, BLOCK_N).to(tl.int64)
    key_tile = key + columns[:, None] * key_row_stride + dims[None, :]
    value_tile = value + columns[:, None] * value_row_stride + dims[None, :]
    key_step = tl.full([], BLOCK_N, tl.int64) * key_row_stride
    value_step = tl.full([], BLOCK_N, tl.int64) * value_row_stride
    for block in tl.range(begin // per_block, tl.minimum(end // per_block, prefix // BLOCK_N)):
        if q.shape[1] == HEAD_DIM:
            k = tl.load(key_tile + block * key_step)  # [N, D]
            v = tl.load(value_tile + block * value_step)  # [N, D]
        else:
            k = tl.load(key_tile + block * key_step, (dims < HEAD_DIM)[None, :], 0.0)
            v = tl.load(value_tile + block * value_step, (dims < HEAD_DIM)[None, :], 0.0)
        scores = _dot(q, tl.trans(k), nothing, INTERPRETED)
        mixed, mass, top = _absorb(mixed, mass, top, scores, v, factor, False, INTERPRETED)
    return mixed, mass, top


@triton.jit
def _see_the_rest(
    mixed,
    mass,
    top,
    q,  # [M, D]
    factor,
    key,  # [S, D] of this text and head
    value,
    key_row_stride,
    value_row_stride,
    begin,
    end,
    prefix,
    tree,
    bits,  # [n, W] of this text
    num_words,
    node,  # [M]
    nodes,
    block_list,  # [W] of this tile, or None
    HEAD_DIM: tl.constexpr,
    BLOCK_N: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """Tail and tree blocks between `begin` and `end`: 32 keys, and a word a row that shows them."""
    nothing = tl.zeros([q.shape[0], BITS], tl.float32)
    dims, columns = tl.arange(0, q.shape[1]), tl.arange(0, BITS)
    full = prefix // BLOCK_N * BLOCK_N  # keys
    tail = tl.cdiv(prefix - full, BITS)
    skipped = full // BITS
    for item in tl.range(tl.maximum(begin, skipped) - skipped, tl.maximum(end, skipped) - skipped):
        in_tree = item >= tail
        block = tl.maximum(item - tail, 0)
        if block_list is not None:
            block = tl.load(block_list + block, in_tree, 0)
        first = tl.where(in_tree, prefix + block * BITS, full + item * BITS)
        exists = columns < tl.where(in_tree, prefix + tree, prefix) - first
        lines = (first + columns).to(tl.int64)
        here = exists[:, None] & (dims < HEAD_DIM)[None, :]
        k = tl.load(key + lines[:, None] * key_row_stride + dims[None, :], here, 0.0)  # [32, D]
        v = tl.load(value + lines[:, None] * value_row_stride + dims[None, :], here, 0.0)
        # All rows see the tail: a word of ones.
        with_word = node < tl.where(in_tree, nodes, 0)
        word = tl.load(bits + node.to(tl.int64) * num_words + block, with_word, -1)
        seen = (((word[:, None] >> columns[None, :]) & 1) != 0) & exists[None, :]
        scores = tl.where(seen, _dot(q, tl.trans(k), nothing, INTERPRETED), HIDDEN)
        mixed, mass, top = _absorb(mixed, mass, top, scores, v, factor, True, INTERPRETED)
    return mixed, mass, top


@triton.jit(do_not_specialize=["num_nodes", "num_rows", "num_words", "num_splits"])
def attend(
    query,  # [B, Hq, n, D]
    key,  # [B, Hkv, S, D]
    value,  # [B, Hkv, S, D]
    prefix_lengths,  # int32 [B]
    bits,  # int32 [B or 1, n, W]
    tree_sizes,  # int32 [B] or None
    tree_rows,  # int32 [B] or None
    block_lists,  # int32 [B, tiles, W] or None: every tree block
    block_counts,  # int32 [B, tiles] or None
    out,  # [B, Hq, n, D]
    partial,  # float32 [splits, B, Hkv, n G, D]; None: one split, which writes out
    partial_lse,  # float32 [splits, B, Hkv, n G] or None
    factor,  # scaling * log2(e)
    num_nodes,
    num_rows,
    num_words,
    num_splits,
    bits_batch_stride,
    query_batch_stride,
    query_head_stride,
    query_node_stride,
    key_batch_stride,
    key_head_stride,
    key_row_stride,
    value_batch_stride,
    value_head_stride,
    value_row_stride,
    out_batch_stride,
    out_head_stride,
    out_node_stride,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """One split of one tile: grid (tiles * splits, Hkv, B).

    Tiles run fastest: those of one split and one head read the same keys, close in time.
    """
    num_tiles = tl.cdiv(num_nodes * GROUP, BLOCK_M)
    tile, split = tl.program_id(0) % num_tiles, tl.program_id(0) // num_tiles
    head, text = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    prefix, nodes, tree = _lengths(
        text, prefix_lengths, tree_sizes, tree_rows, num_nodes, num_rows, num_words
    )
    length = _length(text, tile, prefix, tree, block_counts, num_tiles)
    begin = _cut(split, num_splits, length)
    end = _cut(split + 1, num_splits, length)
    if tile * BLOCK_M >= nodes * GROUP:  # padding: nothing to look at
        end = begin

    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    node, heads = rows // GROUP, head * GROUP + rows % GROUP
    at_query = node.to(tl.int64) * query_node_stride + heads * query_head_stride
    inside = (node < nodes)[:, None] & (dims < HEAD_DIM)[None, :]
    q = tl.load(  # [M, D]
        query + text * query_batch_stride + at_query[:, None] + dims[None, :], inside, 0.0
    )
    key += text * key_batch_stride + head * key_head_stride
    value += text * value_batch_stride + head * value_head_stride

    mixed = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    mass = tl.zeros([BLOCK_M], tl.float32)
    top = tl.full([BLOCK_M], HIDDEN, tl.float32)
    mixed, mass, top = _see_full_blocks(
        mixed, mass, top, q, factor, key, value, key_row_stride, value_row_stride,
        begin, end, prefix, HEAD_DIM, BLOCK_N, INTERPRETED,
    )  # fmt: skip
    if block_lists is not None:
        block_lists += (text * num_tiles + tile) * num_words
    mixed, mass, top = _see_the_rest(
        mixed, mass, top, q, factor, key, value, key_row_stride, value_row_stride,
        begin, end, prefix, tree, bits + text * bits_batch_stride, num_words, node, nodes,
        block_lists, HEAD_DIM, BLOCK_N, INTERPRETED,
    )  # fmt: skip

    mixed = mixed / tl.where(mass > 0, mass, 1.0)[:, None]
    inside = (node < num_nodes)[:, None] & (dims < HEAD_DIM)[None, :]
    if partial is None:
        at_out = node.to(tl.int64) * out_node_stride + heads * out_head_stride
        place = out + text * out_batch_stride + at_out[:, None] + dims[None, :]
        mixed = tl.where((node < nodes)[:, None], mixed, 0.0)
        tl.store(place, mixed.to(out.dtype.element_ty), inside)
    elif begin < end:
        pairs = tl.num_programs(1).to(tl.int64) * tl.num_programs(2)
        pair = (split * pairs + text * tl.num_programs(1) + head) * num_nodes * GROUP
        tl.store(partial + (pair + rows)[:, None] * HEAD_DIM + dims[None, :], mixed, inside)
        lse = top + tl.log2(tl.where(mass > 0, mass, 1.0))  # -inf where nothing was seen
        tl.store(partial_lse + pair + rows, lse, node < num_nodes)


@triton.jit(do_not_specialize=["num_nodes", "num_rows", "num_words", "num_splits"])
def combine(
    prefix_lengths,  # int32 [B]
    tree_sizes,  # int32 [B] or None
    tree_rows,  # int32 [B] or None
    block_counts,  # int32 [B, tiles] or None
    out,  # [B, Hq, n, D]
    partial,  # float32 [splits, B, Hkv, n G, D]
    partial_lse,  # float32 [splits, B, Hkv, n G]
    num_nodes,
    num_rows,
    num_words,
    num_splits,
    out_batch_stride,
    out_head_stride,
    out_node_stride,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_S: tl.constexpr,
):
    """BLOCK_R rows of one tile, all splits at once: grid (rows / BLOCK_R, Hkv, B).

    Splits that had nothing to do have written nothing, and are not read.
    """
    head, text = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    prefix, nodes, tree = _lengths(
        text, prefix_lengths, tree_sizes, tree_rows, num_nodes, num_rows, num_words
    )
    tile = tl.program_id(0) * BLOCK_R // BLOCK_M
    num_tiles = tl.cdiv(num_nodes * GROUP, BLOCK_M)
    length = _length(text, tile, prefix, tree, block_counts, num_tiles)

    rows = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    node, heads = rows // GROUP, head * GROUP + rows % GROUP
    splits, dims = tl.arange(0, BLOCK_S), tl.arange(0, BLOCK_D)
    pairs = tl.num_programs(1).to(tl.int64) * tl.num_programs(2)
    pair = (splits * pairs + text * tl.num_programs(1) + head) * num_nodes * GROUP
    line = pair[:, None] + rows[None, :]  # [splits, rows]
    begin = _cut(splits, num_splits, length)
    end = _cut(splits + 1, num_splits, length)
    wrote = ((begin < end) & (splits < num_splits))[:, None] & (node < nodes)[None, :]
    lse = tl.load(partial_lse + line, wrote, HIDDEN)
    top = tl.max(lse, 0)
    shares = tl.exp2(lse - tl.where(top == HIDDEN, 0.0, top)[None, :])
    mass = tl.sum(shares, 0)
    mixed = tl.load(  # [splits, rows, D]
        partial + line[:, :, None] * HEAD_DIM + dims[None, None, :],
        wrote[:, :, None] & (dims < HEAD_DIM)[None, None, :],
        0.0,
    )
    mixed = tl.sum(mixed * shares[:, :, None], 0) / tl.where(mass > 0, mass, 1.0)[:, None]
    at_out = node.to(tl.int64) * out_node_stride + heads * out_head_stride
    place = out + text * out_batch_stride + at_out[:, None] + dims[None, :]
    inside = (node < num_nodes)[:, None] & (dims < HEAD_DIM)[None, :]
    tl.store(place, mixed.to(out.dtype.element_ty), inside)
