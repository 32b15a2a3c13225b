"""The walk down a drafted tree, accepting and rejecting children: what it is given, and the plain
loop that the kernel is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from . import judges
from .judges import ENDS, Judge

Method = Literal["independent", "distinct", "sampled", "paired", "sequential", "hub", "paths"]
"""How children are judged: by rejection, drawn independently or without replacement, one by one or
in pairs; by whether one of them is the token that the target samples; by a factor for all of them;
by SpecHub's pairs; or by whole paths from the leaves."""
METHODS: tuple[Method, ...] = get_args(Method)
JUDGES: dict[Method, Judge] = {
    "independent": judges.independent,
    "distinct": judges.distinct,
    "sampled": judges.sampled_first,
    "paired": judges.paired,
    "sequential": judges.sequential,
    "hub": judges.hub,
}
"""The judges of the methods that go down node by node."""

NO_NUMBERS = -2


class VerifiedTree(NamedTuple):
    """A drafted tree of n nodes, the root first, as int32 tensors, but for the tokens, int64.

    draft_rows  [n]      the row of `draft_probs` that each node's children were drawn from
    starts      [n + 1]  node i has the children children[starts[i]] to children[starts[i + 1] - 1]
    children    [n - 1]  in the order in which they were drawn
    tokens      [n]      the token of each node
    """

    draft_rows: Tensor
    starts: Tensor
    children: Tensor
    tokens: Tensor


def verify_walk(
    target_probs: Tensor, draft_probs: Tensor, tree: VerifiedTree, uniforms: Tensor, method: Method
) -> Tensor:
    """Go down from the root, accepting a child of each node or none, with given chances.

    target_probs  float [n, V]   p at each node, of any sum but 0
    draft_probs   float [m, V]   q, of the same type
    uniforms      float64 [n]    in [0, 1): the first is for the first decision, and so on
    method        one of `METHODS`

    By rejection: a child x is accepted if u D(x) sum R < R(x) sum D; if not, R becomes
    (R - D sum R / sum D)+, and its token goes from D, where they are distinct; where nothing is
    left of D, D is even over the tokens that are not gone.  At first R = p and D = q.  With no
    children left, a token is drawn from R: the first x for which R sums to more than u sum R.
    By paths: as `planner.verifiers.traversal` has it; otherwise as the judge in `judges` says.

    Returns int64 [2, n + 1]: the accepted nodes, then -1, and the tokens of the text, the last one
    drawn.  -2 instead of -1 where p or q is not made of numbers.  Behind it stands anything.
    Raises ValueError when arguments do not fit.
    """
    check_verified(target_probs, draft_probs, tree, uniforms, method)
    given = _Given(target_probs.double().cpu(), draft_probs.double().cpu(), *_lists(tree))
    coins = iter(uniforms.tolist())
    steps = _by_paths(given, coins) if method == "paths" else _descended(given, coins, method)
    walked = torch.full((2, len(target_probs) + 1), ENDS, dtype=torch.int64)
    walked[:, : len(steps)] = torch.tensor(steps).T
    return walked.to(target_probs.device)


class _Given(NamedTuple):
    """The arguments on the host."""

    target_probs: Tensor
    draft_probs: Tensor
    rows: list[int]
    starts: list[int]
    children: list[int]
    tokens: list[int]

    def at(self, node: int) -> tuple[Tensor, Tensor, list[int]]:
        """(p, q, children) of a node."""
        family = self.children[self.starts[node] : self.starts[node + 1]]
        return self.target_probs[node], self.draft_probs[self.rows[node]], family


def _lists(tree: VerifiedTree) -> Iterator[list[int]]:
    return (tensor.tolist() for tensor in tree)


