"""The tree of n nodes that emits most tokens per step (Sequoia, section 3).

Expected tokens of a tree are the sum, over its nodes, of the product of `acceptance[rank]` along
the path to the node: acceptance depends on the rank alone (positional assumption, Definition 3.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..documents.arguments import count
from ..documents.document import PlannerError
from ..documents.tree import Tree
from ..estimates.law import AcceptanceLaw
from .best_first import BestFirst
from .programme import Programme

MOST_NODES = 2**16
"""More nodes, or levels, than are ever worth verifying."""
_FIRST_DEPTH = 32


def frontier(acceptance: Any, max_nodes: int, max_depth: int) -> np.ndarray:
    """Expected tokens per step of the best tree, for every size and depth: G(n, d).

    acceptance  float64 [k]  P(child of rank r is the accepted one | its parent was); sums to <= 1

    Returns float64 [max_nodes+1, max_depth+1].  Entry (n, d) belongs to the best tree of exactly n
    nodes, root included, and at most d levels below the root; -inf where there is none (n = 0, or
    n more than k children a node can fill in d levels).  Exact for any vector, monotone or not.
    """
    law = AcceptanceLaw.by_rank(acceptance)
    max_nodes = count(max_nodes, "max_nodes", 1, MOST_NODES)
    max_depth = count(max_depth, "max_depth", 0, MOST_NODES)
    useful_depth = min(max_depth, max_nodes - 1)
    table = search(law, max_nodes, useful_depth).expected_tokens
    return np.pad(table, ((0, 0), (0, max_depth - useful_depth)), mode="edge")


def best_tree(acceptance: Any, num_nodes: int, depth: int | None = None) -> Tree:
    """The tree of exactly `num_nodes` nodes that emits most tokens per step.

    acceptance  float64 [k]  as for `frontier`
    depth       most levels below the root; None: any

    Exact for any vector, monotone or not; the same tree every time.  Raises PlannerError if there
    is no such tree.
    """
    law = AcceptanceLaw.by_rank(acceptance)
    num_nodes = count(num_nodes, "num_nodes", 1, MOST_NODES)
    most = num_nodes - 1 if depth is None else min(count(depth, "depth", 0), num_nodes - 1)
    tree = deep_search(law, num_nodes, most)
    if tree is None:
        raise PlannerError(
            f"num_nodes: got {num_nodes}, but {law.num_ranks} children a node fill at most "
            f"{_capacity(law.num_ranks, most)} nodes in {most} levels; allow more depth, or give "
            "an acceptance vector of more ranks"
        )
    return tree


def search(law: AcceptanceLaw, max_nodes: int, max_depth: int) -> BestFirst | Programme:
    """All best trees up to the limits, by the cheapest exact method for this law (unchecked)."""
    method = BestFirst if law.is_greedy else Programme
    return method(law, max_nodes, max_depth)


def deep_search(law: AcceptanceLaw, num_nodes: int, max_depth: int) -> Tree | None:
    """The best tree of exactly `num_nodes` nodes and at most `max_depth` levels, if there is one.

    A programme fills no tables of levels that no good tree has.
    """
    depth = min(max_depth, _FIRST_DEPTH)
    while True:
        trees = search(law, num_nodes, depth)
        if isinstance(trees, BestFirst):
            return trees.tree(num_nodes, max_depth)
        if trees.is_settled or depth == max_depth:
            return trees.tree(num_nodes, depth)
        depth = min(max_depth, 2 * depth)


def _capacity(num_ranks: int, depth: int) -> int:
    return sum(num_ranks**level for level in range(depth + 1))
