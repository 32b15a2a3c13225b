"""Policies that fill slots in compiled code: how one is asked and told, with one call a draft pass.

A call into compiled code costs some twenty microseconds right after a model's pass, with nothing of
it left in the caches, and as much again for each named tuple that it is handed.  So all of a step
lies in four arrays, of which each policy knows its rows; they are handed over as a plain tuple;
what a policy is told goes with the next question; and its answer on a lone root, always the same,
is known by heart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from ..documents.counted import counted
from .compiled.memory import ANSWER, new_memory
from .policy import FEATURES, MaxDepth, Policy, PolicySettings, Request


class SlotSettings(PolicySettings):
    """Trees that grow while they are drafted, of at most `num_nodes` nodes."""

    num_nodes: int = Field(ge=1, description="most nodes of a tree, root included")
    max_depth: MaxDepth
    max_children: int = Field(ge=1, description="candidates drawn at once below a node")

    @property
    def most_nodes(self) -> int:
        return self.num_nodes

    @property
    def most_children(self) -> int:
        return self.max_children

    @property
    def limits_in_words(self) -> str:
        """The limits as the end of a sentence."""
        return f"at most {self.num_nodes} nodes and {counted(self.max_depth, 'level')}"


class SlotPolicy(Policy):
    """A policy whose decisions are one compiled function over a `Memory`.

    advanced   (arrays of the memory, (fresh, drawn, features), *arguments, max_depth) -> number of
               requests, which it writes down; `drawn` and `features` are what the last draft pass
               found, empty where nothing was told; fresh: a step begins, and with news its first
               answer, on a lone root, was given already
    arguments  what else it decides by
    """

    def __init__(
        self, settings: SlotSettings, advanced: Callable[..., int], *arguments: Any
    ) -> None:
        self.num_nodes, self.num_candidates = settings.num_nodes, settings.max_children
        self._limit = settings.max_depth
        self._max_depth = 0
        self._advanced, self._arguments = advanced, arguments
        self._memory = new_memory(self.num_nodes, self.num_candidates)
        self._arrays = tuple(self._memory)
        self._answer = self._memory.wholes[ANSWER]
        self._nothing = np.empty((0, self.num_candidates)), np.empty((0, len(FEATURES)))
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
        told = (self._fresh, *self._news)
        count = self._advanced(self._arrays, told, *self._arguments, self._max_depth)
        self._news, self._fresh = self._nothing, False
        nodes, children = self._answer[:, :count].tolist()
        requests = list(zip(nodes, children, strict=True))
        if lone and requests:
            self._first_answers[self._max_depth] = requests
        return requests

    @property
    def slot_values(self) -> np.ndarray:
        """float64 [nodes so far]: value of the slot that each filled; the root's is 1."""
        return self._memory.reals[0, : self._memory.wholes[0, 0]].copy()
