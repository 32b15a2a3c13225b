"""Chains by the schedule of Hugging Face's assisted generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from ..documents.counted import counted
from .chain_policy import ChainPolicy, ChainSettings
from .policy import Policy


class DynamicDrafting(ChainSettings):
    """The schedule of Hugging Face's assisted generation: a chain of so many tokens, ended early by
    a token of less than `confidence`.

    A text starts with `max_depth` limited to `num_tokens`.  `heuristic`: two more after a step
    that accepted all, one less after any other, at least one; `constant`: unchanged.
    """

    kind: Literal["dynamic"] = "dynamic"
    num_tokens: int = Field(default=20, ge=1, description="drafted at a text's first step")
    schedule: Literal["constant", "heuristic"] = "constant"
    confidence: float = Field(default=0.4, ge=0, lt=1, description="0: never end a chain early")

    @model_validator(mode="before")
    @classmethod
    def _not_adaptive(cls, content: Any) -> Any:
        """Plans of earlier versions say whether the confidence is set anew after every step."""
        if not isinstance(content, dict) or "adaptive" not in content:
            return content
        if content["adaptive"] is not False:
            raise ValueError(
                "adaptive to be false, since a confidence that is set anew after every step is "
                f"not carried out any more, not {content['adaptive']!r}; remove the key to keep "
                "the confidence as it is, or plan again"
            )
        return {key: value for key, value in content.items() if key != "adaptive"}

    def words(self) -> str:
        length = counted(min(self.num_tokens, self.max_depth), "token") + f" ({self.schedule})"
        if self.schedule == "heuristic":
            length += f" at first, at most {self.max_depth}"
        return f"chains of {length}, ended below probability {self.confidence:g}"

    def policy(self, *, deterministic: bool) -> Policy:
        return Dynamic(self)


class Dynamic(ChainPolicy):
    """The token that falls short of the confidence is drafted still, as in transformers 5.23's
    candidate generator and its confidence criterion."""

    def __init__(self, settings: DynamicDrafting) -> None:
        super().__init__(settings.max_depth)
        self._wanted = settings.num_tokens
        self._heuristic = settings.schedule == "heuristic"
        self._confidence = settings.confidence

    def start(self, max_depth: int) -> None:
        super().start(min(self._wanted, max_depth))

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        self._continues = float(drawn[0, 0]) >= self._confidence

    def verified(self, path: Sequence[int], step_ms: float) -> None:
        if self._heuristic:
            all_accepted = len(path) == self._depth
            self._wanted = self._wanted + 2 if all_accepted else max(1, self._wanted - 1)
