"""Steps that an engine counted while it decoded with chains that it drafted by its own method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from .document import Count, Part

MOST_LENGTH = 1024
"""Tokens of a chain, at most."""


class CountedPrompt(Part):
    """One continuation of a prompt."""

    prompt: int = Field(ge=0, description="place among those that were decoded")
    tokens: Count = Field(description="emitted by the steps")
    steps: Count

    @model_validator(mode="after")
    def _a_token_each(self) -> Self:
        if self.tokens < self.steps:
            raise ValueError(f"tokens of {self.steps} or more, one for each step")
        return self


class CountedChains(Part):
    """Steps with chains that may have so many tokens."""

    length: int = Field(ge=1, le=MOST_LENGTH)
    prompts: list[CountedPrompt] = Field(min_length=1)

    @model_validator(mode="after")
    def _as_many_as_fit(self) -> Self:
        for place, prompt in enumerate(self.prompts):
            most = (prompt.steps + 1) * (self.length + 1)  # one more: what was timed is rounded
            if prompt.tokens > most:
                raise ValueError(
                    f"prompts.{place}.tokens of at most {most} for {prompt.steps} steps with "
                    f"chains of {self.length}, not {prompt.tokens}"
                )
        return self

    @property
    def num_steps(self) -> int:
        return sum(prompt.steps for prompt in self.prompts)

    @property
    def tokens_per_step(self) -> float:
        """The mean over all steps."""
        return sum(prompt.tokens for prompt in self.prompts) / self.num_steps


def check_counted(counted: Sequence[CountedChains]) -> None:
    """Raise ValueError unless lengths ascend."""
    lengths = [each.length for each in counted]
    if lengths != sorted(set(lengths)):
        raise ValueError(f"counted of lengths that ascend, not {lengths[:8]}")
