"""Trees that grow, as they are timed: real policies deciding on them, and plain draft passes.

A policy is timed with what it has to do, not with what it decides: chains never stop, trees grow up
to a size that was set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from planner.documents.head_card import HeadFile, StoppingScore
from planner.documents.tree import Tree
from planner.policies import GreedyDrafting, Policy, StoppingDrafting
from planner.policies.fixed import FixedTree
from planner.policies.policy import COLLISION, FEATURES
from runtime.session import Score

TREES, CHAINS = "growing", "chains"
"""Names of what no head decides on; where one does, its SHA-256 is the name."""
NUM_CANDIDATES = 8
"""Children that a node of a growing tree may have, as far as times are concerned."""
SHORT, LONG = 4, 8
"""Chains of up to so many nodes are timed: the longer ones where trees are so large too."""
NEVER = float(np.nextafter(1, 0))
"""Threshold of a stopping policy that never stops."""


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


def growing_kinds(
    num_nodes: int, widths: Sequence[int], num_candidates: int, heads: Mapping[str, Score]
) -> dict[str, Growing]:
    """All kinds of growing trees that are timed, by name, chains behind trees.

    num_nodes  of the largest tree
    widths     of the draft passes of trees
    heads      by the SHA-256 of their files
    """
    chains = chain_sizes(num_nodes)

    def tree(size: int) -> Policy:
        drafting = GreedyDrafting(
            num_nodes=size, max_depth=chains[-1] - 1, max_children=num_candidates
        )
        return drafting.policy(deterministic=False)

    def chain(size: int, score: StoppingScore, head: HeadFile | None = None) -> Policy:
        drafting = StoppingDrafting(score=score, threshold=NEVER, max_depth=size - 1, head=head)
        return drafting.policy(deterministic=False)

    unread = HeadFile(file="", sha256="")
    scored = partial(chain, score="head", head=unread)
    return {
        TREES: Growing(powers_of_two(num_nodes), tuple(widths), tree),
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
