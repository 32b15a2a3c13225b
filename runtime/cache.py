"""The key-value cache with tree slots.

Rows are appended by forward passes: first the committed prefix, behind it the nodes of a tree in
the order in which they were passed.  `keep_rows` then keeps the accepted path behind the prefix,
in place, so that nothing is computed twice; `rewind` goes back to a shorter prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import Cache

from planner.documents.document import PlannerError
from tree_kernels import keep_rows_
from tree_kernels.host.keeping import move_rows

from .large_pages import large_zeros

WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Whole numbers by their size in bytes: what is moved is not read, and NumPy has no bfloat16."""
KEPT_TOGETHER = 32
"""Rows of an accepted path that are moved on a GPU at once; few paths are longer."""


class RowCache(Protocol):
    """A cache: what the decode loop needs of any model's."""

    length: int  # rows held

    def keep_rows(self, prefix: int, rows: Sequence[int]) -> None:
        """Keep the first `prefix` rows and, behind them, rows prefix + r for r in `rows`.

        rows  strictly increasing, 0 <= r < length - prefix
        """

    def rewind(self, length: int) -> None:
        """Forget every row from `length` on."""


class TreeCache(Cache):
    """A Hugging Face cache in one tensor that is written in place.

    store  [2 layers, 1, key-value heads, capacity, head size], in the model's dtype: the keys of
           layer l are entry 2 l, its values entry 2 l + 1; made at the first forward pass and
           doubled whenever it is full.  The head size is the larger one where they differ

    A forward pass writes its rows behind `length`; `append` then says that they count.  Serves
    models whose layers all have the same key-value shape; others raise PlannerError.
    """

    def __init__(self, num_layers: int, capacity: int) -> None:
        super().__init__(layers=[])
        self.length = 0
        self._num_layers = num_layers
        self._capacity = max(1, capacity)
        self._shape = torch.Size()
        self._store: Tensor | None = None
        self._words: np.ndarray | None = None  # the same, on the host, as whole numbers of its size

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write one layer's new rows, [1, heads, n, head size]; returns all its rows so far."""
        end = self.length + key_states.shape[-2]
        shape = key_states.shape[1::2] + value_states.shape[1::2]
        if not self._shape:
            self._shape = shape
        if shape != self._shape:
            raise PlannerError(
                f"target or draft: got a model whose layers differ in key-value shape "
                f"(layer {layer_idx}), expected one shape for all; choose another model"
            )
        heads, head_size = key_states.shape[1], max(key_states.shape[3], value_states.shape[3])
        store = self.with_room(key_states.shape[-2], key_states, (heads, head_size))
        keys = store[2 * layer_idx, ..., :end, : key_states.shape[-1]]
        values = store[2 * layer_idx + 1, ..., :end, : value_states.shape[-1]]
        keys[:, :, self.length :] = key_states
        values[:, :, self.length :] = value_states
        return keys, values

    def with_room(self, num_rows: int, like: Tensor, shape: tuple[int, int]) -> Tensor:
        """The store, with room for `num_rows` more rows; of key-value heads and head size `shape`,
        and of the dtype and device of `like`, if it is made now."""
        end = self.length + num_rows
        if self._store is None:
            heads, head_size = shape
            rows = max(self._capacity, end)
            self._store = self._made(like, (2 * self._num_layers, 1, heads, rows, head_size))
        elif end > self._store.shape[-2]:
            self._store = self._grown(self._store, end)
        else:
            return self._store
        if self._store.device.type == "cpu":
            self._words = self._store.view(WORDS[self._store.element_size()]).numpy()
        return self._store

    def append(self, num_rows: int) -> None:
        """Count the `num_rows` rows that a forward pass has just written in every layer."""
        self.length += num_rows

    @torch.inference_mode()
    def keep_rows(self, prefix: int, rows: Sequence[int]) -> None:
        moved = _first_moved(rows)
        if self._store is not None and moved < len(rows):
            left = [row - moved for row in rows[moved:]]
            if self._words is None:
                _move_rows_in_one_launch_(self._store, prefix + moved, left)
            else:
                move_rows(self._words, prefix + moved, np.array(left))
        self.length = prefix + len(rows)

    def rewind(self, length: int) -> None:
        self.length = min(self.length, length)

    # What transformers asks of a cache.

    def __len__(self) -> int:
        return self._num_layers

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_query_offset(self, layer_idx: int = 0) -> int:
        return self.length

    def get_max_length(self, layer_idx: int | None = None) -> int:
        return -1

    @property
    def is_sliding(self) -> list[bool]:
        return [False]

    @property
    def is_linear(self) -> list[bool]:
        return [False]

    @property
    def is_dummy(self) -> list[bool]:
        return [False]

    def _made(self, like: Tensor, shape: Sequence[int]) -> Tensor:
        """A store with room for `shape[3]` rows at least.  Zeros, not empty: masked rows are
        multiplied by 0, and 0 * NaN is NaN."""
        if like.device.type == "cpu":
            return large_zeros(shape, like.dtype)
        return like.new_zeros(shape)

    def _grown(self, store: Tensor, end: int) -> Tensor:
        layers, texts, heads, rows, head_size = store.shape
        grown = self._made(store, (layers, texts, heads, max(2 * rows, end), head_size))
        grown[:, :, :, : self.length] = store[:, :, :, : self.length]
        return grown


class CachesTogether(TreeCache):
    """The caches of several texts in one pass over their new rows, one text's behind the other's.

    counts  new rows of each text, in the order of `caches`
    apart   hand out each text's keys and values by themselves, for attention that is each its own;
            else all of them, one text's behind the other's, for a mask to tell them apart
    """

    def __init__(self, caches: Sequence[TreeCache], counts: Sequence[int], *, apart: bool) -> None:
        super().__init__(len(caches[0]), 0)
        self.length = sum(cache.length for cache in caches)
        self._caches, self._counts, self._apart = caches, list(counts), apart

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> Any:
        """Write one layer's new rows, each text's into its own cache; returns all their rows."""
        new = (states.split(self._counts, dim=2) for states in (key_states, value_states))
        texts = zip(self._caches, *new, strict=True)
        keys, values = zip(*(cache.update(*rows, layer_idx) for cache, *rows in texts), strict=True)
        return (keys, values) if self._apart else (torch.cat(keys, 2), torch.cat(values, 2))

    def append(self, num_rows: int) -> None:
        for cache, count in zip(self._caches, self._counts, strict=True):
            cache.append(count)


def _move_rows_in_one_launch_(store: Tensor, start: int, rows: list[int]) -> None:
    """Move rows start + r, for r in `rows`, of every layer to `start` and behind, on a GPU, where
    launches cost more than rows; in tables of few sizes, of which each has a kernel of its own."""
    unused = min(-len(rows) % KEPT_TOGETHER, store.shape[3] - len(rows))
    numbers = torch.tensor([start, len(rows), *rows, *[0] * unused], dtype=torch.int32)
    numbers = numbers.to(store.device, non_blocking=True)
    keep_rows_(store, numbers[:1], numbers[None, 2:], numbers[1:2])


def _first_moved(rows: Sequence[int]) -> int:
    """How many leading rows already stand where they are to be kept."""
    for place, row in enumerate(rows):
        if place != row:
            return place
    return len(rows)
