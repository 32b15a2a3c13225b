"""Two models that work together: the target that is to be decoded, and the draft that proposes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from planner.documents.document import PlannerError

from .language_model import HiddenModel, LanguageModel


class Served(Protocol):
    """Models by what they can be asked."""

    @property
    def vocab_size(self) -> int:
        """Tokens that they know."""

    @property
    def max_positions(self) -> int:
        """Tokens of a text, at most."""


@dataclass(frozen=True)
class Pair:
    """A target and a draft of one vocabulary.  Raises PlannerError where they differ in it."""

    target: LanguageModel
    draft: LanguageModel

    def __post_init__(self) -> None:
        if self.target.vocab_size != self.draft.vocab_size:
            raise PlannerError(
                f"draft: got {self.draft.info.name} with a vocabulary of {self.draft.vocab_size}, "
                f"expected {self.target.vocab_size} as {self.target.info.name} has; load the draft "
                "by its name with drafts_for, or choose models of one family"
            )

    @property
    def vocab_size(self) -> int:
        return self.target.vocab_size

    @property
    def max_positions(self) -> int:
        return min(self.target.max_positions, self.draft.max_positions)

    @property
    def hidden_draft(self) -> HiddenModel:
        """The draft, which heads read.  Raises PlannerError where it shows no hidden states."""
        self.check_hidden()
        assert isinstance(self.draft, HiddenModel)
        return self.draft

    def check_hidden(self) -> None:
        """Raise PlannerError unless the draft shows its hidden states, which heads read."""
        if not isinstance(self.draft, HiddenModel):
            raise PlannerError(
                f"draft: got {self.draft.info.name}, which does not show its hidden states; "
                "expected a transformers causal language model"
            )
