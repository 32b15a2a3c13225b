"""A source of randomness that takes every outcome in turn, with its probability."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Hashable
from math import fsum
from typing import TypeVar

import torch
from torch import Tensor

Outcome = TypeVar("Outcome", bound=Hashable)
InSteps = Callable[["EnumeratingSource"], Generator[Hashable, None, Outcome]]


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


def to_the_end(experiment: InSteps[Outcome]) -> Callable[[EnumeratingSource], Outcome]:
    """The same in one go: its `law` is the slow twin of `law_by_steps`."""

    def whole(source: EnumeratingSource) -> Outcome:
        running = experiment(source)
        while True:
            try:
                next(running)
            except StopIteration as end:
                return end.value

    return whole


def law_by_steps(experiment: InSteps[Outcome]) -> dict[Outcome, float]:
    """`law` of what goes on in steps: the next one is enumerated once for every state, however many
    ways lead to it.

    experiment  yields after every step all that what follows depends on; returns the outcome
    """
    known: dict[Hashable, dict[Outcome, float]] = {}

    def following(before: list[int], num_steps: int) -> dict[Outcome, float]:
        """The law behind the state that these choices lead to in so many steps."""
        masses: dict[Outcome, list[float]] = defaultdict(list)
        chances: dict[Hashable, list[float]] = defaultdict(list)
        ways: dict[Hashable, list[int]] = {}
        choices: list[int] | None = before
        while choices is not None:
            source = EnumeratingSource(choices)
            running = experiment(source)
            for _ in range(num_steps):
                next(running)
            source.probability = 1.0
            try:
                state = next(running)
            except StopIteration as end:
                masses[end.value].append(source.probability)
            else:
                chances[state].append(source.probability)
                ways.setdefault(state, source.choices)
            choices = _next(source, len(before))
        for state, way in ways.items():
            if state not in known:
                known[state] = following(way, num_steps + 1)
            chance = fsum(chances[state])
            for outcome, mass in known[state].items():
                masses[outcome].append(chance * mass)
        return {outcome: fsum(parts) for outcome, parts in masses.items()}

    return following([], 0)


def _next(source: EnumeratingSource, first: int = 0) -> list[int] | None:
    """The choices that lead to the next leaf, depth first; those before the `first` one stay."""
    for place in range(len(source.choices) - 1, first - 1, -1):
        if source.choices[place] + 1 < source.alternatives[place]:
            return [*source.choices[:place], source.choices[place] + 1]
    return None
