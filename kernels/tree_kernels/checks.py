"""What the functions of this package demand of their arguments, whichever backend serves them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, int32

BITS = 32
"""Tree rows in one word of packed ancestor bits, and in one block of tree keys."""


@dataclass(frozen=True)
class AttentionShape:
    """The sizes of one call of `tree_attention`."""

    batch: int
    num_heads: int
    num_kv_heads: int
    num_nodes: int
    num_rows: int
    """Rows of the cache, S."""
    head_dim: int
    num_words: int
    """Words of ancestor bits of one node, W."""

    @property
    def group(self) -> int:
        """Query heads that read one key-value head."""
        return self.num_heads // self.num_kv_heads


def attention_shape(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    prefix_lengths: Tensor,
    ancestor_bits: Tensor,
    tree_sizes: Tensor | None,
    tree_rows: Tensor | None,
    out: Tensor | None,
) -> AttentionShape:
    """The sizes of a call whose arguments fit together; ValueError naming the first that does not.

    Lengths are only looked at for their shape and type: their values stay on the device.
    """
    if query.dim() != 4 or key.dim() != 4:
        raise ValueError(
            f"query, key: got {list(query.shape)}, {list(key.shape)}, expected "
            "[B, Hq, n, D] and [B, Hkv, S, D]"
        )
    batch, num_heads, num_nodes, head_dim = query.shape
    _, num_kv_heads, num_rows, _ = key.shape
    if min(query.shape) < 1 or key.shape != (batch, num_kv_heads, num_rows, head_dim):
        raise ValueError(
            f"key: got {list(key.shape)}, expected [{batch}, Hkv, S, {head_dim}] as query has it"
        )
    if num_kv_heads < 1 or num_heads % num_kv_heads:
        raise ValueError(
            f"key: got {num_kv_heads} heads, expected a number that divides the query's {num_heads}"
        )
    if value.shape != key.shape:
        raise ValueError(f"value: got {list(value.shape)}, expected key's {list(key.shape)}")
    for name, tensor in (("key", key), ("value", value)):
        if tensor.dtype != query.dtype or tensor.device != query.device:
            raise ValueError(
                f"{name}: got {tensor.dtype} on {tensor.device}, expected {query.dtype} on "
                f"{query.device} as query is"
            )
        if num_rows > 0 and tensor.stride(3) != 1 and head_dim > 1:
            raise ValueError(f"{name}: got a last stride of {tensor.stride(3)}, expected 1")
    if not query.is_floating_point():
        raise ValueError(f"query: got {query.dtype}, expected a floating-point type")
    if ancestor_bits.dim() != 3 or ancestor_bits.shape[0] not in (1, batch):
        raise ValueError(
            f"ancestor_bits: got {list(ancestor_bits.shape)}, expected [{batch} or 1, "
            f"{num_nodes}, W]"
        )
    num_words = ancestor_bits.shape[2]
    if ancestor_bits.shape[1] != num_nodes or num_words < 1:
        raise ValueError(
            f"ancestor_bits: got {list(ancestor_bits.shape)}, expected [{batch} or 1, "
            f"{num_nodes}, W], a row for every query"
        )
    if tree_rows is None and BITS * num_words < num_nodes:
        raise ValueError(
            f"ancestor_bits: got {num_words} words a node, expected {-(-num_nodes // BITS)} for "
            f"{num_nodes} nodes"
        )
    if tree_rows is None and num_nodes > num_rows:
        raise ValueError(
            f"key: got {num_rows} rows, expected room for a tree of {num_nodes} nodes; "
            "make the cache larger"
        )
    _integers("ancestor_bits", ancestor_bits, query)
    lengths = {
        "prefix_lengths": prefix_lengths,
        "tree_sizes": tree_sizes,
        "tree_rows": tree_rows,
    }
    for name, numbers in lengths.items():
        if numbers is not None:
            _integers(name, numbers, query)
            if numbers.shape != (batch,):
                raise ValueError(f"{name}: got {list(numbers.shape)}, expected [{batch}]")
    if out is not None and (out.shape, out.dtype, out.device) != (
        query.shape,
        query.dtype,
        query.device,
    ):
        raise ValueError(
            f"out: got {out.dtype} {list(out.shape)} on {out.device}, expected {query.dtype} "
            f"{list(query.shape)} on {query.device} as query is"
        )
    if out is not None and out.stride(3) != 1 and head_dim > 1:
        raise ValueError(f"out: got a last stride of {out.stride(3)}, expected 1")
    return AttentionShape(batch, num_heads, num_kv_heads, num_nodes, num_rows, head_dim, num_words)


def score_factor(scaling: float | None, head_dim: int) -> float:
    """`scaling`, or 1 / sqrt(D) for None; ValueError unless it is positive and finite."""
    factor = head_dim**-0.5 if scaling is None else float(scaling)
    if not (factor > 0 and math.isfinite(factor)):
        raise ValueError(f"scaling: got {scaling}, expected a positive number")
    return factor


def _integers(name: str, tensor: Tensor, like: Tensor) -> None:
    if tensor.dtype != int32 or tensor.device != like.device:
        raise ValueError(
            f"{name}: got {tensor.dtype} on {tensor.device}, expected torch.int32 on {like.device}"
        )
