"""Weights in fewer bits than they are computed with: of a pass over few tokens, most of the time is
reading them.

Reading is exact: only a weight whose every entry the short form holds is read so.  Models that were
saved in 16 bits are; any other can be made so when it is loaded (`to_eight_bits`), and then is
another model, which every path computes alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tree_kernels.host.products import AT_ONCE, BFLOAT16, FLOAT16, FLOAT32, INT8, LINE
from tree_kernels.host.tile_code import DEPTH, allowed
from tree_kernels.host.tiles import BLOCK, TILED_BFLOAT16, TILED_INT8, in_tiles

MOST = 127
"""The largest of the whole numbers that stand for a row's entries; the least is -127."""
WRITTEN_AS = {
    torch.float32: FLOAT32,
    torch.float16: FLOAT16,
    torch.bfloat16: BFLOAT16,
    torch.int8: INT8,
}
TILED_AS = {torch.bfloat16: TILED_BFLOAT16, torch.int8: TILED_INT8}


class ReadWeight(NamedTuple):
    """A weight [o, i] as it lies in memory.

    entries     of one of the dtypes of `WRITTEN_AS`
    scales      float [o]: what a row of int8 is a multiple of; None of others
    written_as  how, in which order: one of `WRITTEN_AS` or of `TILED_AS`
    """

    entries: Tensor
    scales: Tensor | None = None
    written_as: int = FLOAT32


def shortest(weight: Tensor) -> ReadWeight:
    """The shortest form that holds every entry of a weight of 32 bits exactly."""
    height, width = weight.shape
    if width % LINE == 0 and height % AT_ONCE == 0:
        if _is_whole(weight):
            scales = _scales(weight)
            return _ordered((weight / scales).to(torch.int8), scales[:, 0].contiguous())
        for dtype in (torch.bfloat16, torch.float16):
            short = weight.to(dtype)
            if torch.equal(short.float(), weight):
                return _ordered(short)
    return ReadWeight(weight)


def _ordered(entries: Tensor, scales: Tensor | None = None) -> ReadWeight:
    """Entries in the order of the processor's tiles, where it has any for them."""
    height, width = entries.shape
    if height % BLOCK or width % DEPTH or entries.dtype not in TILED_AS or not allowed():
        return ReadWeight(entries, scales, WRITTEN_AS[entries.dtype])
    bits = torch.int8 if entries.dtype == torch.int8 else torch.int16
    tiles = torch.from_numpy(in_tiles(entries.view(bits).numpy())).view(entries.dtype)
    return ReadWeight(tiles.view(height, width), scales, TILED_AS[entries.dtype])


@torch.no_grad()
def to_eight_bits(model: nn.Module) -> None:
    """Round every product's weight in place: a row to multiples of a 127th of its largest entry.

    Embeddings that are the head's weight too are rounded with it.
    """
    for weight in _weights(model):
        scales = _scales(weight)
        weight.copy_((weight / scales).round_().mul_(scales))


def in_eight_bits(model: nn.Module) -> bool:
    """Is that what was done to a model that a CPU computes in 32 bits?"""
    return all(
        weight.dtype == torch.float32 and weight.device.type == "cpu" and _is_whole(weight)
        for weight in _weights(model)
    )


def _weights(model: nn.Module) -> Iterator[Tensor]:
    return (each.weight.detach() for each in model.modules() if isinstance(each, nn.Linear))


def _scales(weight: Tensor) -> Tensor:
    """float [o, 1], of so few bits that 127 times each is exact; the same of a rounded weight."""
    largest = weight.abs().amax(-1, keepdim=True)
    return torch.where(largest > 0, largest / MOST, 1.0).bfloat16().to(weight.dtype)


def _is_whole(weight: Tensor) -> bool:
    """Are all rows multiples of their scales?  The first one nearly always tells."""
    for rows in (weight[:1], weight):
        scales = _scales(rows)
        if not torch.equal((rows / scales).round_().mul_(scales), rows):
            return False
    return True
