"""The text's own n-grams as a draft: prompt look-up (Saxena, 2023; LLMA, Yang et al., 2023).

It has no weights, is computed on the host, and offers what followed before where the text repeats
itself: code that is edited, answers that quote.  Unlike these it is a draft like any other, a
distribution at every node of a tree, so that trees, policies and verifiers are all of use.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import torch
from torch import Tensor

from planner.documents.origin import LOOKUP, ModelInfo
from tree_kernels.host.ngrams import DOUBT, LONGEST, log_ngram_law

from .cache import RowCache
from .language_model import LanguageModel


class TextCache:
    """Rows as the tokens that were read: a row's text is those of the rows that it sees."""

    def __init__(self, capacity: int) -> None:
        self.length = 0
        self._store = np.zeros(max(1, capacity), np.int64)

    @property
    def tokens(self) -> np.ndarray:
        """int64 [length]."""
        return self._store[: self.length]

    def append(self, tokens: np.ndarray) -> None:
        """Hold `tokens`, int64 [any], behind the others."""
        end = self.length + len(tokens)
        if end > len(self._store):
            self._store = np.pad(self._store, (0, 2 * end - len(self._store)))
        self._store[self.length : end] = tokens
        self.length = end

    def keep_rows(self, prefix: int, rows: Sequence[int]) -> None:
        self.length = prefix + len(rows)
        self._store[prefix : self.length] = self._store[prefix + np.array(rows, np.int64)]

    def rewind(self, length: int) -> None:
        self.length = min(self.length, length)


class LookupModel:
    """The draft that looks up what followed earlier where the text ended as it does now.

    target  whose vocabulary, positions and device it shares

    Its distribution is `log_ngram_law`'s, over the text up to a node and nothing else.  Logits are
    float32, or float64 where the target's are.
    """

    attention = "none"
    stop_tokens: tuple[int, ...] = ()

    def __init__(self, target: LanguageModel) -> None:
        self.vocab_size = target.vocab_size
        self.max_positions = target.max_positions
        self.device = target.device
        self.dtype = "float64" if target.dtype == "float64" else "float32"
        self._behind(np.zeros(1, np.int64), np.ones((1, 1), bool))  # compile it now

    @property
    def info(self) -> ModelInfo:
        law = f"n-grams: {LONGEST} tokens at most, doubt {DOUBT}"
        return ModelInfo(
            name=LOOKUP,
            fingerprint=sha256(law.encode()).hexdigest(),
            num_parameters=0,
            vocab_size=self.vocab_size,
            max_positions=self.max_positions,
        )

    def new_cache(self, capacity: int) -> TextCache:
        return TextCache(capacity)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: RowCache,
        visible: Tensor | None = None,
        *,
        num_logits: int | None = None,
    ) -> Tensor:
        """Positions need not be looked at: rows stand in the order of theirs, as those of a text
        and of a tree's paths always do."""
        assert isinstance(cache, TextCache)
        cache.append(tokens.cpu().numpy())
        num = len(tokens) if num_logits is None else num_logits
        if visible is None:
            seen = np.tri(num, dtype=bool)
        else:
            seen = visible[len(tokens) - num :].cpu().numpy()
        return self._behind(cache.tokens, seen)

    def _behind(self, tokens: np.ndarray, seen: np.ndarray) -> Tensor:
        logs = log_ngram_law(tokens, seen, self.vocab_size, getattr(np, self.dtype))
        return torch.from_numpy(logs).to(self.device)
