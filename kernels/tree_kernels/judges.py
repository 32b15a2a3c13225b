"""The judges of one node's children in plain torch, which the kernels are compared with.

A judge is given p and q, float64 [V] of any sum but 0, the tokens of the children in the order in
which they were drawn, and random numbers; it returns (rank of the accepted child or `ENDS`, the
token that comes out).  What they decide by is explained in `planner.verifiers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

ENDS = -1
BELOW_ONE = 1.0 - 2.0**-50
"""Keeps u * total below total in float64, so that inversion never runs past the last token."""
SWEEPS = 8
"""Most sweeps by which a pair's first and second child agree on what is handed over."""
BISECTIONS = 40
"""Halvings of the interval in which the factor lies."""

Judge = Callable[[Tensor, Tensor, list[int], Iterator[float]], tuple[int, int]]


def sampled_first(
    p: Tensor, q: Tensor, family: list[int], coins: Iterator[float]
) -> tuple[int, int]:
    """A child is accepted if it is the token that the target samples."""
    token = sampled(p, next(coins))
    return (family.index(token) if token in family else ENDS), token


def independent(p: Tensor, q: Tensor, family: list[int], coins: Iterator[float]) -> tuple[int, int]:
    """Children drawn independently, tried one after the other."""
    residual = p
    for rank, token in enumerate(family):
        left = tried(residual, q, token, next(coins))
        if left is None:
            return rank, token
        residual = left
    return ENDS, sampled(residual, next(coins))


def distinct(p: Tensor, q: Tensor, family: list[int], coins: Iterator[float]) -> tuple[int, int]:
    """Children drawn without replacement, tried one after the other."""
    residual = p
    for rank, token in enumerate(family):
        left = tried(residual, without(q, family[:rank]), token, next(coins))
        if left is None:
            return rank, token
        residual = left
    return ENDS, sampled(residual, next(coins))


def sequential(p: Tensor, q: Tensor, family: list[int], coins: Iterator[float]) -> tuple[int, int]:
    """Independent draws, each accepted with chance p / (g q), with one factor g for all."""
    p, q = p / p.sum(), q / q.sum()
    if not family:
        return ENDS, sampled(p, next(coins))
    low, factor = 1.0, 1.0 if _selects(p, q, 1.0, len(family)) else float(len(family))
    for _ in range(BISECTIONS):
        middle = (low + factor) / 2
        low, factor = (low, middle) if _selects(p, q, middle, len(family)) else (middle, factor)
    for rank, token in enumerate(family):
        if next(coins) * (factor * q[token]) < p[token]:
            return rank, token
    accepted = q.minimum(p / factor)
    chance = accepted.sum()
    trials = (1 - (1 - chance) ** len(family)) / chance if chance > 0 else 0.0
    residual = (p - trials * accepted).clamp(min=0)
    return ENDS, sampled(residual if residual.sum() > 0 else p, next(coins))


def hub(p: Tensor, q: Tensor, family: list[int], coins: Iterator[float]) -> tuple[int, int]:
    """Pairs with the draft's most probable token; a lone child is tried like any."""
    if len(family) < 2:
        return independent(p, q, family, coins)
    p, q = p / p.sum(), q / q.sum()
    top = int(q.argmax())
    wanted, then_hub = _without_one(p, top), _without_one(q, top)
    others = then_hub if then_hub.sum() > 0 else _without_one(torch.ones_like(q), top)
    hub_then = q[top] * others / others.sum()
    as_first = wanted.minimum(then_hub)
    as_second = (wanted - as_first).minimum(hub_then)
    hub_first = p[top].minimum((hub_then - as_second).sum())
    hub_second = (p[top] - hub_first).minimum((then_hub - as_first).sum())
    place = 0 if family[0] == top else 1
    mass, accepted, of_hub = ((hub_then, as_second, hub_first), (then_hub, as_first, hub_second))[
        place
    ]
    other = family[1 - place]
    if next(coins) * mass[other] < accepted[other]:
        return 1 - place, other
    if next(coins) * (mass - accepted).sum() < of_hub:
        return place, top
    residual = (wanted - as_first - as_second).clamp(min=0)
    return ENDS, sampled(residual if residual.sum() > 0 else p, next(coins))


