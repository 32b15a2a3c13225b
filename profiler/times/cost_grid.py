"""Everything that one sweep times: trees by their sizes, draft passes, walks, policies at work.

A policy is timed with what it has to do, not with what it decides: chains never stop, trees grow up
to a size that was set.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from planner.documents.head_card import HeadFile, StoppingScore
from planner.documents.tree import Tree
from planner.policies import GreedyDrafting, Policy, StoppingDrafting
from planner.policies.fixed import FixedTree
from planner.policies.policy import COLLISION, FEATURES
from planner.verifiers import VERIFIERS
from runtime.session import Score

TREES, CHAINS = "growing", "chains"
"""Names of what no head decides on; where one does, its SHA-256 is the name."""
NUM_CANDIDATES = 8
"""Children that a node of a growing tree may have, as far as times are concerned."""
SHORT, LONG = 4, 8
"""Chains of up to so many nodes are timed: the longer ones where trees are so large too."""
NEVER = float(np.nextafter(1, 0))
"""Threshold of a stopping policy that never stops."""
EVERY_SIZE = 64
"""No tree size up to here is left out: matrix kernels work in tiles, so that 12 nodes can be
cheaper than 11 and 13, and what lies between two measured sizes is anybody's guess."""
EVERY_SLOW_SIZE = 8
"""The same for a slow target: what its weights take to be read is most of every pass."""
FORK = Tree([-1, 0, 0])
"""The tree of three nodes that is timed: the least in which a verifier chooses between children."""
FEW_SIZES = (2, 3, 16)
"""And the largest: the tree sizes at which the walks of all verifiers but one are timed, beside
that one's.  With a second child some take half as long again as with one, with more little more
(benchmarks/results/checks/walks-by-children.json)."""
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
    batch_size      requests that decode together: sizes and widths are those of each
    slow            a step takes so long that what one leaves in caches is nothing to the next: each
                    is timed once, behind any other
    """

    num_nodes: tuple[int, ...]
    widths: tuple[int, ...]
    num_candidates: int
    verifiers: tuple[str, ...] = TIMED_VERIFIERS
    batch_size: int = 1
    slow: bool = False

    @classmethod
    def up_to(
        cls,
        max_nodes: int,
        vocab_size: int,
        verifiers: tuple[str, ...] = TIMED_VERIFIERS,
        *,
        slow: bool = False,
    ) -> CostGrid:
        """Trees of up to `max_nodes` nodes; levels of up to half as many expanded ones."""
        widest = max(1, min(max_nodes // 2, vocab_size))
        sizes = grid(max_nodes, EVERY_SLOW_SIZE if slow else EVERY_SIZE)
        most = min(NUM_CANDIDATES, vocab_size)
        return cls(tuple(sizes), tuple(grid(widest)), most, verifiers, slow=slow)

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
        """The tree of `num_nodes` nodes that the verifier's walk is timed on: typical, or `FORK`.

        A verifier of chains is timed on a tree for any number of children: a chain of that many
        nodes would be out of proportion.
        """
        most = VERIFIERS[verifier].max_children
        limit = self.num_candidates if most is None or most == 1 else most
        most = min(self.num_candidates, limit)
        return FORK if num_nodes == FORK.num_nodes and most > 1 else typical_tree(num_nodes, most)


@dataclass(frozen=True)
class Growing:
    """One kind of trees."""

    sizes: tuple[int, ...]
    """Nodes of the trees that a policy grows."""
    widths: tuple[int, ...]
    """Widths of draft passes below the root."""
    policy: Callable[[int], Policy]
    """The policy for trees of a size."""
    score: Score | None = None
    """A head's word, where it is asked."""


def growing_kinds(grid: CostGrid, heads: Mapping[str, Score]) -> dict[str, Growing]:
    """All kinds of growing trees that are timed, by name, chains behind trees.

    heads  by the SHA-256 of their files
    """
    largest, chains = grid.num_nodes[-1], chain_sizes(grid.num_nodes[-1])

    def tree(size: int) -> Policy:
        drafting = GreedyDrafting(
            num_nodes=size, max_depth=chains[-1] - 1, max_children=grid.num_candidates
        )
        return drafting.policy(deterministic=False)

    def chain(size: int, score: StoppingScore, head: HeadFile | None = None) -> Policy:
        drafting = StoppingDrafting(score=score, threshold=NEVER, max_depth=size - 1, head=head)
        return drafting.policy(deterministic=False)

    unread = HeadFile(file="", sha256="")
    scored = partial(chain, score="head", head=unread)
    return {
        TREES: Growing(powers_of_two(largest), grid.widths, tree),
        CHAINS: Growing(chains, (1,), partial(chain, score="confidence")),
        **{head: Growing(chains, (1,), scored, score) for head, score in heads.items()},
    }


def powers_of_two(largest: int) -> tuple[int, ...]:
    """The powers of two from 2 up to `largest`."""
    return tuple(2**power for power in range(1, largest.bit_length()))


def chain_sizes(largest: int) -> tuple[int, ...]:
    """Whatever the largest tree, some of them have draft passes below the root."""
    return powers_of_two(LONG if largest >= LONG else SHORT)


class ShownTree(FixedTree):
    """A tree that is drafted as if it grew: shown everything, and deciding nothing by it."""

    columns = (FEATURES[COLLISION],)

    def __init__(self, tree: Tree, num_candidates: int) -> None:
        super().__init__(tree)
        self.num_candidates = num_candidates


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
