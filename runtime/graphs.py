"""A pass on a GPU, recorded once and then launched in one call.

A pass of transformers is a thousand launches or more, which take the host longer than a GPU needs
for a few rows.  A recorded pass reads its rows, and how much text is before them, from tensors that
stay where they are: one record of each size serves every step of every text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from tree_kernels.attention_call import BITS

from .attention import TokenTree
from .cache import TreeCache
from .language_model import PassInput

SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Rows of a recorded pass; one over fewer has others behind them, which nothing looks at."""
TREE_ROWS = (7 * BITS, 32 * BITS)
"""Rows of a tree that new ones can be told to see; up to the first, tree attention makes no lists
of what is to be seen."""
NUM_LENGTHS = 3
NUM_BEFORE = 2
"""Passes made before one is recorded: they compile kernels, and choose them."""

Outputs = tuple[Tensor, Tensor]
"""Logits and hidden states."""
Run = Callable[[], Outputs]


class PassRecorder(Protocol):
    """A way to make what a function does with tensors repeatable."""

    def record(self, run: Run) -> tuple[Outputs, Callable[[], object]]:
        """The tensors that `run` leaves its results in, and what does the same again: from what is
        then in the tensors that `run` reads, into those very tensors."""


class CudaRecorder:
    """Records CUDA graphs of one device, whose memory they share: they run one after another."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._memory = device, torch.cuda.graph_pool_handle()
        # torch takes no graph any more in memory that all others have left: this one stays.
        self._staying = self.record(lambda: (torch.zeros(1, device=device),) * 2)

    def record(self, run: Run) -> tuple[Outputs, Callable[[], object]]:
        with torch.cuda.device(self._device):
            current, aside = torch.cuda.current_stream(), torch.cuda.Stream()
            aside.wait_stream(current)
            with torch.cuda.stream(aside):
                for _ in range(NUM_BEFORE):
                    run()
            current.wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph, pool=self._memory):
                    outputs = run()
            finally:
                torch.cuda.set_stream(current)  # a record that failed leaves its own
        return outputs, graph.replay


class PassSize(NamedTuple):
    """The room of a recorded pass: new rows, one of `SIZES`, and rows of a tree, of `TREE_ROWS`."""

    rows: int
    tree_rows: int


class PassInputs(NamedTuple):
    """The new rows of a pass: their tokens, their positions in the text, of int32, and the rows of
    the store that they go to; int64 [n]."""

    tokens: Tensor
    positions: Tensor
    places: Tensor


class StoredPass(Protocol):
    """A pass over rows of the text in one store, whose logits [n, V] and hidden states [n, hidden
    size] depend on no number that the host would have to read.

    store  [2 layers, 1, key-value heads, capacity, head size], as `TreeCache` has it
    """

    @property
    def store(self) -> Tensor:
        """The rows of the text, to which the pass adds the new ones."""

    def __call__(self, rows: PassInputs, tree: TokenTree) -> Outputs:
        """The pass over new rows, which see the text and what `tree` says."""


PassOver = Callable[[Tensor], StoredPass]
"""A model's pass over the text in a store."""


@dataclass(frozen=True)
class ModulePass:
    """A pass of a transformers `model` with tree attention."""

    model: Any
    store: Tensor

    def __call__(self, rows: PassInputs, tree: TokenTree) -> Outputs:
        read: list[Tensor] = []
        hook = self.model.get_output_embeddings().register_forward_pre_hook(
            lambda module, inputs: read.append(inputs[0])
        )
        try:
            output = self.model(
                input_ids=rows.tokens[None],
                position_ids=rows.positions.long()[None],
                past_key_values=RowsOfStore(self.store, rows.places),
                use_cache=True,
                token_tree=tree,
            )
        finally:
            hook.remove()
        return output.logits[0], read[0][0]


