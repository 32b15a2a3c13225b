"""A text of the target's, and the prompt that it continues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from .language_model import LanguageModel, read_text


class Written(NamedTuple):
    """A text that the target wrote behind a prompt; token ids of both."""

    prompt: Sequence[int]
    text: Sequence[int]


def logits_behind(model: LanguageModel, written: Written) -> Tensor:
    """The logits in front of each of the text's n tokens: float [n, V]."""
    tokens = [*written.prompt, *written.text[:-1]]
    return read_text(model, tokens, model.new_cache(len(tokens)), len(written.text))