def _descended(given: _Given, coins: Iterator[float], method: Method) -> list[tuple[int, int]]:
    """(node, token) of every accepted node, and of the end."""
    steps: list[tuple[int, int]] = []
    node = 0
    while node >= 0:
        p, q, family = given.at(node)
        if not p.sum() > 0 or (family and not q.sum() > 0):
            return [*steps, (NO_NUMBERS, -1)]
        rank, token = JUDGES[method](p, q, [given.tokens[child] for child in family], coins)
        node = family[rank] if rank >= 0 else ENDS
        steps.append((node, token))
    return steps


def _by_paths(given: _Given, coins: Iterator[float]) -> list[tuple[int, int]]:
    """The same, where a node is judged after all that was drafted below it."""
    found = _accepted_below(given, coins, 0, 1.0)
    return found if found is not None else [(NO_NUMBERS, -1)]


def _accepted_below(
    given: _Given, coins: Iterator[float], node: int, acceptance: float
) -> list[tuple[int, int]] | None:
    """The steps that come of a node entered with an acceptance; None where it is rejected."""
    p, q, family = given.at(node)
    if family and not (p.sum() > 0 and q.sum() > 0):
        return [(NO_NUMBERS, -1)]
    residual = p / p.sum()
    for rank, child in enumerate(family):
        gone, token = [given.tokens[each] for each in family[:rank]], given.tokens[child]
        draft = judges.without(q, gone)
        draft = draft / draft.sum()
        entered = min(1.0, float(acceptance * residual[token] / draft[token]))
        below = _accepted_below(given, coins, child, entered) if entered > 0 else None
        if below is not None:
            return [(child, token), *below]
        owed = (acceptance * residual - draft).clamp(min=0)
        left = float(owed.sum())
        if left > 0:
            residual = owed / left
        elif acceptance < 1:
            acceptance = 0.0
            break
        else:  # R and D are equal up to rounding, and R may stay
            left = 1.0
        acceptance = left / (left + (1 - acceptance))
    if acceptance < 1 and not next(coins) < acceptance:
        return None
    if not p.sum() > 0:
        return [(NO_NUMBERS, -1)]
    return [(ENDS, judges.sampled(residual, next(coins)))]


def check_verified(
    target_probs: Tensor, draft_probs: Tensor, tree: VerifiedTree, uniforms: Tensor, method: Method
) -> None:
    """ValueError unless the arguments of `verify_walk` fit together."""
    if method not in METHODS:
        raise ValueError(f"method: got {method!r}, expected one of {', '.join(METHODS)}")
    if target_probs.dim() != 2 or not target_probs.is_floating_point():
        raise ValueError(
            f"target_probs: got {target_probs.dtype} {list(target_probs.shape)}, expected floats "
            "[n, V]"
        )
    num_nodes, num_tokens = target_probs.shape
    if draft_probs.dim() != 2 or draft_probs.shape[1] != num_tokens or len(draft_probs) < 1:
        raise ValueError(
            f"draft_probs: got {list(draft_probs.shape)}, expected [m, {num_tokens}], m at least 1"
        )
    if draft_probs.dtype != target_probs.dtype:
        raise ValueError(
            f"draft_probs: got {draft_probs.dtype}, expected {target_probs.dtype} as target_probs"
        )
    sizes = {"draft_rows": num_nodes, "starts": num_nodes + 1, "children": num_nodes - 1}
    kinds = {name: (size, torch.int32) for name, size in sizes.items()}
    kinds |= {"tokens": (num_nodes, torch.int64), "uniforms": (num_nodes, torch.float64)}
    for name, (size, dtype) in kinds.items():
        tensor = uniforms if name == "uniforms" else getattr(tree, name)
        if tensor.shape != (size,) or tensor.dtype != dtype:
            raise ValueError(
                f"{name}: got {tensor.dtype} {list(tensor.shape)}, expected {dtype} [{size}]"
            )
        if tensor.device != target_probs.device:
            raise ValueError(
                f"{name}: got a tensor on {tensor.device}, expected one on {target_probs.device} "
                "as target_probs"
            )
