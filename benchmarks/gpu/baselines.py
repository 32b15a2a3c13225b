"""Other ways to compute the attention of a tree: a table of them, to be compared with ours.

A baseline is prepared for one case, which may take long and is not timed, and gives a function of
keys and values [1, Hkv, S, D] that returns [1, Hq, n, D].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from .bench import Skipped
from .inputs import Inputs

Attention = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class OtherAttention:
    """One way to do it."""

    prepare: Callable[[Inputs], Attention]
    same_job: bool = True
    """Is its result ours?  A chain's is not."""
    every_case: bool = True
    """False: only where the goals ask for it, because it has to be compiled for every shape."""


def additive(made: Inputs, copies: int = 1) -> Tensor:
    """The mask as numbers to add, made once: a backend would make them anew at every call."""
    nodes, capacity, end = made.case.nodes, made.caches[0].shape[3], made.mask.shape[3]
    mask = made.query.new_zeros((1, 1, copies * nodes, capacity))[..., :end]
    return mask.masked_fill_(~made.mask.repeat(1, 1, copies, 1), float("-inf"))


def _lower_right(made: Inputs) -> Tensor:
    """The mask of as many nodes in a row, beside which branching shows its cost."""
    from torch.nn.attention.bias import causal_lower_right

    return causal_lower_right(made.case.nodes, made.mask.shape[3])


def _stock(made: Inputs) -> Attention:
    """Attention as transformers does it with a mask: keys and values repeated for every query
    head."""
    end, group = made.mask.shape[3], made.case.shape.group

    def attend(key: Tensor, value: Tensor) -> Tensor:
        key, value = key[:, :, :end], value[:, :, :end]
        if group > 1:
            key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        return scaled_dot_product_attention(made.query, key, value, attn_mask=made.mask)

    return attend


def _pinned(
    backend: SDPBackend, bias: Callable[[Inputs], Tensor] = additive, *, packed: bool = False
) -> Callable[[Inputs], Attention]:
    """One backend's attention with the mask and grouped queries; torch raises where it does not
    serve them.

    packed  the query heads of a group as more queries of one head: nothing is repeated
    """

    def prepare(made: Inputs) -> Attention:
        shape, end = made.case.shape, made.mask.shape[3]
        grouped, rows = shape.group > 1 and not packed, made.query.shape
        if packed:
            if shape.group == 1:
                raise Skipped("one query head to a key-value head: nothing to pack")
            rows = (1, shape.kv_heads, shape.group * made.case.nodes, shape.head_dim)
        mask = additive(made, shape.group) if packed else bias(made)

        def attend(key: Tensor, value: Tensor) -> Tensor:
            with sdpa_kernel(backend):
                mixed = scaled_dot_product_attention(
                    made.query.reshape(rows), key[:, :, :end], value[:, :, :end], attn_mask=mask,
                    enable_gqa=grouped,
                )  # fmt: skip
            return mixed.reshape(made.query.shape)

        return attend

    return prepare


def flex_mask(made: Inputs, query_block: int) -> Callable[[], Any]:
    """The build of FlexAttention's block mask, the prefix in full blocks of 128 keys."""
    from torch.nn.attention.flex_attention import create_block_mask

    prefix, end, seen = made.case.prefix, made.mask.shape[3], made.seen

    def sees(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key < prefix) | seen[query, (key - prefix).clamp(min=0)]

    build = torch.compile(create_block_mask, dynamic=False)
    return lambda: build(
        sees, None, None, made.case.nodes, end, device=seen.device, BLOCK_SIZE=(query_block, 128)
    )


def query_block(made: Inputs) -> int:
    """The block that leaves prefix blocks full."""
    return max(16, made.case.nodes)


