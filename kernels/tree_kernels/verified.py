"""The walk down a drafted tree, accepting and rejecting children: what it is given, and the plain
loop that the kernel is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

Method = Literal["independent", "distinct", "sampled"]
"""How children are judged: by rejection, drawn independently or without replacement; or by whether
one of them is the token that the target samples."""
METHODS: tuple[Method, ...] = get_args(Method)

ENDS, NO_NUMBERS = -1, -2
BELOW_ONE = 1.0 - 2.0**-50


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

    Returns int64 [2, n + 1]: the accepted nodes, then -1, and the tokens of the text, the last one
    drawn.  -2 instead of -1 where p or q is not made of numbers.  Behind it stands anything.
    Raises ValueError when arguments do not fit.
    """
    check_verified(target_probs, draft_probs, tree, uniforms, method)
    walked = torch.full((2, len(target_probs) + 1), ENDS, dtype=torch.int64)
    rows, starts, children, tokens = (tensor.tolist() for tensor in tree)
    coins = iter(uniforms.tolist())
    node, count = 0, 0
    while node >= 0:
        family = children[starts[node] : starts[node + 1]]
        p, q = target_probs[node].double().cpu(), draft_probs[rows[node]].double().cpu()
        node, token = _judged(p, q, [tokens[child] for child in family], coins, method)
        node = family[node] if node >= 0 else node
        walked[:, count] = torch.tensor([node, token])
        count += 1
    return walked.to(target_probs.device)


def _judged(
    residual: Tensor, draft: Tensor, family: list[int], coins: Iterator[float], method: Method
) -> tuple[int, int]:
    """(rank of the accepted child or `ENDS`, the token that comes out) at one node, or
    `NO_NUMBERS`."""
    if not residual.sum() > 0 or (family and not draft.sum() > 0):
        return NO_NUMBERS, -1
    if method != "sampled":
        for rank, token in enumerate(family):
            mass, drafted = residual.sum(), draft.sum()
            if next(coins) * (draft[token] * mass) < residual[token] * drafted:
                return rank, token
            left = (residual - draft * (mass / drafted)).clamp(min=0)
            if not left.sum() > 0:
                return rank, token
            residual = left
            if method == "distinct":
                draft = draft.clone()
                draft[token] = 0
                if not draft.sum() > 0:
                    draft = torch.ones_like(draft)
                    draft[family[: rank + 1]] = 0
    height = next(coins) * BELOW_ONE * residual.sum()
    token = int(torch.searchsorted(residual.cumsum(0), height, right=True))
    if method == "sampled" and token in family:
        return family.index(token), token
    return ENDS, token


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
