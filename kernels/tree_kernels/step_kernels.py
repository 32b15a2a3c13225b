"""The kernels of a step around its attention: when tokens arrive in a race, draws by inversion,
ancestor bits, lists of their non-empty blocks, the accepted path, and its rows moved behind the
prefix."""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl

from .attention_call import BITS
from .judges import BELOW_ONE

BELOW_ONE = tl.constexpr(BELOW_ONE)
BITS = tl.constexpr(BITS)


@triton.jit
def tree_lengths(text, tree_sizes, tree_rows, num_nodes):
    """(queries that are nodes, tree rows) of one text."""
    nodes = num_nodes
    if tree_sizes is not None:
        nodes = tl.minimum(tl.load(tree_sizes + text), num_nodes)
    rows = nodes
    if tree_rows is not None:
        rows = tl.load(tree_rows + text)
    return nodes, rows


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
    nodes, rows = tree_lengths(text, tree_sizes, tree_rows, num_nodes)
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
    size, _ = tree_lengths(text, tree_sizes, None, num_nodes)
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


@triton.jit(do_not_specialize=["num_tokens"])
def race(
    probs,  # float32 [w, V]
    seeds,  # int64 [w]
    speeds,  # float32 [w, V]
    num_tokens,
    BLOCK: tl.constexpr,
):
    """The speeds of some tokens of one row, whose random numbers follow from its seed: grid
    (V / BLOCK, w).

    A time is -log1p(-v), where v is uniform, of 64 random bits: the first to arrive have the
    smallest v, which 32 bits would hardly tell apart.
    """
    row = tl.program_id(1).to(tl.int64)
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    high, low, _, _ = tl.randint4x(tl.load(seeds + row), token)
    v = high.to(tl.uint32, bitcast=True).to(tl.float32) * 2.0**-32
    v += (low.to(tl.uint32, bitcast=True).to(tl.float32) + 0.5) * 2.0**-64
    v = tl.minimum(v, 1.0 - 2.0**-24)
    # A GPU's logarithm near 1 is right to 2^-22, not to so much of itself: 2 artanh(v / (2 - v)).
    half = v / (2.0 - v)
    square = half * half
    series = 1.0 / 15 + tl.zeros_like(v)
    for odd in tl.static_range(13, 0, -2):
        series = series * square + 1.0 / odd
    time = tl.where(v < 0.5, 2.0 * half * series, -tl.log(1.0 - v))
    place = row * num_tokens + token
    chance = tl.load(probs + place, token < num_tokens, 0.0)
    # Without the factor, speeds of chances below the normal numbers would be rounded to a few.
    speed = chance * 2.0**60 / time
    tl.store(speeds + place, tl.where(chance > 0, speed, -time), token < num_tokens)


@triton.jit
def _first_past(mass, sums, height, SIZE: tl.constexpr):
    """The first place at which `sums`, those of `mass`, exceed `height`; the last of any mass, if
    none.  A sum may be rounded up at a place without mass, which is never the answer if there is
    any."""
    place = tl.arange(0, SIZE)
    first = tl.min(tl.where((sums > height) & (mass > 0), place, SIZE), 0)
    last = tl.max(tl.where(mass > 0, place, 0), 0)
    return tl.where(first < SIZE, first, last)


# Uniforms are part of a pool and begin anywhere in it: one kernel serves them all.
@triton.jit(do_not_specialize_on_alignment=["uniforms"])
def invert(
    probs,  # float32 or float64 [w, V]
    uniforms,  # float64 [w, k]
    drawn,  # int64 [w, k]
    num_tokens,
    BLOCK: tl.constexpr,
    NUM_BLOCKS: tl.constexpr,
):
    """One draw from one row, whose random number tells how much of the row's sum comes before it:
    grid (w, k).

    The row is read once, of which the sums of its blocks remain; then the block that they lead to.
    """
    row = tl.program_id(0).to(tl.int64)
    place = row * tl.num_programs(1) + tl.program_id(1)
    probs += row * num_tokens
    tokens, blocks = tl.arange(0, BLOCK), tl.arange(0, NUM_BLOCKS)
    masses = tl.zeros([NUM_BLOCKS], tl.float64)
    for block in range(tl.cdiv(num_tokens, BLOCK)):
        token = block * BLOCK + tokens
        mass = tl.load(probs + token, token < num_tokens, 0.0).to(tl.float64)
        masses = tl.where(blocks == block, tl.sum(mass, 0), masses)
    total = tl.sum(masses, 0)
    height = tl.load(uniforms + place) * BELOW_ONE * total
    block = _first_past(masses, tl.cumsum(masses, 0), height, NUM_BLOCKS)
    passed = tl.sum(tl.where(blocks < block, masses, 0.0), 0)
    token = block * BLOCK + tokens
    mass = tl.load(probs + token, token < num_tokens, 0.0).to(tl.float64)
    found = block * BLOCK + _first_past(mass, passed + tl.cumsum(mass, 0), height, BLOCK)
    is_number = (total > 0) & (total < float("inf"))
    tl.store(drawn + place, tl.where(is_number, found, num_tokens).to(tl.int64))
