"""A language model, as far as the decode loop needs one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from planner.documents.origin import ModelInfo

from .cache import RowCache


@runtime_checkable
class LanguageModel(Protocol):
    """A causal language model that can read several branches of a text at once."""

    @property
    def info(self) -> ModelInfo:
        """Name, shape and fingerprint."""

    vocab_size: int
    max_positions: int  # those served are 0 .. max_positions - 1
    device: torch.device
    dtype: str  # of the weights, e.g. "float32"
    attention: str  # the implementation that computes it, e.g. "sdpa"
    stop_tokens: tuple[int, ...]  # after which the model's text ends

    def new_cache(self, capacity: int) -> RowCache:
        """An empty cache with room for `capacity` rows; it grows when more are needed."""

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: RowCache,
        visible: Tensor | None = None,
        *,
        num_logits: int | None = None,
    ) -> Tensor:
        """Append n rows to `cache` and return the logits behind the last of them.

        tokens      int64 [n], on the model's device
        positions   int64 [n], likewise
        cache       what `new_cache` returned
        visible     bool [n, t]: entry (i, j) says that new row i sees the j-th of the last t rows,
                    new ones included; all rows before those are seen.  None: plain causal order
        num_logits  how many rows need logits, counted from the end; None: all; 0: none

        Returns float [num_logits, V].
        """


@runtime_checkable
class HiddenModel(LanguageModel, Protocol):
    """A language model that also shows what its last layer makes of a token."""

    def forward_with_hidden(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: RowCache,
        visible: Tensor | None = None,
        *,
        num_logits: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The logits of `forward`, and the last hidden states, behind the last norm, that they
        were computed from: float [num_logits, V] and float [num_logits, hidden_size]."""


def read_text(
    model: LanguageModel, tokens: Sequence[int], cache: RowCache, num_logits: int
) -> Tensor:
    """The logits behind the last `num_logits` of a text that an empty cache takes in."""
    read = torch.tensor(tokens, device=model.device)
    places = torch.arange(len(read), device=model.device)
    return model.forward(read, places, cache, num_logits=num_logits)
