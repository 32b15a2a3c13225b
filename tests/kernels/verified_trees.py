"""Random drafted trees: the arguments of the walk down them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tree_kernels import VerifiedTree

from .trees import random_tree


class Drafted(NamedTuple):
    """The arguments of `verify_walk`, but for the method."""

    target_probs: Tensor
    draft_probs: Tensor
    tree: VerifiedTree
    uniforms: Tensor


def drafted(
    seed: int, num_nodes: int, num_tokens: int, *, distinct: bool, dtype: torch.dtype
) -> Drafted:
    """Distributions near each other, so that paths are long, with zeros in both; children drawn
    from the draft's, different ones evenly once it is used up."""
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
        while parent >= 0 and distinct and len(families[parent]) == num_tokens:
            parent += 1
        if parent >= 0:
            families[parent].append(child)
    tokens = np.zeros(num_nodes, np.int64)
    for node, family in enumerate(families):
        left, untried = q[node].copy(), np.ones(num_tokens)
        for child in family:
            chances = left if left.sum() > 0 else untried
            tokens[child] = rng.choice(num_tokens, p=chances / chances.sum())
            if distinct:
                left[tokens[child]] = untried[tokens[child]] = 0
    tree = VerifiedTree(
        torch.arange(num_nodes, dtype=torch.int32),
        torch.tensor(np.cumsum([0, *map(len, families)]), dtype=torch.int32),
        torch.tensor([child for family in families for child in family], dtype=torch.int32),
        torch.from_numpy(tokens),
    )
    uniforms = torch.from_numpy(rng.random(num_nodes))
    return Drafted(torch.tensor(p, dtype=dtype), torch.tensor(q, dtype=dtype), tree, uniforms)


def path_of(walked: Tensor) -> tuple[list[int], list[int], int]:
    """Accepted nodes, tokens of the text, and what stands behind the last node."""
    nodes, tokens = walked.tolist()
    end = next(place for place, node in enumerate(nodes) if node < 0)
    return nodes[:end], tokens[: end + 1], nodes[end]
