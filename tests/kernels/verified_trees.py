"""Random drafted trees: the arguments of the walk down them."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tree_kernels import VerifiedTree
from tree_kernels.verified import Method

from .trees import random_tree

DISTINCT: tuple[Method, ...] = ("distinct", "paired", "paths")
"""The methods whose children are drawn without replacement; even ones once the draft is used up."""
MOST_CHILDREN: dict[Method, int] = {"hub": 2}


class Drafted(NamedTuple):
    """The arguments of `verify_walk`, but for the method."""

    target_probs: Tensor
    draft_probs: Tensor
    tree: VerifiedTree
    uniforms: Tensor


def drafted(
    seed: int, num_nodes: int, num_tokens: int, *, method: Method, dtype: torch.dtype
) -> Drafted:
    """Distributions near each other, so that paths are long, with zeros in both; children drawn
    from the draft's as the method has it."""
    most = MOST_CHILDREN.get(method, num_tokens if method in DISTINCT else num_nodes)
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.full(num_tokens, 0.5), num_nodes)
    q[rng.random(q.shape) < 0.4] = 0
    q[:, 0] += 1e-3
    p = q * rng.uniform(0.5, 1.5, q.shape) + 0.1 * rng.dirichlet(np.ones(num_tokens), num_nodes)
    p[rng.random(p.shape) < 0.2] = 0
    p[:, 1] += 1e-3
    families: list[list[int]] = [[] for _ in range(num_nodes)]
    for child, parent in enumerate(random_tree(num_nodes, seed).tolist()):
        # Where a family is full, the next node takes it.
        while parent >= 0 and len(families[parent]) == most:
            parent = (parent + 1) % child
        if parent >= 0:
            families[parent].append(child)
    tokens = drawn_tokens(q, families, method, rng)
    tree = VerifiedTree(
        torch.arange(num_nodes, dtype=torch.int32),
        torch.tensor(np.cumsum([0, *map(len, families)]), dtype=torch.int32),
        torch.tensor([child for family in families for child in family], dtype=torch.int32),
        torch.from_numpy(tokens),
    )
    uniforms = torch.from_numpy(rng.random(num_nodes))
    return Drafted(torch.tensor(p, dtype=dtype), torch.tensor(q, dtype=dtype), tree, uniforms)


def drawn_tokens(
    q: np.ndarray, families: list[list[int]], method: Method, rng: np.random.Generator
) -> np.ndarray:
    """int64 [n]: the children of every node drawn from its q as the method has it."""
    num_tokens = q.shape[1]
    tokens = np.zeros(len(families), np.int64)
    for node, family in enumerate(families):
        left, untried, hub = q[node].copy(), np.ones(num_tokens), q[node].argmax()
        for rank, child in enumerate(family):
            chances = left if left.sum() > 0 else untried
            tokens[child] = rng.choice(num_tokens, p=chances / chances.sum())
            if method == "hub" and rank == 1 and tokens[family[0]] != hub:
                tokens[child] = hub
            if method in DISTINCT or method == "hub":
                left[tokens[child]] = untried[tokens[child]] = 0
    return tokens


def with_children_from(q: Tensor, given: Drafted, method: Method, seed: int) -> Drafted:
    """The same tree, its children drawn from another q."""
    starts, children = given.tree.starts.tolist(), given.tree.children.tolist()
    families = [children[a:b] for a, b in pairwise(starts)]
    tokens = drawn_tokens(q.numpy(), families, method, np.random.default_rng(seed))
    return given._replace(tree=given.tree._replace(tokens=torch.from_numpy(tokens)), draft_probs=q)


def path_of(walked: Tensor) -> tuple[list[int], list[int], int]:
    """Accepted nodes, tokens of the text, and what stands behind the last node."""
    nodes, tokens = walked.tolist()
    end = next(place for place, node in enumerate(nodes) if node < 0)
    return nodes[:end], tokens[: end + 1], nodes[end]
