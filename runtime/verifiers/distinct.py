"""Rules whose children are different tokens, drawn from the draft without replacement."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..randomness import Source, source_of
from .base import (
    Random,
    Rule,
    normalised,
    sampled,
    tried,
)

SWEEPS = 8
"""Most sweeps of the water-filling of `LookAhead`: the law that profiles and planning describe."""


class _Distinct(Rule):
    """k draws without replacement; once the draft's mass is used up, uniform over what is left."""

    def sample(self, q: Tensor, k: int, rng: Random) -> Tensor:
        rows = q if q.dim() == 2 else q[None]
        drafts = source_of(rng).without_replacement(rows, k)
        return drafts if q.dim() == 2 else drafts[0]


@dataclass(frozen=True)
class RecursiveRejection(_Distinct):
    """Sampling without replacement, verified by recursive rejection (Sequoia, Algorithm 1).

    R starts as p and D as q.  The child x, drawn from D, is accepted with probability R(x)/D(x);
    after a rejection R becomes norm((R - D)+), and D loses x and is renormalised; once D is empty
    it is uniform over the tokens not tried.  After the last child a token is sampled from R.
    """

    name: str = "rrsw"

    def verify(self, p: Tensor, q: Tensor, drafts: Tensor, rng: Random) -> tuple[int, int]:
        rng = source_of(rng)
        residual, untried = p, q
        tokens: list[int] = drafts.tolist()
        for rank, token in enumerate(tokens):
            if rank > 0:
                untried = _without(untried, tokens[:rank], 1)
            left = tried(residual, untried, token, rng)
            if left is None:
                return rank, token
            residual = left
        return -1, sampled(residual, rng)


@dataclass(frozen=True)
class LookAhead(_Distinct):
    """Rejection of children in pairs: how the first is rejected serves the second.

    The pair (a, y) is drawn from D with chance A(a) D(y), where A = D / (1 - D).  With
    e = (D - R)+ and u = (R - D)+, choose give(a), take(y) in [0, 1] so that, with Z = sum A give
    over e > 0 and K = sum D take,  A give K <= e  and  D take Z <= u.  Where R(a) >= D(a), a is
    accepted.  Else y is accepted with probability give(a) take(y), before a is tried at
    R(a) / (D(a) - A give K).  So a comes out with min(R, D)(a), as in `rrsw`, and y with D take Z
    more.  After both are rejected R becomes norm(u - D take Z), the same whatever was rejected,
    and D loses both.  A last child without a partner is verified by recursive rejection.

    The choice of give looks at what all pairs can do, so whether a second child is drawn must not
    depend on the first.
    """

    name: str = "lookahead"

    def verify(self, p: Tensor, q: Tensor, drafts: Tensor, rng: Random) -> tuple[int, int]:
        rng = source_of(rng)
        tokens: list[int] = drafts.tolist()
        if not tokens:
            return -1, sampled(p, rng)
        residual, untried = normalised(p), normalised(q)
        for rank in range(0, len(tokens), 2):
            if rank > 0:
                untried = normalised(_without(untried, tokens[:rank], 2))
            pair = tokens[rank : rank + 2]
            if len(pair) == 2:
                place, left = _tried_pair(residual, untried, tokens[:rank], pair, rng)
            else:
                rest = tried(residual, untried, pair[0], rng)
                place, left = (0, residual) if rest is None else (-1, rest)
            if place >= 0:
                return rank + place, pair[place]
            residual = normalised(left)
        return -1, sampled(residual, rng)


def _tried_pair(
    target: Tensor, draft: Tensor, before: list[int], pair: list[int], rng: Source
) -> tuple[int, Tensor]:
    """Try the children `pair`, drawn from `draft`, on the residual target, both normalised.

    before  the tokens tried earlier

    Returns (0 or 1 for the accepted one, anything) or (-1, what is left of the target).
    """
    first, second = pair
    wanted, share = float(target[first]), float(draft[first])
    if wanted >= share:
        return 0, target
    lack = (target - draft).clamp_(min=0)
    giving, following = _pair_law(target, draft, before)
    handed, taken, sum_handed, sum_taken = _water_fill(
        giving, following, (draft - target).clamp_(min=0), lack
    )
    give, take = _share(handed, giving, first), _share(taken, following, second)
    if rng.accept(give * take, 1.0):
        return 1, target
    if rng.accept(wanted, share - float(handed[first]) * sum_taken):
        return 0, target
    left = (lack - taken * sum_handed).clamp_(min=0)
    if float(left.sum()) > 0:
        return -1, left
    # Reached by rounding alone: after exact arithmetic there would be nothing to reject.
    return (-1, lack) if float(lack.sum()) > 0 else (0, target)


def _pair_law(target: Tensor, draft: Tensor, before: list[int]) -> tuple[Tensor, Tensor]:
    """A, zero where nothing is rejected, and the law D of the second: (a, y) has mass A(a) D(y).

    Where all of D lies on one token, the second is drawn evenly from the untried others.
    """
    top = int(draft.argmax())
    others = draft.clone()
    others[top] = 0
    beside = float(others.sum())  # 1 - D(top), without the cancellation
    follow = draft
    if beside <= 0:
        follow = torch.ones_like(draft)
        follow[[*before, top]] = 0
        follow = follow / follow.sum().clamp_min(1)
        beside = float(draft[top])
    after = 1 - draft
    after[top] = beside
    return (draft / after).masked_fill_(draft <= target, 0), follow


def _water_fill(
    giving: Tensor, following: Tensor, excess: Tensor, lack: Tensor
) -> tuple[Tensor, Tensor, float, float]:
    """(A give, D take, Z, K), give and take as large as their bounds allow; no handing on at all
    where either can have nothing.

    From sweep to sweep K falls, so that the bound on give, met with the last K but one, holds.
    """
    sum_taken = 1.0
    for _ in range(SWEEPS):
        handed = torch.minimum(giving, excess / sum_taken)
        sum_handed = float(handed.sum())
        if sum_handed == 0:
            break
        taken = torch.minimum(following, lack / sum_handed)
        before, sum_taken = sum_taken, float(taken.sum())
        if sum_taken == 0:
            break
        if sum_taken == before:  # further sweeps would change nothing
            return handed, taken, sum_handed, sum_taken
    else:
        return handed, taken, sum_handed, sum_taken
    return torch.zeros_like(giving), torch.zeros_like(lack), 0.0, 0.0


def _share(part: Tensor, whole: Tensor, token: int) -> float:
    total = float(whole[token])
    return float(part[token]) / total if total > 0 else 0.0


def _without(untried: Tensor, gone: list[int], last: int) -> Tensor:
    """The draft distribution less the `last` latest tokens of `gone`, not normalised; written in
    place unless these are all."""
    rest = untried.clone() if len(gone) == last else untried
    for token in gone[-last:]:
        rest[token] = 0
    if float(rest.sum()) > 0:
        return rest
    rest = torch.ones_like(rest)
    rest[gone] = 0
    return rest
