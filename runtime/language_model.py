"""A language model, as far as the decode loop needs one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

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


@runtime_checkable
class PreparedModel(LanguageModel, Protocol):
    """A language model whose first pass of a size takes longer, unless it is made ready for."""

    def prepare(self, cache: RowCache, most_rows: int) -> None:
        """Make ready for passes over up to `most_rows` rows of the text in `cache`."""


class PassInput(NamedTuple):
    """A pass that one text asks of a model: the arguments of `LanguageModel.forward`, and whether
    last hidden states are wanted, too.  Positions and what is visible may also be on the host."""

    model: LanguageModel
    tokens: Tensor
    positions: Tensor
    cache: RowCache
    visible: Tensor | None = None
    num_logits: int | None = None
    hidden: bool = False

    @property
    def num_wanted(self) -> int:
        """Rows, the last ones, whose logits are wanted."""
        return len(self.tokens) if self.num_logits is None else self.num_logits

    def answer(self) -> PassOutput:
        """The outcome, in a pass of its own, made by an `AnsweringModel` in its own way."""
        own = getattr(self.model, "answer", None)
        answered: PassOutput = self.passed() if own is None else own(self)
        return answered

    def there(self) -> PassInput:
        """The same, with everything on the model's device."""
        device = self.tokens.device
        if device.type == "cpu":
            return self
        positions, visible = (
            None if each is None else each.to(device, non_blocking=True)
            for each in (self.positions, self.visible)
        )
        assert positions is not None
        return self._replace(positions=positions, visible=visible)

    def passed(self) -> PassOutput:
        """The outcome of `forward`."""
        model, rows = self.model, self.there()[1:5]
        if not self.hidden:
            return PassOutput(model.forward(*rows, num_logits=self.num_logits))
        assert isinstance(model, HiddenModel)
        return PassOutput(*model.forward_with_hidden(*rows, num_logits=self.num_logits))


class PassOutput(NamedTuple):
    """The outcome of a pass: `logits` float [k, V] behind the last k rows, and their `hidden`
    states float [k, hidden_size], at least where these were wanted."""

    logits: Tensor
    hidden: Tensor | None = None


class AnsweringModel(LanguageModel, Protocol):
    """A language model that takes what a text asks as it is."""

    def answer(self, asked: PassInput) -> PassOutput:
        """The outcome, which may be gone with the model's next pass."""


class BatchModel(LanguageModel, Protocol):
    """A language model that reads for several texts in one pass; others make one for each."""

    def forward_batch(self, inputs: Sequence[PassInput]) -> list[PassOutput]:
        """The outcome for each, that of `PassInput.answer` up to rounding.

        inputs  of this model, at least one, each of a text and cache of its own
        """


def answers(inputs: Sequence[PassInput]) -> list[PassOutput]:
    """The outcomes of all that one model is asked: in one pass, if it is a `BatchModel`."""
    forward_batch = getattr(inputs[0].model, "forward_batch", None)
    if len(inputs) == 1 or forward_batch is None:
        return [asked.answer() for asked in inputs]
    read: list[PassOutput] = forward_batch(inputs)
    return read


def text_input(
    model: LanguageModel, tokens: Sequence[int], cache: RowCache, num_logits: int
) -> PassInput:
    """A text that an empty cache shall take in, for the logits behind its last `num_logits`."""
    read = torch.tensor(tokens, device=model.device)
    places = torch.arange(len(read), device=model.device)
    return PassInput(model, read, places, cache, num_logits=num_logits)


def read_text(
    model: LanguageModel, tokens: Sequence[int], cache: RowCache, num_logits: int
) -> Tensor:
    """The logits behind the last `num_logits` of a text that an empty cache takes in."""
    return text_input(model, tokens, cache, num_logits).answer().logits
