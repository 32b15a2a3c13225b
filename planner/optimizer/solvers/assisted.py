"""Settings of other programs' chains: Hugging Face's assisted generation and llama.cpp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from ...policies import ConfidentDrafting, Drafting, DynamicDrafting
from ..problem import Problem, Solver
from .specdecpp import chain_lengths

ASSISTED_TOKENS, ASSISTED_CONFIDENCE = 20, 0.4
"""Hugging Face's defaults."""
CONFIDENCES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class AssistedSolver(Solver):
    """Hugging Face's assisted generation: as it is by default, and with its heuristic schedule."""

    grows: ClassVar[bool] = True

    def propose(self, problem: Problem) -> Mapping[str, Drafting]:
        longest = min(problem.limits.max_depth, problem.limits.max_nodes - 1)
        if longest < 1:
            return {}
        settings = {"max_depth": longest, "confidence": ASSISTED_CONFIDENCE}
        return {
            schedule: DynamicDrafting.model_validate(
                {**settings, "num_tokens": num_tokens, "schedule": schedule}
            )
            for schedule, num_tokens in (("constant", ASSISTED_TOKENS), ("heuristic", 5))
        }


@dataclass(frozen=True)
class TunedAssistedSolver(Solver):
    """Hugging Face's assisted generation at its best: how many tokens, and the confidence below
    which one ends a chain."""

    grows: ClassVar[bool] = True
    by_default: ClassVar[bool] = False

    def propose(self, problem: Problem) -> Mapping[str, Drafting]:
        every = [
            DynamicDrafting(max_depth=length, num_tokens=length, confidence=confidence)
            for length, confidence in product(chain_lengths(problem.limits), CONFIDENCES)
        ]
        return {"constant": problem.fastest(every)[0]} if every else {}


@dataclass(frozen=True)
class ConfidentSolver(Solver):
    """The best of llama.cpp's settings: the longest chain, and the confidence that ends one."""

    grows: ClassVar[bool] = True
    by_default: ClassVar[bool] = False

    def propose(self, problem: Problem) -> Mapping[str, Drafting]:
        every = [
            ConfidentDrafting(max_depth=length, confidence=confidence)
            for length, confidence in product(chain_lengths(problem.limits), CONFIDENCES)
        ]
        return {"confident": problem.fastest(every)[0]} if every else {}
