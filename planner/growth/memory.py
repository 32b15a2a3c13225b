"""Where a compiled rule keeps its step, and how it is asked and told: one call a draft pass.

A call into compiled code costs as much as it is handed arrays, and right after a model's pass, with
nothing of it left in the caches, some microseconds for each.  So all of a step lies in four arrays,
of which each rule knows its rows, and what a rule is told is handed over when it is next asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .base import FEATURES, Request

NUM_WHOLES, NUM_REALS, NUM_FLAGS = 11, 7, 2
ANSWER = slice(4, 6)
"""Rows of the whole numbers: nodes asked for, and how many children of each."""


class Memory(NamedTuple):
    """Rows of 2 num_nodes + 1 places; what they are for, the rules say."""

    wholes: np.ndarray
    """int64 [11, places]"""
    reals: np.ndarray
    """float64 [7, places]"""
    flags: np.ndarray
    """bool [2, places]"""
    drawn: np.ndarray
    """float64 [num_nodes, max_children]; only what is revealed may be read"""


def new_memory(num_nodes: int, max_children: int) -> Memory:
    """Of a step that has not been started."""
    places = 2 * num_nodes + 1
    return Memory(
        np.zeros((NUM_WHOLES, places), np.int64),
        np.zeros((NUM_REALS, places)),
        np.zeros((NUM_FLAGS, places), bool),
        np.full((num_nodes, max_children), np.nan),
    )


class News(NamedTuple):
    """What a draft pass found; of none, nothing."""

    nodes: np.ndarray
    """int64 [w]"""
    drawn: np.ndarray
    """float64 [w, at least max_children]"""
    features: np.ndarray
    """float64 [w, `FEATURES`]"""


class Compiled:
    """What rules over slots have in common; a rule of its own is in `_advance`."""

    columns: tuple[str, ...] = ()

    def __init__(self, num_nodes: int, max_children: int, max_depth: int) -> None:
        self.num_nodes, self.max_children = num_nodes, max_children
        self._limit = max_depth
        self._max_depth = 0
        self._memory = new_memory(num_nodes, max_children)
        self._answer = self._memory.wholes[ANSWER]
        self._nothing = News(
            np.empty(0, np.int64), np.empty((0, max_children)), np.empty((0, len(FEATURES)))
        )
        self._news, self._fresh = self._nothing, True

    def start(self, max_depth: int) -> None:
        self._max_depth = min(self._limit, max_depth)
        self._news, self._fresh = self._nothing, True

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        self._news = News(np.array(nodes, np.int64), drawn, features)

    def grow(self) -> Sequence[Request]:
        count = self._advance(self._fresh, self._news)
        self._news, self._fresh = self._nothing, False
        nodes, children = self._answer[:, :count].tolist()
        return list(zip(nodes, children, strict=True))

    def verified(self, path: Sequence[int], step_ms: float) -> None:
        pass

    @property
    def slot_values(self) -> np.ndarray:
        """float64 [nodes so far]: value of the slot that each filled; the root's is 1."""
        return self._memory.reals[0, : self._memory.wholes[0, 0]].copy()

    def _advance(self, fresh: bool, news: News) -> int:
        """Start anew if `fresh`, take in the news, decide, and write down the requests; returns
        how many."""
        raise NotImplementedError
