"""A source of randomness that takes every outcome in turn, with its probability."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from math import fsum
from typing import TypeVar

import torch
from torch import Tensor

Outcome = TypeVar("Outcome", bound=Hashable)


class EnumeratingSource:
    """Replays given choices, then takes the first possible outcome of every further decision."""

    def __init__(self, replayed: list[int]) -> None:
        self.choices = list(replayed)
        self.alternatives: list[int] = []
        self.probability = 1.0

    def categorical(self, probs: Tensor) -> Tensor:
        return self.with_replacement(probs, 1).squeeze(-1)

    def with_replacement(self, probs: Tensor, k: int) -> Tensor:
        rows = probs.reshape(-1, probs.shape[-1])
        picks = [[self._token(row.tolist()) for _ in range(k)] for row in rows]
        return torch.tensor(picks).reshape(*probs.shape[:-1], k)

    def without_replacement(self, probs: Tensor, k: int) -> Tensor:
        return torch.tensor([self._different_tokens(row.tolist(), k) for row in probs])

    def accept(self, share: float, total: float) -> bool:
        chance = min(1.0, share / total) if total > 0 else 0.0
        return bool(self._decide([1 - chance, chance]))

    def _different_tokens(self, probs: list[float], k: int) -> list[int]:
        picks: list[int] = []
        for _ in range(k):
            rest = [0.0 if token in picks else mass for token, mass in enumerate(probs)]
            if not any(rest):
                rest = [float(token not in picks) for token in range(len(probs))]
            picks.append(self._token(rest))
        return picks

    def _token(self, masses: list[float]) -> int:
        total = fsum(masses)
        return self._decide([mass / total for mass in masses])

    def _decide(self, chances: list[float]) -> int:
        possible = [index for index, chance in enumerate(chances) if chance > 0]
        place = len(self.alternatives)
        if place == len(self.choices):
            self.choices.append(0)
        self.alternatives.append(len(possible))
        index = possible[self.choices[place]]
        self.probability *= chances[index]
        return index


def law(experiment: Callable[[EnumeratingSource], Outcome]) -> dict[Outcome, float]:
    """The exact distribution of what `experiment` returns, over all that its source can do."""
    masses: dict[Outcome, list[float]] = defaultdict(list)
    choices: list[int] | None = []
    while choices is not None:
        source = EnumeratingSource(choices)
        masses[experiment(source)].append(source.probability)
        choices = _next(source)
    return {outcome: fsum(parts) for outcome, parts in masses.items()}


def _next(source: EnumeratingSource) -> list[int] | None:
    """The choices that lead to the next leaf, depth first."""
    for place in range(len(source.choices) - 1, -1, -1):
        if source.choices[place] + 1 < source.alternatives[place]:
            return [*source.choices[:place], source.choices[place] + 1]
    return None
