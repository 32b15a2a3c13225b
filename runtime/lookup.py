"""The text's own n-grams as a draft: prompt look-up (Saxena, 2023; LLMA, Yang et al., 2023).

Alone it has no weights, and offers what followed before where the text repeats itself: code that is
edited, answers that quote.  Beside a draft model it moves that model's distribution towards this.
Unlike these works' it is a draft like any other, a distribution at every node of a tree, so that
trees, policies and verifiers are all of use.  It is computed on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from math import log

import numpy as np
import torch
from torch import Tensor

from planner.documents.origin import BESIDE_LOOKUP, LOOKUP, ModelInfo
from tree_kernels.host.ngrams import ALONE, BESIDE, LONGEST, Contexts, fill_ngram_law

from .cache import RowCache
from .language_model import LanguageModel, PassInput, PassOutput, PreparedModel, answers


class TextCache:
    """Rows as the tokens that were read: a row's text is those of the rows that it sees.

    beside  a model's cache, which is kept and rewound likewise
    """

    def __init__(self, capacity: int, beside: RowCache | None = None) -> None:
        self.length = 0
        self.beside = beside
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
        if self.beside is not None:
            self.beside.keep_rows(prefix, rows)

    def rewind(self, length: int) -> None:
        self.length = min(self.length, length)
        if self.beside is not None:
            self.beside.rewind(length)


class LookupModel:
    """The draft that looks up what followed earlier where the text ended as it does now.

    target  whose vocabulary, positions and device it shares

    Its distribution is that of `fill_ngram_law` over an even one.  Logits are float32, or float64
    where the target's are.
    """

    attention = "none"
    stop_tokens: tuple[int, ...] = ()

    def __init__(self, target: LanguageModel) -> None:
        self.vocab_size = target.vocab_size
        self.max_positions = target.max_positions
        self.device = target.device
        self.dtype = "float64" if target.dtype == "float64" else "float32"
        _compile(self)

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(
            name=LOOKUP,
            fingerprint=_fingerprint(ALONE),
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
        num = len(tokens) if num_logits is None else num_logits
        kind = getattr(torch, self.dtype)
        even = torch.full((num, self.vocab_size), -log(self.vocab_size), dtype=kind)
        return _looked_up(even, tokens, cache, visible, ALONE).to(self.device)


class LookupBeside:
    """A draft model with look-up beside it: what followed earlier counts as `fill_ngram_law` has it
    over the model's own distribution.

    Where the text ends as it never did, with two tokens or more, it is the model's alone.  Logits
    are float32, or float64 where the model's are.
    """

    def __init__(self, draft: LanguageModel) -> None:
        self._draft = draft
        self.vocab_size = draft.vocab_size
        self.max_positions = draft.max_positions
        self.device = draft.device
        self.dtype = draft.dtype
        self.attention = draft.attention
        self.stop_tokens = draft.stop_tokens
        _compile(self)

    @property
    def info(self) -> ModelInfo:
        own = self._draft.info
        changed = {
            "name": f"{own.name}{BESIDE_LOOKUP}",
            "fingerprint": _fingerprint(BESIDE, own.fingerprint),
        }
        return own.model_copy(update=changed)

    def new_cache(self, capacity: int) -> TextCache:
        return TextCache(capacity, self._draft.new_cache(capacity))

    def prepare(self, cache: RowCache, most_rows: int) -> None:
        """Let the model make ready for passes, if it does."""
        assert isinstance(cache, TextCache)
        assert cache.beside is not None
        if isinstance(self._draft, PreparedModel):
            self._draft.prepare(cache.beside, most_rows)

    @torch.inference_mode()
    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: RowCache,
        visible: Tensor | None = None,
        *,
        num_logits: int | None = None,
    ) -> Tensor:
        asked = PassInput(self, tokens, positions, cache, visible, num_logits)
        inner = _beside(asked, self._draft).answer()
        return self._changed(asked, inner.logits)

    @torch.inference_mode()
    def forward_batch(self, inputs: Sequence[PassInput]) -> list[PassOutput]:
        """The model's own passes are one, if it can make them so."""
        inner = answers([_beside(asked, self._draft) for asked in inputs])
        pairs = zip(inputs, inner, strict=True)
        return [PassOutput(self._changed(asked, own.logits)) for asked, own in pairs]

    def _changed(self, asked: PassInput, logits: Tensor) -> Tensor:
        """The model's own `logits`, changed by look-up."""
        own = logits if logits.dtype == torch.float64 else logits.float()
        logs = own.log_softmax(-1).cpu()
        changed = _looked_up(logs, asked.tokens, asked.cache, asked.visible, BESIDE)
        return changed.to(self.device)


def _beside(asked: PassInput, draft: LanguageModel) -> PassInput:
    """The same pass, asked of the draft model with its own cache."""
    assert isinstance(asked.cache, TextCache)
    assert asked.cache.beside is not None
    return asked._replace(model=draft, cache=asked.cache.beside)


def _looked_up(
    logs: Tensor, tokens: Tensor, cache: RowCache, visible: Tensor | None, contexts: Contexts
) -> Tensor:
    """`logs`, float [k, V] on the host, changed in place to what look-up makes of that law behind
    the last k of the new rows, which the cache then holds.

    Positions need not be looked at: rows stand in the order of theirs, as those of a text and of a
    tree's paths always do.
    """
    assert isinstance(cache, TextCache)
    cache.append(tokens.cpu().numpy())
    num = len(logs)
    seen = np.tri(num, dtype=bool)
    if visible is not None:
        seen = visible[len(tokens) - num :].cpu().numpy()
    fill_ngram_law(logs.numpy(), cache.tokens, seen, contexts)
    return logs


def _compile(draft: LanguageModel) -> None:
    """Compile what the first pass would wait for."""
    kind = np.float64 if draft.dtype == "float64" else np.float32
    fill_ngram_law(np.zeros((1, 1), kind), np.zeros(1, np.int64), np.ones((1, 1), bool), ALONE)


def _fingerprint(contexts: Contexts, of_draft: str = "") -> str:
    """SHA-256 over the law, and over the fingerprint of the model that it is beside."""
    return sha256(f"{LONGEST} {contexts} {of_draft}".encode()).hexdigest()
