"""Packed ancestor bits, and the lists of their non-empty blocks, as Triton kernels."""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl

from .attention_call import BITS

BITS = tl.constexpr(BITS)


@triton.jit(do_not_specialize=["num_nodes", "num_words"])
def climb(
    parents,  # int32 [B, n]
    bits,  # int32 [B, n, W]
    num_nodes,
    num_words,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_WORDS: tl.constexpr,
):
    """Every node of a tile climbs to its root and sets a bit on the way: grid (n / BLOCK_ROWS, B).

    All climb together, so a tile takes as many rounds as its deepest node has ancestors.
    """
    text = tl.program_id(1).to(tl.int64)
    node = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    words = tl.arange(0, BLOCK_WORDS)
    parents += text * num_nodes
    seen = tl.zeros([BLOCK_ROWS, BLOCK_WORDS], tl.int32)
    above = tl.where(node < num_nodes, node, -1)
    while tl.max(above, 0) >= 0:
        mine = (above // BITS)[:, None] == words[None, :]
        bit = tl.where(above >= 0, 1 << (above % BITS), 0)
        seen |= tl.where(mine, bit[:, None], 0)
        following = tl.load(parents + above, above >= 0, -1)
        # A parent that does not come before its child would lead round in a circle.
        above = tl.where(following < above, following, -1)
    place = bits + (text * num_nodes + node)[:, None] * num_words + words[None, :]
    tl.store(place, seen, (node < num_nodes)[:, None] & (words < num_words)[None, :])


@triton.jit(do_not_specialize=["num_nodes", "num_words"])
def list_blocks(
    bits,  # int32 [B or 1, n, W]
    tree_sizes,  # int32 [B] or None
    tree_rows,  # int32 [B] or None
    lists,  # int32 [B, tiles, W]
    counts,  # int32 [B, tiles]
    num_nodes,
    num_words,
    bits_batch_stride,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_NODES: tl.constexpr,
    BLOCK_WORDS: tl.constexpr,
):
    """The words in which a node of the tile sees anything, in order: grid (tiles, B)."""
    tile, text = tl.program_id(0), tl.program_id(1).to(tl.int64)
    nodes = num_nodes
    if tree_sizes is not None:
        nodes = tl.minimum(tl.load(tree_sizes + text), num_nodes)
    rows = nodes
    if tree_rows is not None:
        rows = tl.load(tree_rows + text)
    node = tile * BLOCK_M // GROUP + tl.arange(0, BLOCK_NODES)
    here = (node < nodes) & (node * GROUP < (tile + 1) * BLOCK_M)
    words = tl.arange(0, BLOCK_WORDS)
    exists = (words < num_words) & (words * BITS < rows)
    place = bits + text * bits_batch_stride + node.to(tl.int64)[:, None] * num_words
    word = tl.load(place + words[None, :], here[:, None] & exists[None, :], 0)
    full = tl.max((word != 0).to(tl.int32), 0)
    line = text * tl.num_programs(0) + tile
    tl.store(lists + line * num_words + tl.cumsum(full, 0) - 1, words, full > 0)
    tl.store(counts + line, tl.sum(full, 0))
