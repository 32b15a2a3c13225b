"""One call of tree attention: its tensors, whether they fit together, and its sizes."""

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
    num_rows: int  # of the cache, S
    head_dim: int
    num_words: int  # of ancestor bits of one node, W

    @property
    def group(self) -> int:
        """Query heads that read one key-value head."""
        return self.num_heads // self.num_kv_heads


@dataclass(frozen=True)
class AttentionCall:
    """The tensors of one call of `tree_attention`, as `reference.tree_attention` describes them."""

    query: Tensor
    key: Tensor
    value: Tensor
    prefix_lengths: Tensor
    ancestor_bits: Tensor
    tree_sizes: Tensor | None = None
    tree_rows: Tensor | None = None
    out: Tensor | None = None

    def checked(self) -> AttentionShape:
        """The sizes of a call whose tensors fit; ValueError naming the first that does not.

        Lengths are only looked at for their shape and type: their values stay on the device.
        """
        self._check_cache()
        self._check_bits()
        self._check_lengths()
        self._check_out()
        batch, num_heads, num_nodes, head_dim = self.query.shape
        sizes = (batch, num_heads, self.key.shape[1], num_nodes, self.key.shape[2], head_dim)
        return AttentionShape(*sizes, self.ancestor_bits.shape[2])

    def _check_cache(self) -> None:
        query, key = self.query, self.key
        if query.dim() != 4 or key.dim() != 4:
            raise ValueError(
                f"query, key: got {list(query.shape)}, {list(key.shape)}, expected "
                "[B, Hq, n, D] and [B, Hkv, S, D]"
            )
        batch, num_heads, _, head_dim = query.shape
        num_kv_heads, num_rows = key.shape[1:3]
        if min(query.shape) < 1 or key.shape != (batch, num_kv_heads, num_rows, head_dim):
            raise ValueError(
                f"key: got {list(key.shape)}, expected [{batch}, Hkv, S, {head_dim}] as query is"
            )
        if num_kv_heads < 1 or num_heads % num_kv_heads:
            raise ValueError(
                f"key: got {num_kv_heads} heads, expected a number that divides the query's "
                f"{num_heads}"
            )
        if self.value.shape != key.shape:
            raise ValueError(
                f"value: got {list(self.value.shape)}, expected key's {list(key.shape)}"
            )
        for name, tensor in (("key", key), ("value", self.value)):
            if tensor.dtype != query.dtype or tensor.device != query.device:
                raise ValueError(
                    f"{name}: got {tensor.dtype} on {tensor.device}, expected {query.dtype} on "
                    f"{query.device} as query is"
                )
            if num_rows > 0 and tensor.stride(3) != 1 and head_dim > 1:
                raise ValueError(f"{name}: got a last stride of {tensor.stride(3)}, expected 1")
        if not query.is_floating_point():
            raise ValueError(f"query: got {query.dtype}, expected a floating-point type")

    def _check_bits(self) -> None:
        bits, batch, num_nodes = self.ancestor_bits, self.query.shape[0], self.query.shape[2]
        if bits.dim() != 3 or bits.shape[0] not in (1, batch) or bits.shape[1] != num_nodes:
            raise ValueError(
                f"ancestor_bits: got {list(bits.shape)}, expected [{batch} or 1, {num_nodes}, W], "
                "a row for every query"
            )
        num_words = bits.shape[2]
        least = 1 if self.tree_rows is not None else -(-num_nodes // BITS)
        if num_words < least:
            raise ValueError(
                f"ancestor_bits: got {num_words} words a node, expected {least} for {num_nodes} "
                "nodes"
            )
        if self.tree_rows is None and num_nodes > self.key.shape[2]:
            raise ValueError(
                f"key: got {self.key.shape[2]} rows, expected room for a tree of {num_nodes} "
                "nodes; make the cache larger"
            )
        check_integers("ancestor_bits", bits, self.query)

    def _check_lengths(self) -> None:
        batch = self.query.shape[0]
        for name in ("prefix_lengths", "tree_sizes", "tree_rows"):
            numbers = getattr(self, name)
            if numbers is not None:
                check_integers(name, numbers, self.query)
                if numbers.shape != (batch,):
                    raise ValueError(f"{name}: got {list(numbers.shape)}, expected [{batch}]")

    def _check_out(self) -> None:
        query, out = self.query, self.out
        if out is None:
            return
        if (out.shape, out.dtype, out.device) != (query.shape, query.dtype, query.device):
            raise ValueError(
                f"out: got {out.dtype} {list(out.shape)} on {out.device}, expected {query.dtype} "
                f"{list(query.shape)} on {query.device} as query is"
            )
        if out.stride(3) != 1 and query.shape[3] > 1:
            raise ValueError(f"out: got a last stride of {out.stride(3)}, expected 1")


def score_factor(scaling: float | None, head_dim: int) -> float:
    """`scaling`, or 1 / sqrt(D) for None; ValueError unless it is positive and finite."""
    factor = head_dim**-0.5 if scaling is None else float(scaling)
    if not (factor > 0 and math.isfinite(factor)):
        raise ValueError(f"scaling: got {scaling}, expected a positive number")
    return factor


def check_integers(name: str, tensor: Tensor, like: Tensor) -> None:
    """ValueError unless `tensor` is of int32, and on the device of `like`."""
    if tensor.dtype != int32 or tensor.device != like.device:
        raise ValueError(
            f"{name}: got {tensor.dtype} on {tensor.device}, expected torch.int32 on {like.device}"
        )
