"""Products of few rows with weights that are laid out for them.

A step of speculative decoding multiplies 1 to 64 rows with every weight.  For so few rows the
products of torch read weights at a fraction of the memory's speed; oneDNN reads them two to four
times as fast, once they lie in its own order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import psutil
import torch
from torch import Tensor
from torch.nn.functional import linear, pad

ENTRIES_WORTH_PACKING = 2**17
"""Below, a product takes less time than finding oneDNN's: some 12 microseconds."""
ROWS_PACKED_FOR = 64
"""The number of rows that oneDNN chooses the order for; it serves all others."""
FEWEST_ROWS = 4
"""Products of one to three rows with a packed weight take longer than those of four."""


def product(weight: Tensor, bias: Tensor | None = None) -> Callable[[Tensor], Tensor]:
    """x [n, in] -> x weight^T + bias [n, out], by a copy of weight [out, in] and bias."""
    weight = weight.detach().clone()
    bias = None if bias is None else bias.detach().clone()
    if weight.numel() < ENTRIES_WORTH_PACKING:
        return partial(linear, weight=weight, bias=bias)
    return packed_product(weight, bias)


def packed_product(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    """The same, whatever the weight's size."""
    with torch.inference_mode(False):  # tensors of inference mode cannot be laid out anew
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS_PACKED_FOR)
    multiply = torch.ops.mkldnn._linear_pointwise

    def multiplied(x: Tensor) -> Tensor:
        missing = FEWEST_ROWS - len(x)
        if missing <= 0:
            return multiply(x, packed, bias, "none", [], "")
        return multiply(pad(x, (0, 0, 0, missing)), packed, bias, "none", [], "")[:-missing]

    return multiplied


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
