"""The passes that are timed: tree sizes, widths of draft passes, and the verifiers' walks."""

from __future__ import annotations

from dataclasses import dataclass

from planner.documents.tree import Tree
from planner.verifiers import VERIFIERS

from .growing import NUM_CANDIDATES, chain_sizes
from .timed_trees import bush, grid, typical_tree

EVERY_SIZE = 64
"""Up to here no tree size is left out: matrix kernels work in tiles, so that 12 nodes can be
cheaper than 11 and 13, and what lies between two measured sizes is anybody's guess."""
FEW_SIZES = (2, 16)
"""And the largest: the tree sizes at which the walks of all verifiers but one are timed."""
TIMED_VERIFIERS = ("rrsw", *(name for name in VERIFIERS if name != "rrsw"))
"""The verifier that everything is timed with, then the others, of which only the walks are timed,
at a few sizes."""


@dataclass(frozen=True)
class CostGrid:
    """The sizes and widths that one sweep times.

    num_nodes       tree sizes, ascending
    widths          nodes expanded by a draft pass, ascending
    num_candidates  drawn below every expanded node where draft passes of growing trees are timed;
                    no node of a tree that is timed has more children
    verifiers       whose acceptance walks are timed, the first one's at every size
    """

    num_nodes: tuple[int, ...]
    widths: tuple[int, ...]
    num_candidates: int
    verifiers: tuple[str, ...] = TIMED_VERIFIERS

    @classmethod
    def up_to(
        cls, max_nodes: int, vocab_size: int, verifiers: tuple[str, ...] = TIMED_VERIFIERS
    ) -> CostGrid:
        """Trees of up to `max_nodes` nodes; levels of up to half as many expanded ones."""
        widest = max(1, min(max_nodes // 2, vocab_size))
        most = min(NUM_CANDIDATES, vocab_size)
        return cls(tuple(grid(max_nodes, EVERY_SIZE)), tuple(grid(widest)), most, verifiers)

    @property
    def few_nodes(self) -> tuple[int, ...]:
        """Some of `num_nodes`, from the smallest tree that is drafted to the largest."""
        largest = self.num_nodes[-1]
        return tuple(sorted({min(size, largest) for size in (*FEW_SIZES, largest)}))

    @property
    def depth(self) -> int:
        """Levels below the root of the deepest tree that is timed."""
        walked = (self.tree(n, name).depth for n in self.num_nodes for name in self.verifiers)
        chained = chain_sizes(self.num_nodes[-1])[-1] - 1
        return max(bush(self.widths[-1], self.num_candidates).depth, chained, *walked)

    def tree(self, num_nodes: int, verifier: str) -> Tree:
        """The tree of `num_nodes` nodes that the verifier's walk is timed on.

        A verifier of chains is timed on a tree for any number of children: a chain of that many
        nodes would be out of proportion.
        """
        most = VERIFIERS[verifier].max_children
        limit = self.num_candidates if most is None or most == 1 else most
        return typical_tree(num_nodes, min(self.num_candidates, limit))
