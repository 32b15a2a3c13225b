"""The simple trees that a clever one has to beat."""

from __future__ import annotations

from dataclasses import dataclass

from ..tree import Tree
from .problem import Estimates, Limits


@dataclass(frozen=True)
class ChainSolver:
    """One token after the other: classic speculative decoding, at every length."""

    def propose(self, estimates: Estimates, limits: Limits) -> list[Tree]:
        longest = min(limits.max_depth, limits.max_nodes - 1)
        return [Tree(list(range(-1, length))) for length in range(1, longest + 1)]