def _flex(made: Inputs) -> Attention:
    """Flex attention by the first of its kernels that can be compiled: the one for few queries, in
    one tile or in several (it packs a group's heads, and refuses blocks of queries that its tile
    does not fit into), or the one for many."""
    from torch.nn.attention.flex_attention import flex_attention

    torch.compiler.reset()  # it compiles a function only so many times
    end, grouped = made.mask.shape[3], made.case.shape.group > 1
    compiled = torch.compile(flex_attention, dynamic=False)
    block, fault = query_block(made), None
    for queries, options in (
        (block, {}),
        (block, {"BLOCK_M": 64}),
        (128, {"FORCE_USE_FLEX_ATTENTION": True}),
    ):
        mask = flex_mask(made, queries)()

        def attend(key: Tensor, value: Tensor, mask: Any = mask, options: Any = options) -> Tensor:
            return compiled(
                made.query, key[:, :, :end], value[:, :, :end], block_mask=mask,
                enable_gqa=grouped, kernel_options=options,
            )  # fmt: skip

        try:
            attend(*made.caches[0])
        except Exception as error:  # whatever its compiler says
            fault = error
        else:
            return attend
    raise RuntimeError(f"no kernel can be compiled: {fault}")


def _flashinfer(made: Inputs) -> Attention:
    try:
        import flashinfer
    except ImportError:
        raise Skipped("flashinfer is not installed") from None
    end, query = made.mask.shape[3], made.query[0].transpose(0, 1).contiguous()
    mask = made.mask[0, 0].contiguous()

    def attend(key: Tensor, value: Tensor) -> Tensor:
        mixed = flashinfer.single_prefill_with_kv_cache(
            query, key[0, :, :end], value[0, :, :end], custom_mask=mask, kv_layout="HND"
        )
        return mixed.transpose(0, 1)[None]

    return attend


def _xformers(made: Inputs) -> Attention:
    """Its keys lie [B, S, G, H, D]; they are brought there before, not in the time taken."""
    try:
        from xformers.ops.fmha.attn_bias import BlockDiagonalPaddedKeysMask
        from xformers.ops.tree_attention import tree_attention
    except ImportError:
        raise Skipped("xformers is not installed") from None
    shape, prefix, nodes = made.case.shape, made.case.prefix, made.case.nodes
    heads = (1, nodes, shape.kv_heads, shape.group, shape.head_dim)
    query = made.query.transpose(1, 2).reshape(heads)
    within = torch.zeros_like(made.seen, dtype=query.dtype).masked_fill_(~made.seen, float("-inf"))
    before = BlockDiagonalPaddedKeysMask.from_seqlens(
        q_seqlen=[nodes], kv_seqlen=[prefix], kv_padding=prefix
    )
    laid: dict[int, Tensor] = {}

    def by_rows(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in laid:
            laid[tensor.data_ptr()] = tensor.transpose(1, 2).contiguous()
        rows = laid[tensor.data_ptr()][:, :, :, None]
        return rows.expand(-1, -1, -1, shape.group, -1)

    def attend(key: Tensor, value: Tensor) -> Tensor:
        keys, values = by_rows(key), by_rows(value)
        tree = slice(prefix, prefix + nodes)
        mixed = tree_attention(query, keys[:, tree], values[:, tree], keys[:, :prefix],
                               values[:, :prefix], within, before)  # fmt: skip
        return mixed.reshape(1, nodes, shape.heads, shape.head_dim).transpose(1, 2)

    return attend


BASELINES = {
    "stock": OtherAttention(_stock),
    "sdpa cudnn": OtherAttention(_pinned(SDPBackend.CUDNN_ATTENTION)),
    "sdpa efficient": OtherAttention(_pinned(SDPBackend.EFFICIENT_ATTENTION)),
    "sdpa efficient, packed": OtherAttention(_pinned(SDPBackend.EFFICIENT_ATTENTION, packed=True)),
    "sdpa cudnn, packed": OtherAttention(_pinned(SDPBackend.CUDNN_ATTENTION, packed=True)),
    "sdpa math": OtherAttention(_pinned(SDPBackend.MATH), every_case=False),
    "flash, a chain": OtherAttention(
        _pinned(SDPBackend.FLASH_ATTENTION, _lower_right), same_job=False
    ),
    "flexattention": OtherAttention(_flex, every_case=False),
    "xformers": OtherAttention(_xformers),
    "flashinfer": OtherAttention(_flashinfer),
}