def paired(p: Tensor, q: Tensor, family: list[int], coins: Iterator[float]) -> tuple[int, int]:
    """Children drawn without replacement, judged two at a time; a last one like any."""
    residual = p
    for rank in range(0, len(family), 2):
        draft, pair = without(q, family[:rank]), family[rank : rank + 2]
        if len(pair) == 1:
            left = tried(residual, draft, pair[0], next(coins))
            if left is None:
                return rank, pair[0]
            residual = left
            continue
        residual, draft = residual / residual.sum(), draft / draft.sum()
        first, second = pair
        if residual[first] >= draft[first]:
            return rank, first
        chance, weight, left = _pair(residual, draft, family[:rank], pair)
        if next(coins) < chance:
            return rank + 1, second
        if next(coins) * weight < residual[first]:
            return rank, first
        residual = left if left.sum() > 0 else residual  # nothing: by rounding alone
    return ENDS, sampled(residual, next(coins))


def sampled(weights: Tensor, coin: float) -> int:
    """The first token up to which the weights sum to more than such a part of them."""
    height = coin * BELOW_ONE * weights.sum()
    return int(torch.searchsorted(weights.cumsum(0), height, right=True))


def tried(residual: Tensor, draft: Tensor, token: int, coin: float) -> Tensor | None:
    """The rest of R where a child is rejected, None where it is accepted."""
    mass, drafted = residual.sum(), draft.sum()
    if coin * (draft[token] * mass) < residual[token] * drafted:
        return None
    left = (residual - draft * (mass / drafted)).clamp(min=0)
    return left if left.sum() > 0 else residual  # nothing: they are equal up to rounding


def without(draft: Tensor, gone: list[int]) -> Tensor:
    """D: q without some tokens, even over the others where nothing is left of it."""
    left = draft.clone()
    left[gone] = 0
    if not left.sum() > 0:
        left = torch.ones_like(draft)
        left[gone] = 0
    return left


def _without_one(weights: Tensor, token: int) -> Tensor:
    weights = weights.clone()
    weights[token] = 0
    return weights


def _selects(p: Tensor, q: Tensor, factor: float, num_children: int) -> bool:
    """Do so many children accept no token more often than it should come out?"""
    lack, excess = (p - factor * q).clamp(min=0).sum(), (q - p / factor).clamp(min=0).sum()
    return bool(lack <= excess**num_children)


def _pair(
    residual: Tensor, draft: Tensor, gone: list[int], pair: list[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """(the chance to accept the second child of a pair before the first is looked at, the weight
    against which the first is, what is left of R if neither is accepted).

    The names are those of `planner.verifiers.lookahead`: A, S, give, take, Z and K.
    """
    first, second = pair
    top = int(draft.argmax())
    following, after, beside = draft, 1 - draft, _without_one(draft, top).sum()
    after[top] = beside
    if beside == 0:
        after[top] = draft[top]
        following = torch.ones_like(draft)
        following[[*gone, top]] = 0
        following /= following.sum().clamp(min=1)
    giving = torch.where(draft > residual, draft / after, 0.0)
    excess, lack = (draft - residual).clamp(min=0), (residual - draft).clamp(min=0)
    taken = torch.ones_like(beside)
    for _ in range(SWEEPS):
        before = taken
        handing = giving.minimum(excess / before)
        given = handing.sum()
        taking = following.minimum(lack / given) if given > 0 else torch.zeros_like(lack)
        taken = taking.sum()
        if taken in (0, before):
            break
    if taken == 0:
        return taken, draft[first], lack
    chance = torch.zeros_like(taken)
    if giving[first] > 0 and following[second] > 0:
        chance = handing[first] / giving[first] * taking[second] / following[second]
    return chance, draft[first] - handing[first] * taken, (lack - given * taking).clamp(min=0)
