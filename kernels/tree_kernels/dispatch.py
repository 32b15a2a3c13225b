"""The choice of a backend for a call: Triton where it can (`available`), else plain torch."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from . import launches, reference, verified
from . import tree_attention as split_attention
from .backend import available, unavailable
from .launches import TreeBlocks
from .verified import Method, VerifiedTree

Backend = Literal["auto", "triton", "reference"]


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
    backend: Backend = "auto",
) -> Tensor:
    """`reference.tree_attention`, which says what the tensors are and what is computed.

    blocks   lists of the bits' non-empty blocks, made once a step; only Triton looks
    backend  "auto": Triton where it serves such tensors

    Raises ValueError when arguments do not fit, or when Triton is asked for and cannot serve them.
    """
    head_dim = query.shape[-1] if query.dim() == 4 else 0
    arguments = (query, key, value, prefix_lengths, ancestor_bits)
    if _by_triton(backend, available(query.device, query.dtype, head_dim)):
        return split_attention.tree_attention(
            *arguments, tree_sizes=tree_sizes, tree_rows=tree_rows, scaling=scaling, out=out,
            blocks=blocks,
        )  # fmt: skip
    return reference.tree_attention(
        *arguments, tree_sizes=tree_sizes, tree_rows=tree_rows, scaling=scaling, out=out
    )


def shared_blocks(
    query: Tensor, num_kv_heads: int, ancestor_bits: Tensor, tree_rows: Tensor | None = None
) -> TreeBlocks | None:
    """`blocks` that all layers of a pass can share, as `tree_attention` would make them; None where
    it would make none.

    query          float [B, Hq, n, D]
    num_kv_heads   Hkv
    ancestor_bits  int32 [B or 1, n, W], and tree_rows int32 [B], as given to it
    """
    if not _by_triton("auto", available(query.device, query.dtype, query.shape[-1])):
        return None
    return split_attention.shared_blocks(query, num_kv_heads, ancestor_bits, tree_rows)


def ancestor_bits(
    parents: Tensor, num_words: int | None = None, *, backend: Backend = "auto"
) -> Tensor:
    """`reference.ancestor_bits`, made on the device of `parents`."""
    serve = launches if _by_triton(backend, unavailable(parents.device)) else reference
    return serve.ancestor_bits(parents, num_words)


def keep_rows_(
    cache: Tensor,
    prefix_lengths: Tensor,
    rows: Tensor,
    counts: Tensor,
    *,
    backend: Backend = "auto",
) -> None:
    """`reference.keep_rows_`, on the cache's device."""
    serve = launches if _by_triton(backend, unavailable(cache.device)) else reference
    serve.keep_rows_(cache, prefix_lengths, rows, counts)


def accept_walk(
    parents: Tensor,
    tokens: Tensor,
    sampled: Tensor,
    *,
    tree_sizes: Tensor | None = None,
    backend: Backend = "auto",
) -> tuple[Tensor, Tensor, Tensor]:
    """`reference.accept_walk`, on the device of its tensors."""
    serve = launches if _by_triton(backend, unavailable(parents.device)) else reference
    return serve.accept_walk(parents, tokens, sampled, tree_sizes=tree_sizes)


def verify_walk(
    target_probs: Tensor,
    draft_probs: Tensor,
    tree: VerifiedTree,
    uniforms: Tensor,
    method: Method,
    *,
    backend: Backend = "auto",
) -> Tensor:
    """`verified.verify_walk`, on the device of its tensors."""
    serve = launches if _by_triton(backend, unavailable(target_probs.device)) else verified
    return serve.verify_walk(target_probs, draft_probs, tree, uniforms, method)


def _by_triton(backend: Backend, obstacle: str | None) -> bool:
    """Does Triton serve the call?  ValueError where it is asked for and cannot."""
    if backend not in ("auto", "triton", "reference"):
        raise ValueError(f"backend: got {backend!r}, expected auto, triton or reference")
    if backend == "triton" and obstacle is not None:
        raise ValueError(f"backend: got triton, but {obstacle}; expected auto or reference")
    return backend != "reference" and obstacle is None
