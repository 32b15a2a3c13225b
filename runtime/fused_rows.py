"""A fused pass between its products: compiled, or by torch for dtypes other than float32.

The two compute the same, up to rounding.  A call of torch costs microseconds however few rows it is
given, of which compiled passes save most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import rms_norm, scaled_dot_product_attention

from tree_kernels.host.few_rows import LayerPart, NewRows, add_and_norm, attend, turn_and_store

from .cache import TreeCache
from .language_model import PassInput

MOST_SEEN = 1024
"""Rows times rows that they see, of texts whose attention is compiled; for more, torch's product of
queries and keys is faster, all its calls included."""


NO_NORM = np.empty(0, np.float32)


class LayerHeads(NamedTuple):
    """H heads and K of keys and values, of size d, and the number added under a norm's root.

    turns  float [2, P, d]: cosines and sines of the rotation at each position, the sines of the
           first half of the entries with a minus
    """

    heads: int
    kv_heads: int
    head_size: int
    eps: float
    turns: Tensor


HeadNorms = tuple[Tensor, Tensor] | None
"""Weights [d] of a norm of every query and one of every key, where a model has them."""


class PassRows(Protocol):
    """All new rows of a pass, one text's behind the other's, on their way through the layers."""

    def normed(self, x: Tensor, added: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """x + added and its norm, [n, h] each; `x` is not used again."""

    def attended(self, layer: int, qkv: Tensor, norms: HeadNorms) -> Tensor:
        """[n, H d] from queries, keys and values [n, (H + 2 K) d], which are not used again; keys
        and values go into the texts' caches."""


def pass_rows(heads: LayerHeads, inputs: Sequence[PassInput], like: Tensor) -> PassRows:
    """The rows of a pass, in the dtype of `like`; the texts' caches then count them."""
    rows = CompiledRows if like.dtype == torch.float32 else TorchRows
    return rows(heads, texts_of(heads, inputs, like))


class TextRows(NamedTuple):
    """The part that one text has in a pass: n new rows, which with those in its cache are t.

    rows       its new ones among all of the pass
    positions  int64 [n]
    store      [2 layers, 1, K, capacity, d] of its cache, with room for the new rows
    start      t - n
    visible    bool [n, w]: which of the last w rows does each new one see?  All see those before;
               None: all see all that come before them
    """

    rows: slice
    positions: Tensor
    store: Tensor
    start: int
    visible: Tensor | None

    @property
    def end(self) -> int:
        """t"""
        return self.start + len(self.positions)

    def seen(self, layer: int) -> Tensor:
        """[2, 1, K, t, d]: a layer's keys and values, new ones included."""
        return self.store[2 * layer : 2 * layer + 2, ..., : self.end, :]

    def visible_rows(self) -> Tensor:
        """`visible`, where it is None [n, n]."""
        if self.visible is not None:
            return self.visible
        return torch.from_numpy(np.tri(len(self.positions), dtype=bool))

    def mask(self, group: int) -> Tensor | None:
        """[group n, t], added to the scores of `group` heads that share keys; None for a single row
        that sees all, and for a text from its start."""
        num_rows = len(self.positions)
        if self.visible is None and (num_rows == 1 or self.start == 0):
            return None
        visible = self.visible_rows()
        mask = torch.zeros((num_rows, self.end), dtype=self.store.dtype)
        mask[:, -visible.shape[1] :].masked_fill_(~visible, -torch.inf)
        return mask.repeat(group, 1)


class CompiledText(NamedTuple):
    """A text's part as compiled passes take it, and what its attention takes: a bool for each new
    row and each that it may see, where it is compiled, too; else torch's mask, if there is one."""

    text: TextRows
    new: NewRows
    visible: np.ndarray | None
    mask: Tensor | None


