"""The launches of a step around its attention: arguments checked, outputs made on the device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .attention_call import AttentionShape
from .backend import on
from .configs import Config
from .reference import check_keep, check_parents, check_walk
from .verified import METHODS, Method, VerifiedTree, check_verified

CLIMBING = 2048
"""Words that one program of `climb` holds."""
INVERTED = 8192
"""Tokens that one program of `invert` looks at at once."""
KEPT = 4096
"""Elements that one program of `keep` moves at once."""
RACING = 1024
"""Tokens that one program of `race` serves."""
VERIFYING = dict.fromkeys(METHODS, 8192) | dict.fromkeys(("paired", "sequential", "hub"), 2048)
"""Tokens that the program of a walk looks at at once: fewer where its method computes in 64 bits,
for want of registers."""


def ancestor_bits(parents: Tensor, num_words: int | None = None) -> Tensor:
    """`reference.ancestor_bits` on a CUDA device, without waiting for it."""
    from .step_kernels import climb

    num_words = check_parents(parents, num_words)
    batch, num_nodes = parents.shape
    bits = torch.empty((batch, num_nodes, num_words), dtype=torch.int32, device=parents.device)
    block_words = power_of_two(num_words)
    block_rows = max(1, min(32, CLIMBING // block_words))
    with on(parents.device):
        climb[(-(-num_nodes // block_rows), batch)](
            parents.contiguous(), bits, num_nodes, num_words,
            BLOCK_ROWS=block_rows, BLOCK_WORDS=block_words,
            num_warps=1 if block_rows * block_words <= 128 else 4,
        )  # fmt: skip
    return bits


@dataclass(frozen=True)
class TreeBlocks:
    """Lists of blocks of 32 tree rows: for every tile of query rows, those in which one sees any.

    lists   int32 [B, tiles, W]  block numbers, ascending; counts of them, then anything
    counts  int32 [B, tiles]
    """

    lists: Tensor
    counts: Tensor
    group: int
    block_m: int

    def fits(self, shape: AttentionShape, config: Config) -> bool:
        """Are these the lists of such a call, as far as their sizes tell?"""
        tiles = -(-shape.num_nodes * shape.group // config.block_m)
        same_tiles = (self.group, self.block_m) == (shape.group, config.block_m)
        return same_tiles and self.lists.shape == (shape.batch, tiles, shape.num_words)


def tree_blocks(
    ancestor_bits: Tensor,
    batch: int,
    group: int,
    config: Config,
    *,
    tree_sizes: Tensor | None = None,
    tree_rows: Tensor | None = None,
) -> TreeBlocks:
    """The non-empty blocks that `tree_attention` with `config` has to look at.

    ancestor_bits  int32 [B or 1, n, W]
    batch          B
    group          query heads per key-value head

    tree_sizes and tree_rows as they are given to `tree_attention`.
    """
    from .step_kernels import list_blocks

    _, num_nodes, num_words = ancestor_bits.shape
    bits = ancestor_bits.contiguous()
    tiles = -(-num_nodes * group // config.block_m)
    lists = torch.empty((batch, tiles, num_words), dtype=torch.int32, device=bits.device)
    counts = torch.empty((batch, tiles), dtype=torch.int32, device=bits.device)
    # A tile may begin and end inside a node's group.
    nodes = min(num_nodes, (config.block_m + group - 2) // group + 1)
    with on(bits.device):
        list_blocks[(tiles, batch)](
            bits, tree_sizes, tree_rows, lists, counts, num_nodes, num_words,
            bits.stride(0) if bits.shape[0] > 1 else 0,
            GROUP=group, BLOCK_M=config.block_m,
            BLOCK_NODES=power_of_two(nodes), BLOCK_WORDS=power_of_two(num_words),
        )  # fmt: skip
    return TreeBlocks(lists, counts, group, config.block_m)


def keep_rows_(cache: Tensor, prefix_lengths: Tensor, rows: Tensor, counts: Tensor) -> None:
    """`reference.keep_rows_` on a CUDA device, one launch for the whole model, without waiting.

    Rows that already stand where they are to be kept are neither read nor written.
    """
    from .step_kernels import keep

    check_keep(cache, prefix_lengths, rows, counts)
    num_layers, batch, num_heads, num_rows, head_dim = cache.shape
    if cache.stride(4) != 1:
        raise ValueError(f"cache: got a last stride of {cache.stride(4)}, expected 1")
    block_d = power_of_two(head_dim)
    with on(cache.device):
        keep[(num_heads, num_layers, batch)](
            cache, prefix_lengths.contiguous(), rows.contiguous(), counts.contiguous(),
            num_rows, rows.shape[1], *cache.stride()[:4],
            HEAD_DIM=head_dim, BLOCK_D=block_d,
            BLOCK_ROWS=max(1, min(power_of_two(rows.shape[1]), KEPT // block_d)),
        )  # fmt: skip


def accept_walk(
    parents: Tensor, tokens: Tensor, sampled: Tensor, *, tree_sizes: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """`reference.accept_walk` on a CUDA device, without waiting for it."""
    from .step_kernels import walk

    check_walk(parents, tokens, sampled, tree_sizes)
    batch, num_nodes = parents.shape
    rows = torch.empty((batch, num_nodes), dtype=torch.int32, device=parents.device)
    counts = torch.empty((batch,), dtype=torch.int32, device=parents.device)
    next_tokens = torch.empty((batch,), dtype=torch.int64, device=parents.device)
    with on(parents.device):
        walk[(batch,)](
            parents.contiguous(), tokens.contiguous(), sampled.contiguous(), tree_sizes,
            rows, counts, next_tokens, num_nodes, BLOCK_NODES=power_of_two(num_nodes),
        )  # fmt: skip
    return rows, counts, next_tokens


def verify_walk(
    target_probs: Tensor, draft_probs: Tensor, tree: VerifiedTree, uniforms: Tensor, method: Method
) -> Tensor:
    """`verified.verify_walk` on a CUDA device, without waiting for it."""
    from .verify_kernels import JUDGES, descend, traverse

    check_verified(target_probs, draft_probs, tree, uniforms, method)
    num_nodes, num_tokens = target_probs.shape
    device = target_probs.device
    walked = torch.empty((2, num_nodes + 1), dtype=torch.int64, device=device)
    notes = torch.empty((6, num_nodes), dtype=torch.float64, device=device)
    block = min(VERIFYING[method], power_of_two(num_tokens))
    kernel, judge = (traverse, {}) if method == "paths" else (descend, {"JUDGE": JUDGES[method]})
    with on(device):
        kernel[(1,)](
            target_probs.contiguous(), draft_probs.contiguous(), *tree, uniforms, notes, walked,
            num_nodes, num_tokens,
            BLOCK=block, num_warps=walking_warps(block), **judge,
        )  # fmt: skip
    return walked


def walking_warps(block: int) -> int:
    """The warps of a walk that looks at so many tokens at once."""
    return max(1, min(16, block // 256))


def race_speeds(probs: Tensor, seeds: Tensor) -> Tensor:
    """The speeds of tokens in a race, as `successive.by_race` has it, times 2^60: float32 [w, V],
    the greatest of which are the first; those of no chance are negative, and come behind.

    probs  float32 [w, V], on a CUDA device
    seeds  int64 [w]        the random numbers of a row follow from its own
    """
    from .step_kernels import race

    num_rows, num_tokens = probs.shape
    speeds = torch.empty((num_rows, num_tokens), dtype=torch.float32, device=probs.device)
    with on(probs.device):
        race[(-(-num_tokens // RACING), num_rows)](
            probs.contiguous(), seeds, speeds, num_tokens, BLOCK=RACING, num_warps=4
        )
    return speeds


def inverted(probs: Tensor, uniforms: Tensor) -> Tensor:
    """`reference.inverted` on a CUDA device, one launch, without waiting for it."""
    from .step_kernels import invert

    num_tokens, num_draws = probs.shape[-1], uniforms.shape[-1]
    drawn = torch.empty(uniforms.shape, dtype=torch.int64, device=probs.device)
    block = min(INVERTED, power_of_two(num_tokens))
    with on(probs.device):
        invert[(probs.shape[:-1].numel(), num_draws)](
            probs.contiguous(), uniforms.contiguous(), drawn, num_tokens,
            BLOCK=block, NUM_BLOCKS=power_of_two(-(-num_tokens // block)),
            num_warps=max(1, min(16, block // 256)),
        )  # fmt: skip
    return drawn


def power_of_two(number: int) -> int:
    """The least power of two that is not less than `number`."""
    return 1 << (number - 1).bit_length()
