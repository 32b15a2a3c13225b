"""The accepted path on the device: arguments checked, kernels launched."""

from __future__ import annotations

import torch
from torch import Tensor

from .backend import on
from .masks import power_of_two
from .reference import check_keep, check_walk

KEPT = 4096
"""Elements that one program of `keep` moves at once."""


def keep_rows_(cache: Tensor, prefix_lengths: Tensor, rows: Tensor, counts: Tensor) -> None:
    """`reference.keep_rows_` on a CUDA device, one launch for the whole model, without waiting.

    Rows that already stand where they are to be kept are neither read nor written.
    """
    from .path_kernels import keep

    check_keep(cache, prefix_lengths, rows, counts)
    num_layers, batch, num_heads, num_rows, head_dim = cache.shape
    if cache.stride(4) != 1:
        raise ValueError(f"cache: got a last stride of {cache.stride(4)}, expected 1")
    block_d = power_of_two(head_dim)
    with on(cache.device):
        keep[(num_heads, num_layers, batch)](
            cache,
            prefix_lengths.contiguous(),
            rows.contiguous(),
            counts.contiguous(),
            num_rows,
            rows.shape[1],
            *cache.stride()[:4],
            HEAD_DIM=head_dim,
            BLOCK_D=block_d,
            BLOCK_ROWS=max(1, min(power_of_two(rows.shape[1]), KEPT // block_d)),
        )


def accept_walk(
    parents: Tensor, tokens: Tensor, sampled: Tensor, *, tree_sizes: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """`reference.accept_walk` on a CUDA device, without waiting for it."""
    from .path_kernels import walk

    check_walk(parents, tokens, sampled, tree_sizes)
    batch, num_nodes = parents.shape
    rows = torch.empty((batch, num_nodes), dtype=torch.int32, device=parents.device)
    counts = torch.empty((batch,), dtype=torch.int32, device=parents.device)
    next_tokens = torch.empty((batch,), dtype=torch.int64, device=parents.device)
    with on(parents.device):
        walk[(batch,)](
            parents.contiguous(),
            tokens.contiguous(),
            sampled.contiguous(),
            tree_sizes,
            rows,
            counts,
            next_tokens,
            num_nodes,
            BLOCK_NODES=power_of_two(num_nodes),
        )
    return rows, counts, next_tokens
