"""The simple trees that a clever one has to beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...documents.tree import Tree
from ...policies import Drafting
from ..problem import Problem, Solver, numbered
from .uniform import uniform_tree


@dataclass(frozen=True)
class ChainSolver(Solver):
    """One token after the other: classic speculative decoding, at every length."""

    def propose(self, problem: Problem) -> Mapping[str, Drafting]:
        longest = min(problem.limits.max_depth, problem.limits.max_nodes - 1)
        return numbered(Tree(list(range(-1, length))) for length in range(1, longest + 1))


@dataclass(frozen=True)
class KarySolver(Solver):
    """Full trees of k children a node, for every k from two and every depth."""

    def propose(self, problem: Problem) -> Mapping[str, Drafting]:
        trees = []
        for k in range(2, problem.law.num_ranks + 1):
            for depth in range(1, problem.limits.max_depth + 1):
                if sum(k**level for level in range(depth + 1)) > problem.limits.max_nodes:
                    break
                trees.append(uniform_tree([k] * depth))
        return numbered(trees)


@dataclass(frozen=True)
class IndependentSolver(Solver):
    """k chains side by side, parting at the root (SpecInfer's shape), of every length."""

    def propose(self, problem: Problem) -> Mapping[str, Drafting]:
        trees = []
        for k in range(2, problem.law.num_ranks + 1):
            longest = min(problem.limits.max_depth, (problem.limits.max_nodes - 1) // k)
            for length in range(1, longest + 1):
                trees.append(Tree([-1, *[0] * k, *range(1, k * (length - 1) + 1)]))
        return numbered(trees)
