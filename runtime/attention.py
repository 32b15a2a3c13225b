"""How a forward pass tells the attention of a transformers model which rows see which.

transformers' own implementations take a dense mask over all rows of the cache.  `tree_kernels` need
none: every row sees the whole prefix, so that only the rows of the tree are told apart, by a bit
each.  They are registered under a name of ours for attention but not for masks, so that no model
makes one, and find the bits among the keyword arguments that models hand down untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from planner.documents.document import PlannerError
from tree_kernels import available, shared_blocks, tree_attention
from tree_kernels.launches import TreeBlocks
from tree_kernels.reference import packed

MASKED = ("sdpa", "eager")  # implementations of transformers that take an arbitrary mask
TREE = "espalier_tree"  # the name under which transformers knows ours
CHOICES = ("auto", "tree", *MASKED)  # what a person may ask for


def visibility(config: Any, device: torch.device, dtype: torch.dtype) -> DenseMask | PackedBits:
    """The one that says to the implementation which `config` names what rows see.

    Its `name` is what documents call the implementation; its `arguments` are keyword arguments of
    the model, for a pass of `num_rows` rows behind `length`, `visible` as for `LanguageModel`, and
    those `for_texts` of a pass over several texts, given the same of each.  `apart` says whether
    attention then takes each text's keys and values by themselves.
    """
    implementation: str = config._attn_implementation
    if implementation == TREE:
        return PackedBits(device, dtype, head_size(config))
    return DenseMask(implementation, device, dtype)


Rows = tuple[int, int, Tensor | None]
"""One text's in a pass: `num_rows`, `length` and `visible`."""


class DenseMask:
    """A mask over all rows, for the implementations in `MASKED`."""

    apart = False

    def __init__(self, name: str, device: torch.device, dtype: torch.dtype) -> None:
        self.name, self._device, self._dtype = name, device, dtype

    def arguments(self, num_rows: int, length: int, visible: Tensor | None) -> dict[str, Any]:
        return {"attention_mask": self._mask(num_rows, length, visible)}

    def _mask(self, num_rows: int, length: int, visible: Tensor | None) -> Tensor | None:
        """[1, 1, n, length + n], bool for sdpa, additive for eager; None where transformers'
        own causal mask is right and needs no tensor at all."""
        if visible is None and self.name == "sdpa" and (num_rows == 1 or length == 0):
            return None
        return self._as_wanted(self._whole(num_rows, length, visible))

    def for_texts(self, texts: Sequence[Rows]) -> dict[str, Any]:
        """A mask [1, 1, all new rows, all rows] by which no text sees another's rows."""
        masks = [self._whole(*text) for text in texts]
        return {"attention_mask": self._as_wanted(torch.block_diag(*masks))}

    def _whole(self, num_rows: int, length: int, visible: Tensor | None) -> Tensor:
        """bool [n, length + n]: which rows does each new one see?"""
        if visible is not None and visible.shape[1] == length + num_rows:
            return visible
        mask = torch.ones((num_rows, length + num_rows), dtype=torch.bool, device=self._device)
        if visible is None:
            return mask.tril_(length)
        mask[:, -visible.shape[1] :] = visible
        return mask

    def _as_wanted(self, mask: Tensor) -> Tensor:
        if self.name == "eager":
            hidden = torch.finfo(self._dtype).min
            mask = torch.zeros_like(mask, dtype=self._dtype).masked_fill_(~mask, hidden)
        return mask[None, None]


@dataclass(frozen=True)
class TokenTree:
    """The tree that the rows of a pass see, in tensors on the device: no launch waits for the host.

    prefix_lengths  int32 [1]  rows of prefix, which every new row sees
    num_rows        int32 [1]  t: the n new rows are the last of the t rows of the tree
    bits            int32 [1, n, ceil(t / 32)]  bit j % 32 of word j // 32: row i sees the tree's j
    """

    prefix_lengths: Tensor
    num_rows: Tensor
    bits: Tensor
    _blocks: list[TreeBlocks | None] = field(default_factory=list, repr=False)

    def blocks(self, query: Tensor, num_kv_heads: int) -> TreeBlocks | None:
        """The lists of what is seen of a large tree: made by the first layer, shared by all."""
        if not self._blocks:
            made = shared_blocks(query, num_kv_heads, self.bits, self.num_rows)
            self._blocks.append(made)
        return self._blocks[0]


