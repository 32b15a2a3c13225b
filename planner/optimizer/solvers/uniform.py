"""Trees all of whose nodes of a level have as many children."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from ...documents.tree import Tree
from ...estimates.law import AcceptanceLaw
from ...policies import Drafting
from ..problem import Problem, Solver, numbered


@dataclass(frozen=True)
class UniformSolver(Solver):
    """Uniform trees of most tokens for their size and depth, the most tokens per millisecond first.

    For programs that draft no others: as many of all as `shortlist` says, and of each depth the
    best.  Proposed by name only.
    """

    by_default: ClassVar[bool] = False
    shortlist: int = 24

    def propose(self, problem: Problem) -> Mapping[str, Drafting]:
        found = [
            (tokens / problem.costs.step_ms(tree), tree)
            for tokens, tree in best_uniform_trees(
                problem.law, problem.limits.max_nodes, problem.limits.max_depth
            )
            if problem.costs.covers(tree)
        ]
        found.sort(key=lambda each: -each[0])
        ranked = [tree for _, tree in found]
        of_depth = {tree.depth: tree for tree in reversed(ranked)}
        return numbered(dict.fromkeys([*ranked[: self.shortlist], *of_depth.values()]))


def uniform_tree(branching: Sequence[int]) -> Tree:
    """The tree whose nodes have so many children each, level by level from the root."""
    parents, width = [-1], 1
    for num_children in branching:
        level = range(len(parents) - width, len(parents))
        parents += [parent for parent in level for _ in range(num_children)]
        width *= num_children
    return Tree(parents)


def best_uniform_trees(
    law: AcceptanceLaw, max_nodes: int, max_depth: int
) -> Iterator[tuple[float, Tree]]:
    """(tokens per step, tree): of all sizes and depths the uniform tree of most tokens.

    Below a node at depth d whose c children are each the root of n nodes, and of whose children one
    is accepted with chance A(d, c), as many tokens are expected as 1 + A(d, c) times those below
    one of these: so the best tree of 1 + c n nodes has the best below each child.
    """
    chance = {
        (depth, count): float(law.of_children(depth, count).sum())
        for depth in range(len(law.rates))
        for count in range(1, law.num_ranks + 1)
    }

    @cache
    def best(depth: int, levels: int, size: int) -> tuple[float, tuple[int, ...]] | None:
        """(tokens, branching) of the best `levels` levels below a node, of `size` nodes with it."""
        if levels == 0:
            return (1.0, ()) if size == 1 else None
        found = None
        for count in range(1, min(law.num_ranks, (size - 1) // levels) + 1):
            if (size - 1) % count == 0:
                below = best(min(depth + 1, len(law.rates) - 1), levels - 1, (size - 1) // count)
                if below is not None:
                    tokens = 1 + chance[depth, count] * below[0]
                    found = max(found or (0.0, ()), (tokens, (count, *below[1])))
        return found

    for levels in range(1, max_depth + 1):
        for size in range(levels + 1, max_nodes + 1):
            grown = best(0, levels, size)
            if grown is not None:
                yield grown[0], uniform_tree(grown[1])
