"""A transformers model on a GPU whose passes over few rows are recorded graphs (`graphs`)."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from threading import RLock, get_ident
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from planner.documents.document import PlannerError

from .attention import TREE
from .cache import RowCache, TreeCache
from .graphs import (
    SIZES,
    TREE_ROWS,
    CudaRecorder,
    ModulePass,
    PassOver,
    PassRecorder,
    PassSize,
    RecordedPass,
    StoredPass,
    size_for,
    up_to,
)
from .language_model import PassInput, PassOutput
from .llama_pass import LlamaLayers
from .llama_shape import is_llama_shaped
from .models import HuggingFaceModel
from .probe import agree

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_log = logging.getLogger(__name__)

LEAST_CAPACITY = 1024
STEPS_OF_CAPACITY = 4
"""Capacities between a power of two and the next one."""


@dataclass
class Store:
    """The rows of one text, the pass over them, and what was recorded of it by sizes."""

    rows: Tensor
    stored: StoredPass | None = None
    passes: dict[PassSize, RecordedPass] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        return self.rows.shape[3]


class Stores:
    """The stores of one model's texts.  What is recorded stands for one place in memory, so a text
    that is over leaves its store to the next: the largest is kept, or that with most records."""

    def __init__(self) -> None:
        self._free: Store | None = None
        self.like: Tensor | None = None
        """No rows of the last one made: what it is of, if there is any."""

    def take(self, like: Tensor, shape: Sequence[int]) -> Store:
        """A store with room for shape[3] rows or more, of the dtype and device of `like`; rows that
        its text did not write hold any numbers."""
        layers, texts, heads, rows, head_size = shape
        free, self._free = self._free, None
        if free is not None and free.capacity >= rows:
            return free
        del free  # makes room
        made = like.new_zeros((layers, texts, heads, capacity_for(rows), head_size))
        self.like = made.new_empty((layers, texts, heads, 0, head_size))
        return Store(made)

    def give_back(self, store: Store) -> None:
        """Let the next text have it."""
        free, self._free = self._free, None  # which another thread may ask for meanwhile
        found = [each for each in (store, free) if each is not None]
        self._free = max(found, key=lambda each: (each.capacity, len(each.passes)))


class StoredCache(TreeCache):
    """A `TreeCache` whose rows are in one of `Stores`, until it is gone."""

    def __init__(self, stores: Stores, num_layers: int, capacity: int) -> None:
        super().__init__(num_layers, capacity)
        self._stores = stores
        self._taken: Store | None = None
        self._leaving: weakref.finalize | None = None

    def taken(self, num_rows: int) -> Store | None:
        """The store, with room for `num_rows` more rows; None before the model's first pass."""
        like = self._stores.like
        if like is None:
            return None
        self.with_room(num_rows, like, (like.shape[2], like.shape[4]))
        return self._taken

    def _made(self, like: Tensor, shape: Sequence[int]) -> Tensor:
        taken = self._stores.take(like, shape)
        if self._leaving is not None:
            self._leaving()
        self._leaving = weakref.finalize(self, self._stores.give_back, taken)
        self._leaving.atexit = False
        self._taken = taken
        return taken.rows


