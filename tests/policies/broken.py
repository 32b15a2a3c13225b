"""Policies that bias the output by looking at candidates that they then do not reveal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.policies import GreedyDrafting
from planner.policies.compiled.greedy_kernel import advanced
from planner.policies.policy import Request
from planner.policies.slot_policy import SlotPolicy


class DropsUnlikely:
    """Level by level, all candidates but those that are improbable themselves, and what would
    have come after these."""

    columns: tuple[str, ...] = ()

    def __init__(self, num_nodes: int, max_children: int, *, least: float = 0.4) -> None:
        self.num_nodes, self.num_candidates, self._least = num_nodes, max_children, least

    def start(self, max_depth: int) -> None:
        self._max_depth = max_depth
        self._depths = [0]
        self._asked = [(0, 0)] if max_depth > 0 and self.num_nodes > 1 else []

    def grow(self) -> Sequence[Request]:
        asked, self._asked = self._asked, []
        return asked

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        first = len(self._depths)
        self._asked = []
        for node, row in zip(nodes, drawn, strict=True):
            kept = 0
            while kept < len(row) and row[kept] >= self._least:
                kept += 1
            kept = min(kept, self.num_nodes - len(self._depths))
            if kept > 0:
                self._asked.append((node, kept))
                self._depths += [self._depths[node] + 1] * kept
        if len(self._depths) < self.num_nodes and self._depths[-1] < self._max_depth:
            self._asked += [(child, 0) for child in range(first, len(self._depths))]

    def verified(self, path: Sequence[int], step_ms: float) -> None:
        pass


class LooksAhead(SlotPolicy):
    """DySpec's greedy policy whose slots are worth what the candidates are that would fill them."""

    def __init__(self, num_nodes: int, max_children: int) -> None:
        settings = GreedyDrafting(num_nodes=num_nodes, max_depth=9, max_children=max_children)
        super().__init__(settings, advanced)

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        ahead = np.append(drawn[:, 1:], drawn[:, -1:], axis=1)
        super().expanded(nodes, 1 - ahead, features)


BROKEN = {"drops unlikely": DropsUnlikely, "looks ahead": LooksAhead}
