"""Tensors between guards: whatever is read or written beside them is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch import Tensor

MARGIN = 3
SENTINEL = -7_777_777


def poison(dtype: torch.dtype) -> float | int:
    """A value that turns up in every result that it gets into."""
    return float("nan") if dtype.is_floating_point else SENTINEL


class Guarded:
    """A tensor inside a larger one whose other entries are poison.

    All dimensions but the last get rows before and behind, the last only behind.
    """

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        larger = [size + 2 * MARGIN for size in shape[:-1]] + [shape[-1] + 8]
        self.around = torch.full(larger, poison(dtype), dtype=dtype)
        inner = [slice(MARGIN, MARGIN + size) for size in shape[:-1]]
        self.tensor = self.around[(*inner, slice(shape[-1]))]
        self._inside = torch.zeros(larger, dtype=torch.bool)
        self._inside[(*inner, slice(shape[-1]))] = True

    def intact(self) -> bool:
        """Has nothing been written beside the tensor?"""
        poisoned = (
            self.around.isnan() if self.around.is_floating_point() else self.around == SENTINEL
        )
        return bool(poisoned.logical_or_(self._inside).all())


def holding(tensor: Tensor) -> Guarded:
    """A guarded copy."""
    guarded = Guarded(tuple(tensor.shape), tensor.dtype)
    guarded.tensor.copy_(tensor)
    return guarded


@contextmanager
def guarded_allocations() -> Iterator[list[Tensor]]:
    """Every `torch.empty` inside is contiguous, full of poison, and has poison on both sides.

    Yields the storages; on the way out asserts that their guards are whole.
    """
    made: list[tuple[Tensor, int]] = []
    real = torch.empty

    def empty(shape: tuple[int, ...], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        size = torch.Size(shape).numel()
        around = real((size + 512,), dtype=dtype, device=device).fill_(poison(dtype))
        made.append((around, size))
        return around[256 : 256 + size].view(shape)

    with patch.object(torch, "empty", empty):
        yield [around for around, _ in made]
    for around, size in made:
        beside = torch.cat((around[:256], around[256 + size :]))
        whole = beside.isnan() if beside.is_floating_point() else beside == SENTINEL
        assert bool(whole.all()), "a kernel wrote beside the tensor that it was given"
