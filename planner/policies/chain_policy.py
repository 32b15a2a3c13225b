"""Policies that draft one token after the other: what is common to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .policy import MaxDepth, Policy, PolicySettings, Request

MOST_CHANCE = 0.999
"""A token's, in a chain that stands for a way of drafting."""


def emitted(chance: float, length: float) -> float:
    """Tokens of a step by a chain of `length` tokens, each accepted with `chance` if the one before
    it was; the bonus token included.  1 where the length is 0."""
    return (1 - chance ** (length + 1)) / (1 - chance)


class ChainSettings(PolicySettings):
    """A chain that ends when the policy says so, at the latest after `max_depth` tokens."""

    grows_chains: ClassVar[bool] = True

    max_depth: MaxDepth

    @property
    def most_nodes(self) -> int:
        return self.max_depth + 1

    @property
    def most_children(self) -> int:
        return 1


class ChainPolicy(Policy):
    """One child below the last node as long as `_continues`, which a policy sets in `expanded`."""

    num_candidates = 1

    def __init__(self, max_depth: int) -> None:
        self.num_nodes = max_depth + 1
        self._limit = max_depth
        self._max_depth = 0
        self._depth = 0
        self._continues = True

    def start(self, max_depth: int) -> None:
        self._max_depth = min(self._limit, max_depth)
        self._depth = 0
        self._continues = True

    def grow(self) -> Sequence[Request]:
        if not self._continues or self._depth == self._max_depth:
            return []
        last = self._depth
        self._depth += 1
        return [(last, 1)]
