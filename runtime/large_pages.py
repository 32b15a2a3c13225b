"""Memory in pages of two megabytes, where the system has them.

A pass reads all weights, and all keys and values, in one sweep.  In pages of four kilobytes a
processor has to look up the place of a new one every few instructions, of more than it can
remember.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

PAGE = 2 << 20
"""Bytes of a large page."""


def large_zeros(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Zeros on the CPU; in large pages, if they fill one and the system has them.

    No memory is taken for a page before something else is written there.
    """
    num_bytes = prod(shape) * dtype.itemsize
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is None or num_bytes < PAGE:
        return torch.zeros(shape, dtype=dtype)
    kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # what is shared has small pages
    try:
        room = mmap.mmap(-1, num_bytes + PAGE, flags=kind)
        room.madvise(advice)
    except OSError:  # a system without them, or without so much room
        return torch.zeros(shape, dtype=dtype)
    block = torch.frombuffer(room, dtype=torch.uint8)
    start = -block.data_ptr() % PAGE
    return block[start : start + num_bytes].view(dtype).view(torch.Size(shape))
