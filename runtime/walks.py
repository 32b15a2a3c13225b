"""The walk down a drafted tree: a verifier's own, or on a GPU the same in one launch.

A verifier asks for numbers of the device at every child that it tries, and each answer is a wait.
`verify_walk` makes the same decisions there, and is waited for once a step.  At temperature 0 there
is nothing to decide: the target's token at every node says all.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from planner.documents.document import PlannerError
from planner.verifiers import Verifier
from planner.verifiers.rejection import NO_NUMBERS
from planner.verifiers.verifier import Accepted, Source
from tree_kernels import VerifiedTree, verify_walk
from tree_kernels.backend import unavailable
from tree_kernels.verified import ENDS, Method

from .draft_tree import DraftTree
from .randomness import TorchSource

METHODS: dict[str, Method] = {
    "chain": "independent",
    "rrs": "independent",
    "rrsw": "distinct",
    "lookahead": "paired",
    "traversal": "paths",
    "kseq": "sequential",
    "spechub": "hub",
    "naive": "sampled",
    "topk": "sampled",
}
"""The ways of `verify_walk` to judge, by the verifiers whose decisions they make."""


def walked(verifier: Verifier, tree: DraftTree, target_probs: Tensor, rng: Source) -> Accepted:
    """The accepted path of a drafted tree, as `Verifier.walk` finds it, in the quicker way."""
    method, device = METHODS.get(verifier.name), target_probs.device
    slow = device.type == "cpu" or unavailable(device) is not None
    if method is None or slow or not isinstance(rng, TorchSource):
        return verifier.walk(tree, target_probs, rng)
    return walk_at_once(method, tree, target_probs, rng)


def walk_at_once(
    method: Method, tree: DraftTree, target_probs: Tensor, rng: TorchSource
) -> Accepted:
    """The same by `verify_walk`: all decisions, then one transfer.

    target_probs  float [num_nodes, V]  p at each node

    Raises PlannerError where p or q is not made of numbers.
    """
    draft_probs, rows = tree.all_draft_probs()
    children = np.concatenate([np.array(each, np.int32) for each in tree.children])
    starts = np.cumsum([0, *map(len, tree.children)], dtype=np.int32)
    numbers = _uploaded(np.concatenate((rows, starts, children)).tobytes(), target_probs.device)
    uniforms = rng.uniforms((tree.num_nodes,), target_probs.device)
    drawn_from, first, family = numbers.split([len(rows), len(starts), len(children)])
    shape = VerifiedTree(drawn_from, first, family, tree.tokens)
    found = verify_walk(
        target_probs,
        target_probs if draft_probs is None else draft_probs.to(target_probs.dtype),
        shape,
        uniforms,
        method,
    )
    nodes, tokens = found.tolist()
    path = nodes[: next(place for place, node in enumerate(nodes) if node < 0)]
    if nodes[len(path)] != ENDS:
        raise PlannerError(NO_NUMBERS)
    parents = tree.parents
    ranks = [tree.children[parents[node]].index(node) for node in path]
    return Accepted(path, ranks, tokens[: len(path) + 1])


@lru_cache(maxsize=64)
def _uploaded(numbers: bytes, device: torch.device) -> Tensor:
    """int32 [any] there; a tree that stays the same from step to step is sent once."""
    here = torch.from_numpy(np.frombuffer(numbers, np.int32).copy())
    return here.to(device, non_blocking=True)


def walked_greedily(tree: DraftTree, chosen: Tensor) -> Accepted:
    """The accepted path of a drafted tree where the target's distributions are points, as every
    verifier finds it at temperature 0.

    chosen  int64 [num_nodes]  the target's token behind each node; -1 for none

    Raises PlannerError where that is needed and there is none.
    """
    wanted, drafted = torch.stack((chosen, tree.tokens)).tolist()
    found, node = Accepted([], [], []), 0
    while True:
        token = wanted[node]
        if token < 0:
            raise PlannerError(NO_NUMBERS)
        found.tokens.append(token)
        tokens = [drafted[child] for child in tree.children[node]]
        if token not in tokens:
            return found
        found.ranks.append(tokens.index(token))
        node = tree.children[node][found.ranks[-1]]
        found.path.append(node)
