"""Products of few rows with weights that are laid out for them.

A step of speculative decoding multiplies 1 to 64 rows with every weight.  For so few rows the
products of torch read weights at a fraction of the memory's speed; oneDNN reads them two to four
times as fast, once they lie in its own order.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial

import psutil
import torch
from torch import Tensor
from torch.nn.functional import linear, pad

ENTRIES_WORTH_PACKING = 2**17
"""Below, a product takes less time than finding oneDNN's: some 12 microseconds."""
ROWS_PACKED_FOR = 64
"""The number of rows that oneDNN chooses the order for; it serves all others."""
FULL_ROWS = 4
"""oneDNN's smallest full block of rows: on some processors products of one to three rows with a
packed weight take longer than those of four, on others a quarter less."""


def product(weight: Tensor, bias: Tensor | None = None) -> Callable[[Tensor], Tensor]:
    """x [n, in] -> x weight^T + bias [n, out], by a copy of weight [out, in] and bias."""
    bias = None if bias is None else bias.detach().clone()
    if weight.numel() < ENTRIES_WORTH_PACKING:
        return partial(linear, weight=weight.detach().clone(), bias=bias)
    return packed_product(weight, bias)


def packed_product(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    """The same, whatever the weight's size."""
    return partial(_multiplied, _packed(weight), bias, fewest_rows(weight.dtype))


@cache
@torch.inference_mode()
def fewest_rows(dtype: torch.dtype) -> int:
    """How many rows should products with packed weights have?  1 or `FULL_ROWS`, by the clock."""
    weight = _packed(torch.zeros((512, 512), dtype=dtype))
    lone, full = (torch.zeros((rows, 512), dtype=dtype) for rows in (1, FULL_ROWS))
    seconds: dict[int, list[float]] = {1: [], FULL_ROWS: []}
    for x in (lone, full) * 40:
        start = time.perf_counter()
        _multiplied(weight, None, 1, x)
        seconds[len(x)].append(time.perf_counter() - start)
    return min(seconds, key=lambda rows: min(seconds[rows]))


def _packed(weight: Tensor) -> Tensor:
    with torch.inference_mode(False):  # tensors of inference mode cannot be laid out anew
        own = weight.detach().clone()
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(own, ROWS_PACKED_FOR)
    return packed


def _multiplied(packed: Tensor, bias: Tensor | None, fewest: int, x: Tensor) -> Tensor:
    """x packed^T + bias, with zeros below x up to `fewest` rows."""
    missing = fewest - x.shape[0]  # len(x) takes four times as long
    if missing > 0:
        return _multiplied(packed, bias, 1, pad(x, (0, 0, 0, missing)))[:-missing]
    multiply = torch.ops.mkldnn._linear_pointwise.default
    outcome: Tensor = multiply(x, packed, bias, "none", [], "")
    return outcome


def can_pack(dtype: torch.dtype, num_bytes: int) -> bool:
    """Can weights of so many bytes be packed, by this build of torch and in the memory left?"""
    if not torch.backends.mkldnn.is_available():
        return False
    if not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return False
    if dtype == torch.bfloat16:
        known = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    else:
        known = dtype == torch.float32
    return bool(known and 2 * num_bytes < psutil.virtual_memory().available)
