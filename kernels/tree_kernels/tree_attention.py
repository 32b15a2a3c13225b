"""Tree attention by Triton: arguments checked, tiles chosen, scratch allocated, kernels launched.

Importable without Triton; the first call loads the kernels.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from .attention_call import AttentionCall, AttentionShape, score_factor
from .backend import Device, device_of, interpreted, on
from .configs import MAX_SPLITS, Config, choose_config, choose_splits
from .launches import TreeBlocks, power_of_two, tree_blocks

LISTED_FROM = 8
"""Words of ancestor bits from which a list of the non-empty blocks is made: smaller trees hardly
have an empty block, and the list is one more launch."""
COMBINED = 32
"""Rows times splits that one program of `combine` holds."""


def tree_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    prefix_lengths: Tensor,
    ancestor_bits: Tensor,
    *,
    tree_sizes: Tensor | None = None,
    tree_rows: Tensor | None = None,
    scaling: float | None = None,
    out: Tensor | None = None,
    blocks: TreeBlocks | None = None,
    config: Config | None = None,
    num_splits: int | None = None,
) -> Tensor:
    """`reference.tree_attention` on tensors of one CUDA device, without waiting for it.

    blocks      the non-empty blocks of these bits, from `tree_blocks` with this call's config: all
                layers of a step can share them.  Made here by default, for large trees
    config      tile and schedule; from the table by default
    num_splits  programs that share a tile's keys; by default as many as fill the device once the
                cache is full.  Sums are rounded in another order for another number: fix it where
                results must be the same bit for bit, whatever the size of cache and batch

    No decision looks at a value in device memory: a captured CUDA graph of the call serves any
    prefixes and trees that its tensors can hold.  A length beyond them is cut, and no row that a
    text does not have is read.
    """
    call = AttentionCall(
        query, key, value, prefix_lengths, ancestor_bits, tree_sizes, tree_rows, out
    )
    shape = call.checked()
    factor = score_factor(scaling, shape.head_dim) * math.log2(math.e)
    config = config or _config(query, shape.group)
    num_splits = _num_splits(num_splits, shape, config, device_of(query.device))
    bits = ancestor_bits.contiguous()
    if blocks is None and shape.num_words >= LISTED_FROM:
        blocks = tree_blocks(
            bits, shape.batch, shape.group, config, tree_sizes=tree_sizes, tree_rows=tree_rows
        )
    if blocks is not None and not blocks.fits(shape, config):
        raise ValueError(
            f"blocks: got lists {list(blocks.lists.shape)} for tiles of {blocks.block_m} rows and "
            f"groups of {blocks.group}, expected {config.block_m} and {shape.group}; make them "
            "with this call's config"
        )
    query = query if query.stride(3) == 1 else query.contiguous()
    out = torch.empty_like(query) if out is None else out
    call = replace(call, query=query, ancestor_bits=bits, out=out)
    with on(query.device):
        _launch(call, shape, factor, blocks, config, num_splits)
    return out


def shared_blocks(
    query: Tensor, num_kv_heads: int, ancestor_bits: Tensor, tree_rows: Tensor | None = None
) -> TreeBlocks | None:
    """`blocks` for calls of `tree_attention` like one of `query` by heads of so many keys; None for
    trees so small that none are made."""
    if ancestor_bits.shape[2] < LISTED_FROM:
        return None
    batch, num_heads = query.shape[:2]
    group = num_heads // num_kv_heads
    return tree_blocks(ancestor_bits, batch, group, _config(query, group), tree_rows=tree_rows)


def _config(query: Tensor, group: int) -> Config:
    """The tile and schedule for a call, from the table."""
    num_rows, head_dim = query.shape[2] * group, query.shape[3]
    shared = device_of(query.device).shared
    return choose_config(num_rows, head_dim, query.element_size(), shared)


def _num_splits(asked: int | None, shape: AttentionShape, config: Config, device: Device) -> int:
    if asked is not None:
        if not 1 <= asked <= MAX_SPLITS:
            raise ValueError(f"num_splits: got {asked}, expected 1 to {MAX_SPLITS}")
        return asked
    tiles = -(-shape.num_nodes * shape.group // config.block_m)
    slots = device.num_multiprocessors * config.programs_per_sm
    most = -(-shape.num_rows // config.block_n)
    return choose_splits(tiles * shape.num_kv_heads * shape.batch, most, slots)


def _launch(
    call: AttentionCall,
    shape: AttentionShape,
    factor: float,
    blocks: TreeBlocks | None,
    config: Config,
    num_splits: int,
) -> None:
    """Launch `attend`, and `combine` where there is more than one split; `call` names its `out`."""
    from .attention_kernels import attend, combine

    query, key, value, out, bits = call.query, call.key, call.value, call.out, call.ancestor_bits
    assert out is not None
    num_rows = shape.num_nodes * shape.group
    partial = partial_lse = None
    if num_splits > 1:
        rows = (num_splits, shape.batch, shape.num_kv_heads, num_rows)
        partial = torch.empty((*rows, shape.head_dim), dtype=torch.float32, device=out.device)
        partial_lse = torch.empty(rows, dtype=torch.float32, device=out.device)
    lists, counts = (None, None) if blocks is None else (blocks.lists, blocks.counts)
    sizes = (shape.num_nodes, shape.num_rows, shape.num_words, num_splits)
    tile = {
        "GROUP": shape.group,
        "HEAD_DIM": shape.head_dim,
        "BLOCK_D": max(16, power_of_two(shape.head_dim)),
        "BLOCK_M": config.block_m,
        "BLOCK_N": config.block_n,
    }
    tiles = -(-num_rows // config.block_m)
    attend[(tiles * num_splits, shape.num_kv_heads, shape.batch)](
        query, key, value, call.prefix_lengths, bits, call.tree_sizes, call.tree_rows,
        lists, counts, out, partial, partial_lse, factor, *sizes,
        bits.stride(0) if bits.shape[0] > 1 else 0,
        *query.stride()[:3], *key.stride()[:3], *value.stride()[:3], *out.stride()[:3],
        **tile, INTERPRETED=interpreted(),
        num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip
    if num_splits == 1:
        return
    block_s = power_of_two(num_splits)
    block_r = max(1, min(COMBINED // block_s, config.block_m))
    combine[(-(-num_rows // block_r), shape.num_kv_heads, shape.batch)](
        call.prefix_lengths, call.tree_sizes, call.tree_rows,
        counts, out, partial, partial_lse, *sizes, *out.stride()[:3],
        **tile, BLOCK_R=block_r, BLOCK_S=block_s,
        num_warps=4 if block_s * block_r * shape.head_dim <= 4096 else 8,
    )  # fmt: skip
