"""The simple trees that a clever one has to beat, and the search that none can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...documents.tree import Tree
from ..problem import Estimates, Limits


@dataclass(frozen=True)
class ChainSolver:
    """One token after the other: classic speculative decoding, at every length."""

    def propose(self, estimates: Estimates, limits: Limits) -> list[Tree]:
        longest = min(limits.max_depth, limits.max_nodes - 1)
        return [Tree(list(range(-1, length))) for length in range(1, longest + 1)]


@dataclass(frozen=True)
class KarySolver:
    """Full trees of k children a node, for every k from two and every depth."""

    def propose(self, estimates: Estimates, limits: Limits) -> list[Tree]:
        trees = []
        for k in range(2, estimates.law.num_ranks + 1):
            parents, level = [-1], [0]
            for _ in range(limits.max_depth):
                if len(parents) + k * len(level) > limits.max_nodes:
                    break
                parents += [parent for parent in level for _ in range(k)]
                level = list(range(len(parents) - k * len(level), len(parents)))
                trees.append(Tree(parents))
        return trees


@dataclass(frozen=True)
class IndependentSolver:
    """k chains side by side, parting at the root (SpecInfer's shape), of every length."""

    def propose(self, estimates: Estimates, limits: Limits) -> list[Tree]:
        trees = []
        for k in range(2, estimates.law.num_ranks + 1):
            longest = min(limits.max_depth, (limits.max_nodes - 1) // k)
            for length in range(1, longest + 1):
                trees.append(Tree([-1, *[0] * k, *range(1, k * (length - 1) + 1)]))
        return trees


@dataclass(frozen=True)
class BruteSolver:
    """Every tree there is: Catalan's number of them, so for a few nodes only."""

    def propose(self, estimates: Estimates, limits: Limits) -> list[Tree]:
        trees = []
        for size in range(2, limits.max_nodes + 1):
            for parents in _parent_lists([-1], size):
                tree = Tree(parents)
                bushiest = int(tree.num_children.max())
                if tree.depth <= limits.max_depth and bushiest <= estimates.law.num_ranks:
                    trees.append(tree)
        return trees


def _parent_lists(parents: list[int], size: int) -> Iterator[list[int]]:
    """All ways to go on to `size` nodes: parents never decrease."""
    if len(parents) == size:
        yield parents
        return
    for parent in range(max(parents[-1], 0), len(parents)):
        yield from _parent_lists([*parents, parent], size)
