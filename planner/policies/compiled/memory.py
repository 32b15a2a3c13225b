"""Where a compiled rule keeps its step, and how it is asked and told: one call a draft pass.

A call into compiled code costs some twenty microseconds right after a model's pass, with nothing of
it left in the caches, and as much again for each named tuple that it is handed.  So all of a step
lies in four arrays, of which each rule knows its rows; they are handed over one by one; what a rule
is told goes with the next question; and its answer on a lone root, always the same, is known by
heart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..policy import FEATURES, Request

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


class Compiled:
    """What rules over slots have in common; a rule of its own is in `_advance`."""

    columns: tuple[str, ...] = ()

    def __init__(self, num_nodes: int, max_children: int, max_depth: int) -> None:
        self.num_nodes, self.max_children = num_nodes, max_children
        self._limit = max_depth
        self._max_depth = 0
        self._memory = new_memory(num_nodes, max_children)
        self._answer = self._memory.wholes[ANSWER]
        self._nothing = np.empty((0, max_children)), np.empty((0, len(FEATURES)))
        self._news, self._fresh = self._nothing, True
        self._first_answers: dict[int, list[Request]] = {}

    def start(self, max_depth: int) -> None:
        self._max_depth = min(self._limit, max_depth)
        self._news, self._fresh = self._nothing, True

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        self._news = drawn, features

    def grow(self) -> Sequence[Request]:
        lone = self._fresh and self._news is self._nothing
        if lone and self._max_depth in self._first_answers:
            return self._first_answers[self._max_depth]
        count = self._advance(self._fresh, *self._news)
        self._news, self._fresh = self._nothing, False
        nodes, children = self._answer[:, :count].tolist()
        requests = list(zip(nodes, children, strict=True))
        if lone and requests:
            self._first_answers[self._max_depth] = requests
        return requests

    def verified(self, path: Sequence[int], step_ms: float) -> None:
        pass

    @property
    def slot_values(self) -> np.ndarray:
        """float64 [nodes so far]: value of the slot that each filled; the root's is 1."""
        return self._memory.reals[0, : self._memory.wholes[0, 0]].copy()

    def _advance(self, fresh: bool, drawn: np.ndarray, features: np.ndarray) -> int:
        """Take in what the last pass found, decide, and write down the requests.

        fresh     a step begins; with news its first answer, on a lone root, was given already
        drawn     float64 [w, at least max_children]  of the nodes to be expanded by the last
                                                      answer, in the order in which it first named
                                                      them; of none, nothing
        features  float64 [w, `FEATURES`]             of the same

        Returns how many requests.
        """
        raise NotImplementedError
