"""A language model that is a table: for exact tests of everything that only needs logits."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import torch
from torch import Tensor

from planner.documents.origin import ModelInfo

from .cache import RowCache


class TableCache:
    """Rows as texts: a key-value row depends on all that it saw, so each row is what it saw."""

    def __init__(self) -> None:
        self.texts: list[tuple[int, ...]] = []

    @property
    def length(self) -> int:
        return len(self.texts)

    def keep_rows(self, prefix: int, rows: Sequence[int]) -> None:
        self.texts[prefix:] = [self.texts[prefix + row] for row in rows]

    def rewind(self, length: int) -> None:
        del self.texts[length:]


class TableModel:
    """Next-token logits looked up by the last few tokens.

    logits  float [V] * order + [V]  indexed by the last `order` tokens, oldest first, then by the
                                     next token; token 0 stands in before the text's start

    Every forward pass checks what it is asked: a row must see exactly one row of each position
    from 0 to its own, its own included, and all of these must belong to one text.  Raises
    ValueError otherwise, so that masks, positions and cache keeping are tested by any use.
    """

    dtype = "float64"
    attention = "table"

    def __init__(
        self,
        logits: Tensor,
        *,
        name: str = "table",
        max_positions: int = 1 << 20,
        stop_tokens: tuple[int, ...] = (),
    ) -> None:
        self.vocab_size = logits.shape[-1]
        self.max_positions = max_positions
        self.stop_tokens = stop_tokens
        self.device = logits.device
        self.name = name
        self._order = logits.dim() - 1
        self._table = logits.reshape(-1, self.vocab_size)

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(
            name=self.name,
            fingerprint=sha256(self._table.double().cpu().numpy().tobytes()).hexdigest(),
            num_parameters=self._table.numel(),
            vocab_size=self.vocab_size,
            max_positions=self.max_positions,
        )

    def new_cache(self, capacity: int) -> TableCache:
        return TableCache()

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: RowCache,
        visible: Tensor | None = None,
        *,
        num_logits: int | None = None,
    ) -> Tensor:
        assert isinstance(cache, TableCache)
        before = cache.length
        seen = _seen_rows(len(tokens), before, visible)
        for token, position, rows in zip(tokens.tolist(), positions.tolist(), seen, strict=True):
            cache.texts.append(_text(token, position, rows, cache.texts))
        contexts = [self._context(text) for text in cache.texts[before:]]
        logits = self._table[torch.tensor(contexts, dtype=torch.long)]
        return logits if num_logits is None else logits[len(tokens) - num_logits :]

    def _context(self, text: tuple[int, ...]) -> int:
        """Row of the table for what follows `text`."""
        context = 0
        for token in ((0,) * self._order + text)[len(text) :]:
            context = context * self.vocab_size + token
        return context


def _seen_rows(num_rows: int, before: int, visible: Tensor | None) -> list[list[int]]:
    """The earlier rows and itself, as far as a new row may see them, for each of these."""
    if visible is None:
        return [list(range(before + row + 1)) for row in range(num_rows)]
    num_tail = visible.shape[1]
    start = before + num_rows - num_tail
    if start < 0:
        raise ValueError(f"visible: got {num_tail} columns for {before + num_rows} rows")
    prefix = list(range(start))
    return [
        prefix + [start + place for place, sees in enumerate(row) if sees]
        for row in visible.tolist()
    ]


def _text(
    token: int, position: int, rows: list[int], texts: list[tuple[int, ...]]
) -> tuple[int, ...]:
    """The text that a row ending in `token` at `position` has read, if `rows` are one text."""
    here = len(texts)
    if rows[-1:] != [here]:
        raise ValueError(f"row {here} sees rows {rows}, expected itself as the last of them")
    past = sorted((texts[row] for row in rows[:-1]), key=len)
    longest = past[-1] if past else ()
    if [len(text) for text in past] != list(range(1, position + 1)):
        raise ValueError(
            f"row {here} at position {position} sees positions {[len(text) - 1 for text in past]}, "
            "expected each one before its own once"
        )
    if any(text != longest[: len(text)] for text in past):
        raise ValueError(f"row {here} sees rows of different branches: {past}")
    return (*longest, token)