class PackedBits:
    """A bit for each new row and each row of the tree, for `tree_kernels`."""

    apart = True

    def __init__(self, device: torch.device, dtype: torch.dtype, head_dim: int) -> None:
        kernel = available(device, dtype, head_dim) is None
        self.name = "tree" if kernel else "tree (reference)"
        self._device = device
        self._lone = torch.ones((1, 1, 1), dtype=torch.int32, device=device)

    def arguments(self, num_rows: int, length: int, visible: Tensor | None) -> dict[str, Any]:
        if visible is None and length == 0 and num_rows > 1:
            return {}  # a text from its start
        if visible is None and num_rows > 1:
            visible = torch.ones(
                (num_rows, num_rows), dtype=torch.bool, device=self._device
            ).tril_()
        size = 1 if visible is None else visible.shape[1]
        bits = self._lone if visible is None else packed(visible)[None]
        counts = torch.tensor([length + num_rows - size, size], dtype=torch.int32)
        counts = counts.to(self._device, non_blocking=True)
        return {"token_tree": TokenTree(counts[:1], counts[1:], bits)}

    def for_texts(self, texts: Sequence[Rows]) -> dict[str, Any]:
        """A tree of each text's own, or none for a text from its start."""
        trees = [self.arguments(*text).get("token_tree") for text in texts]
        return {"token_tree": [(text[0], tree) for text, tree in zip(texts, trees, strict=True)]}


def register_tree_attention() -> None:
    """Let models of transformers be given the implementation `TREE`."""
    from transformers import AttentionInterface

    AttentionInterface.register(TREE, _attend)


def why_not_tree(config: Any) -> str | None:
    """None, or what a model of this configuration does to scores that `tree_kernels` do not."""
    if getattr(config, "attn_logit_softcapping", None) is not None:
        return "attention scores that are capped"
    return None


def head_size(config: Any) -> int:
    """Entries of a query head; 0 where the configuration does not say."""
    own = getattr(config, "head_dim", None)
    if own is None and getattr(config, "num_attention_heads", None):
        own = getattr(config, "hidden_size", 0) // config.num_attention_heads
    return int(own or 0)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    *,
    token_tree: TokenTree | list[tuple[int, TokenTree | None]] | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """The attention function of transformers: [1, heads, n, head size] -> [1, n, heads, head size].

    Where rows are of several texts, `token_tree` has the number of them and the tree of each, and
    `key` and `value` are as many tensors.
    Of sliding windows nothing is to be seen: a model is served up to its shortest one.
    """
    unserved = [name for name in _UNSERVED if others.get(name) is not None]
    if unserved or attention_mask is not None:
        what = ", ".join(unserved) or "a mask"
        raise PlannerError(
            f"attention: got a model that wants {what}, which tree attention does not know; choose "
            "attention sdpa or eager"
        )
    if not isinstance(token_tree, list):
        mixed = attended(query, key, value, scaling, token_tree)
        return mixed.transpose(1, 2).contiguous(), None
    queries = query.split([num_rows for num_rows, _ in token_tree], dim=2)
    texts = zip(queries, key, value, token_tree, strict=True)
    parts = [attended(q, k, v, scaling, tree) for q, k, v, (_, tree) in texts]
    return torch.cat(parts, dim=2).transpose(1, 2).contiguous(), None


def attended(
    query: Tensor, key: Tensor, value: Tensor, scaling: float | None, tree: TokenTree | None
) -> Tensor:
    """[1, heads, n, head size], of the rows of one text."""
    if tree is not None:
        return tree_attention(
            query, key, value, tree.prefix_lengths, tree.bits,
            tree_rows=tree.num_rows, scaling=scaling,
            blocks=tree.blocks(query, key.shape[1]),
        )  # fmt: skip
    num_rows = query.shape[2]
    if num_rows not in (1, key.shape[2]):  # neither the next token of a text nor all of it
        raise PlannerError(
            "attention: got a model that does not hand the tree down to its layers; choose "
            "attention sdpa or eager"
        )
    return scaled_dot_product_attention(
        query, key, value, is_causal=num_rows > 1, scale=scaling,
        enable_gqa=query.shape[1] != key.shape[1],
    )  # fmt: skip


_UNSERVED = ("softcap", "s_aux", "position_bias")
"""Arguments by which models ask for more than scaled scores: caps, sinks, biases."""
