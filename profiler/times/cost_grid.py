"""The passes that are timed: tree sizes, widths of draft passes, the verifiers' walks, and the
trees themselves."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from planner.documents.tree import Tree
from planner.verifiers import VERIFIERS

from .growing import NUM_CANDIDATES, chain_sizes

EVERY_SIZE = 64
"""Up to here no tree size is left out: matrix kernels work in tiles, so that 12 nodes can be
cheaper than 11 and 13, and what lies between two measured sizes is anybody's guess."""
FEW_SIZES = (2, 16)
"""And the largest: the tree sizes at which the walks of all verifiers but one are timed."""
TIMED_VERIFIERS = ("rrsw", *(name for name in VERIFIERS if name != "rrsw"))
"""The verifier that everything is timed with, then the others, of which only the walks are timed,
at a few sizes."""
TYPICAL_ACCEPTANCE = [0.6 * 0.45**rank for rank in range(8)]
"""A power-law-like shape; only used to time trees that look like those that will be chosen."""


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


def grid(largest: int, every: int = 1) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, ... up to `largest`, which is always included: half steps of two.

    every  up to here no count is left out
    """
    counts = {largest, *range(1, min(every, largest) + 1)}
    power = 2
    while power <= largest:
        counts |= {power, min(power + power // 2, largest)}
        power *= 2
    return sorted(counts)


def typical_tree(num_nodes: int, max_children: int = len(TYPICAL_ACCEPTANCE)) -> Tree:
    """The best tree of `num_nodes` nodes for a typical acceptance vector, by best-first search."""
    acceptance = TYPICAL_ACCEPTANCE[:max_children]
    paths: list[tuple[int, ...]] = []
    slots: list[tuple[float, tuple[int, ...]]] = [(-1.0, ())]
    while len(paths) < num_nodes:
        value, path = heapq.heappop(slots)
        paths.append(path)
        heapq.heappush(slots, (value * acceptance[0], (*path, 0)))
        if path and path[-1] + 1 < len(acceptance):
            rank = path[-1] + 1
            ratio = acceptance[rank] / acceptance[rank - 1]
            heapq.heappush(slots, (value * ratio, (*path[:-1], rank)))
    paths.sort(key=lambda path: (len(path), path))
    index = {path: node for node, path in enumerate(paths)}
    return Tree([-1, *(index[path[:-1]] for path in paths[1:])])


def bush(width: int, max_children: int) -> Tree:
    """A tree two of whose draft passes have that width: levels as wide as `max_children` below a
    node allow, up to `width`, and two more of that width."""
    widths = [min(max_children, width)]
    while widths[-1] < width:
        widths.append(min(widths[-1] * max_children, width))
    parents, level = [-1], [0]
    for wide in (*widths, width, width):
        first = len(parents)
        parents += [level[place * len(level) // wide] for place in range(wide)]
        level = list(range(first, first + wide))
    return Tree(parents)
