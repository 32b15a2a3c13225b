"""Chains that end before a token that the draft is not sure of (llama.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from ..documents.counted import counted
from .chain_policy import ChainPolicy, ChainSettings
from .policy import FEATURES, MAX_PROBABILITY, Policy, Request


class ConfidentDrafting(ChainSettings):
    """A chain that ends before a token that the draft is not sure of: continued while the largest
    entry of its distribution is at least `confidence` (llama.cpp's `p-min`)."""

    kind: Literal["confident"] = "confident"
    confidence: float = Field(ge=0, lt=1, description="0: never end a chain early")

    def words(self) -> str:
        return (
            f"chains of at most {counted(self.max_depth, 'token')}, ended where no token has "
            f"probability {self.confidence:g}"
        )

    def policy(self, *, deterministic: bool) -> Policy:
        return Confident(self)


class Confident(ChainPolicy):
    """The pass that says no is spent, and nothing is drafted with it, as llama.cpp does it."""

    columns = (FEATURES[MAX_PROBABILITY],)

    def __init__(self, settings: ConfidentDrafting) -> None:
        super().__init__(settings.max_depth)
        self._least = settings.confidence

    def grow(self) -> Sequence[Request]:
        last = self._depth
        if not self._continues or last > self._max_depth:
            return []
        self._depth += 1
        child = [(last - 1, 1)] if last > 0 else []
        return child if last == self._max_depth else [*child, (last, 0)]

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        self._continues = float(features[0, MAX_PROBABILITY]) >= self._least