class GraphedModel(HuggingFaceModel):
    """A `HuggingFaceModel` that records its passes over few rows and launches each in one call;
    made by `graphed`.

    over      the passes that are recorded
    words     what documents call them, behind the attention
    recorder  records them; None: as CUDA graphs

    Passes of transformers are left: a model's first, prompts, those over more than `SIZES` or
    `TREE_ROWS` have rows for, those at positions that no text of the store has, and those that
    several texts share.  Threads take turns; once there are two, what a record leaves is copied,
    since any other writes over it.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        over: PassOver,
        *,
        words: str = "graphs",
        name: str | None = None,
        recorder: PassRecorder | None = None,
    ) -> None:
        self._stores, self._over = Stores(), over
        self._recorder = recorder or CudaRecorder(model.device)
        self._turn, self._threads = RLock(), set[int]()
        super().__init__(model, name=name)
        self.attention = f"{self.attention}, {words}"

    def new_cache(self, capacity: int) -> StoredCache:
        self._threads.add(get_ident())
        return StoredCache(self._stores, self._num_layers, capacity + SIZES[-1])

    def unrecorded_cache(self, capacity: int) -> TreeCache:
        """A cache of the size that is asked for, of a text whose passes are not recorded."""
        return super().new_cache(capacity)

    @torch.inference_mode()
    def prepare(self, cache: RowCache, most_rows: int) -> None:
        """Record passes over up to `most_rows` rows now, so that no step waits for it later."""
        assert isinstance(cache, StoredCache)
        with self._turn:
            for size in product(up_to(most_rows, SIZES), up_to(most_rows, TREE_ROWS)):
                self._recorded(cache, PassSize(*size))

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: RowCache,
        visible: Tensor | None = None,
        *,
        num_logits: int | None = None,
    ) -> Tensor:
        with self._turn:
            read = self._replayed(PassInput(self, tokens, positions, cache, visible, num_logits))
            if read is not None:
                return read[0].clone()
            return super().forward(tokens, positions, cache, visible, num_logits=num_logits)

    def forward_with_hidden(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: RowCache,
        visible: Tensor | None = None,
        *,
        num_logits: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        asked = PassInput(self, tokens, positions, cache, visible, num_logits)
        with self._turn:
            read = self._replayed(asked)
            if read is not None:
                return read[0].clone(), read[1].clone()
            return super().forward_with_hidden(*asked[1:5], num_logits=num_logits)

    def forward_batch(self, inputs: Sequence[PassInput]) -> list[PassOutput]:
        """One pass for all, as `HuggingFaceModel` makes it."""
        with self._turn:
            return super().forward_batch(inputs)

    def answer(self, asked: PassInput) -> PassOutput:
        """The outcome as the record left it, until the next pass."""
        with self._turn:
            read = self._replayed(asked)
            if read is not None and len(self._threads) > 1:
                read = read[0].clone(), read[1].clone()
            return asked.passed() if read is None else PassOutput(*read)

    @torch.inference_mode()
    def _replayed(self, asked: PassInput) -> tuple[Tensor, Tensor] | None:
        """Logits and hidden states of the rows wanted, if such a pass is recorded."""
        self._threads.add(get_ident())
        cache, num_rows, wanted = asked.cache, len(asked.tokens), asked.num_wanted
        seen = num_rows if asked.visible is None else asked.visible.shape[1]
        rows, tree_rows = size_for(num_rows, SIZES), size_for(seen, TREE_ROWS)
        if not wanted or rows is None or tree_rows is None or not isinstance(cache, StoredCache):
            return None
        recorded = self._recorded(cache, PassSize(rows, tree_rows))
        positions = asked.positions.cpu()
        if recorded is None or int(positions.max()) >= recorded.capacity:
            return None
        logits, hidden = recorded.read(asked._replace(positions=positions))
        cache.append(num_rows)
        return logits[num_rows - wanted :], hidden[num_rows - wanted :]

    def _recorded(self, cache: StoredCache, size: PassSize) -> RecordedPass | None:
        """The pass of that size into the cache's store, recorded now if it is not yet."""
        store = cache.taken(size.rows)
        if store is None:
            return None
        if store.stored is None:
            store.stored = self._over(store.rows)
        if size not in store.passes:
            recorded = RecordedPass(store.stored, size, cache.length, self._recorder)
            store.passes[size] = recorded
        return store.passes[size]


def graphed(
    model: PreTrainedModel, *, name: str | None = None, recorder: PassRecorder | None = None
) -> HuggingFaceModel:
    """The adapter around `model`, whose passes are recorded where that can be done: those of
    `LlamaLayers` for a model of such layers, else those of transformers.

    The logits of recorded passes and of transformers' are compared once (`agree`).
    """
    plain = HuggingFaceModel(model, name=name)
    if model.config.get_text_config(decoder=True)._attn_implementation != TREE:
        return plain
    ways: dict[str, Callable[[], PassOver]] = {"graphs": lambda: partial(ModulePass, model)}
    if is_llama_shaped(model):
        ways = {"fused, graphs": lambda: LlamaLayers(model).over, **ways}
    for words, over in ways.items():
        try:
            quick = GraphedModel(model, over(), words=words, name=name, recorder=recorder)
            if agree(quick, plain):
                return quick
            reason = "they gave other logits"
        except PlannerError as error:
            reason = str(error)
        except RuntimeError as error:
            reason = " ".join(str(error).split())[:160]
        _log.warning("%s: passes %r not taken: %s", plain.name, words, reason)
    return plain


def capacity_for(rows: int) -> int:
    """Rows of a store with room for so many: few sizes serve all texts, and less than a quarter of
    one lies idle."""
    if rows <= LEAST_CAPACITY:
        return LEAST_CAPACITY
    step = (1 << (rows.bit_length() - 1)) // STEPS_OF_CAPACITY
    return -(-rows // step) * step