class CompiledRows:
    """The rows in compiled passes, floats of 32 bits; attention of many rows is torch's."""

    def __init__(self, heads: LayerHeads, texts: Sequence[TextRows]) -> None:
        self._heads, self._turns = heads, heads.turns.numpy()
        self._texts = []
        for text in texts:
            few = text.end * len(text.positions) <= MOST_SEEN
            visible = np.ascontiguousarray(text.visible_rows().numpy()) if few else None
            mask = None if few else text.mask(heads.heads // heads.kv_heads)
            positions = np.ascontiguousarray(text.positions.numpy())
            new = NewRows(positions, text.store.numpy(), text.start)
            self._texts.append(CompiledText(text, new, visible, mask))

    def normed(self, x: Tensor, added: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        normed = torch.empty_like(x)
        add_and_norm(x.numpy(), added.numpy(), weight.numpy(), self._heads.eps, normed.numpy())
        return x, normed

    def attended(self, layer: int, qkv: Tensor, norms: HeadNorms) -> Tensor:
        heads, kv_heads, size, eps, _ = self._heads
        entries = qkv.numpy().reshape(len(qkv), -1, size)
        weights = (*([NO_NORM] * 2 if norms is None else [each.numpy() for each in norms]), eps)
        part, mixed = LayerPart(layer, 0, kv_heads), []
        for text, new, visible, mask in self._texts:
            num_rows = len(new.positions)
            queries = torch.empty((kv_heads, heads // kv_heads, num_rows, size))
            asked = queries.numpy()
            turn_and_store(entries[text.rows], weights, self._turns, new, part, asked)
            if visible is None:
                mixed.append(_attended(queries, text.seen(layer), mask))
            else:
                own = torch.empty((num_rows, heads * size))
                attend(asked, new, part, visible, own.numpy().reshape(num_rows, heads, size))
                mixed.append(own)
        return joined(mixed)


class TorchRows:
    """The rows in calls of torch."""

    def __init__(self, heads: LayerHeads, texts: Sequence[TextRows]) -> None:
        self._heads = heads
        self._texts = [(text, text.mask(heads.heads // heads.kv_heads)) for text in texts]
        positions = joined([text.positions for text in texts])
        self._cosines, self._sines = heads.turns[:, positions, None].unbind()

    def normed(self, x: Tensor, added: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        x = x + added
        return x, rms_norm(x, x.shape[1:], weight, self._heads.eps)

    def attended(self, layer: int, qkv: Tensor, norms: HeadNorms) -> Tensor:
        heads, kv_heads, size, eps, _ = self._heads
        parts = list(qkv.view(len(qkv), -1, size).split([heads, kv_heads, kv_heads], dim=1))
        if norms is not None:
            parts[:2] = [rms_norm(parts[at], (size,), norms[at], eps) for at in (0, 1)]
        queries, keys, values = self._turned(parts[0]), self._turned(parts[1]), parts[2]
        mixed = []
        for text, mask in self._texts:
            seen = text.seen(layer)
            for new, part in zip(seen[:, 0, :, text.start :], (keys, values), strict=True):
                new.copy_(part[text.rows].transpose(0, 1))
            grouped = queries[text.rows].unflatten(1, (kv_heads, -1)).permute(1, 2, 0, 3)
            mixed.append(_attended(grouped, seen, mask))
        return joined(mixed)

    def _turned(self, heads: Tensor) -> Tensor:
        """Rotary positions of [n, any, d]: x cos + (x with its halves exchanged) sin."""
        exchanged = heads.roll(heads.shape[-1] // 2, -1)
        return torch.addcmul(heads * self._cosines, exchanged, self._sines)


def joined(parts: Sequence[Tensor]) -> Tensor:
    """All parts, one behind the other; a lone one as it is."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def texts_of(heads: LayerHeads, inputs: Sequence[PassInput], like: Tensor) -> list[TextRows]:
    """The part of each text; its cache then counts the new rows."""
    texts, first = [], 0
    for asked in inputs:
        cache, num_rows = asked.cache, len(asked.tokens)
        assert isinstance(cache, TreeCache)
        store = cache.with_room(num_rows, like, (heads.kv_heads, heads.head_size))
        rows = slice(first, first + num_rows)
        texts.append(TextRows(rows, asked.positions, store, cache.length, asked.visible))
        cache.append(num_rows)
        first += num_rows
    return texts


def _attended(queries: Tensor, seen: Tensor, mask: Tensor | None) -> Tensor:
    """float [K, H / K, n, d], [2, 1, K, t, d] -> [n, H d].

    Heads that share keys are rows of one, so that none of the cache is copied; but for a text from
    its start, whose mask would be the larger.
    """
    kv_heads, group, num_rows, size = queries.shape
    keys, values = seen
    if mask is None and num_rows > 1:
        mixed = scaled_dot_product_attention(
            queries.reshape(1, -1, num_rows, size), keys, values, is_causal=True,
            enable_gqa=group > 1,
        )  # fmt: skip
    else:
        mixed = scaled_dot_product_attention(
            queries.reshape(1, kv_heads, -1, size), keys, values, attn_mask=mask
        )
    return mixed.reshape(-1, num_rows, size).transpose(0, 1).reshape(num_rows, -1)
