"""Chains that end before a token that the draft is not sure of (llama.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from ..documents.counted import counted
from .chain_policy import ChainSettings
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


class Confident:
    """The next token is drafted if the draft's distribution has an entry of at least `confidence`,
    as llama.cpp's `p-min` does it: the pass that says no is spent, and nothing is drafted with it.
    """

    columns: tuple[str, ...] = (FEATURES[MAX_PROBABILITY],)
    num_candidates = 1

    def __init__(self, settings: ConfidentDrafting) -> None:
        self.num_nodes = settings.max_depth + 1
        self._limit = settings.max_depth
        self._least = settings.confidence
        self._max_depth = 0
        self._expanded = 0
        self._sure = True

    def start(self, max_depth: int) -> None:
        self._max_depth = min(self._limit, max_depth)
        self._expanded = 0
        self._sure = True

    def grow(self) -> Sequence[Request]:
        last = self._expanded
        if not self._sure or last > self._max_depth:
            return []
        child = [(last - 1, 1)] if last > 0 else []
        if last == self._max_depth:
            self._expanded += 1
            return child
        return [*child, (last, 0)]

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        self._expanded += 1
        self._sure = float(features[0, MAX_PROBABILITY]) >= self._least

    def verified(self, path: Sequence[int], step_ms: float) -> None:
        pass