class RecordedPass:
    """A pass over up to size.rows rows, recorded.

    length  rows of its store that are some text's while it is recorded

    What is recorded reads these alone: tokens int64 [n]; and, told in one transfer, int32: the rows
    of the text so far, those of them that all new rows see, rows t of the tree; positions [n]; and
    the tree's rows that each new one sees, [n, t / 32] words of bits.
    """

    def __init__(
        self, stored: StoredPass, size: PassSize, length: int, recorder: PassRecorder
    ) -> None:
        self._pass, device = stored, stored.store.device
        words = size.tree_rows // BITS
        counts = NUM_LENGTHS, size.rows, size.rows * words
        self._told_here = np.zeros(sum(counts), np.int32)
        self._lengths_here, self._positions_here, bits = np.split(
            self._told_here, np.cumsum(counts[:-1])
        )
        self._bits_here = bits.view(np.uint8).reshape(size.rows, -1)
        self._lengths_here[:], self._bits_here[:, 0] = (length, length, 1), 1
        self._told = torch.from_numpy(self._told_here).to(device, copy=True)
        self._lengths, self._positions, bits = self._told.split(counts)
        self._bits = bits.view(1, size.rows, words)
        self._tokens = torch.zeros(size.rows, dtype=torch.int64, device=device)
        self._steps = torch.arange(size.rows, device=device)
        self._outputs, self._replay = recorder.record(self._run)

    @property
    def capacity(self) -> int:
        """Rows of its store."""
        return self._pass.store.shape[3]

    def read(self, asked: PassInput) -> Outputs:
        """Logits [n, V] and hidden states [n, hidden size] of the rows asked for, until the next
        pass; their keys and values go to the store, which has room for size.rows.  Positions are on
        the host, and below the store's capacity."""
        num_rows, length = len(asked.tokens), asked.cache.length
        bits = _causal(num_rows)
        tree_rows = num_rows
        if asked.visible is not None:
            tree_rows = asked.visible.shape[1]
            bits = np.packbits(asked.visible.cpu().numpy(), axis=1, bitorder="little")
        self._lengths_here[:] = length, length + num_rows - tree_rows, tree_rows
        self._positions_here[:num_rows] = asked.positions.numpy()
        self._bits_here.fill(0)
        self._bits_here[:num_rows, : bits.shape[1]] = bits
        self._tokens[:num_rows] = asked.tokens
        self._told.copy_(torch.from_numpy(self._told_here), non_blocking=True)
        self._replay()
        logits, hidden = self._outputs
        return logits[:num_rows], hidden[:num_rows]

    def _run(self) -> Outputs:
        """The pass, over all rows that there is place for; those behind the text's see no tree."""
        tree = TokenTree(self._lengths[1:2], self._lengths[2:], self._bits)
        rows = PassInputs(self._tokens, self._positions, self._lengths[:1] + self._steps)
        return self._pass(rows, tree)


@cache
def _causal(num_rows: int) -> np.ndarray:
    """Bits of rows that each see those before, in bytes."""
    return np.packbits(np.tri(num_rows, dtype=bool), axis=1, bitorder="little")


class RowsOfStore(TreeCache):
    """The cache of a pass as transformers sees it: new rows go to places int64 [n] of a store, and
    all rows are handed out, of which attention knows how many to look at."""

    def __init__(self, store: Tensor, places: Tensor) -> None:
        super().__init__(len(store) // 2, 0)
        self._rows, self._places = store, places

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write one layer's new rows, [1, heads, n, head size]; returns all rows of the store."""
        both = self._rows[2 * layer_idx : 2 * layer_idx + 2]
        keys, values = (
            rows[..., : states.shape[-1]].index_copy_(2, self._places, states)
            for rows, states in zip(both, (key_states, value_states), strict=True)
        )
        return keys, values


def size_for(number: int, sizes: Sequence[int]) -> int | None:
    """The first of ascending `sizes` that is not less than `number`, if there is one."""
    return next((size for size in sizes if size >= number), None)


def up_to(number: int, sizes: Sequence[int]) -> Sequence[int]:
    """The ascending `sizes` that serve everything up to `number`, as far as there are any."""
    return [size for before, size in zip((0, *sizes), sizes, strict=False) if before < number]
