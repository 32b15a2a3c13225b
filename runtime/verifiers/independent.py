"""Rules whose children are drawn independently from the draft's distribution."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tree_kernels.host.selection import selection_factor

from ..randomness import source_of
from .base import (
    Random,
    Rule,
    normalised,
    sampled,
    tried,
)


class _Independent(Rule):
    """k independent draws from q; the same token may come twice."""

    def sample(self, q: Tensor, k: int, rng: Random) -> Tensor:
        return source_of(rng).with_replacement(q, k)


@dataclass(frozen=True)
class Naive(_Independent):
    """The target's token is sampled first, and accepted if it is a child.

    Lossless for any children at all, since they are not looked at before the token is sampled.
    """

    name: str = "naive"

    def verify(self, p: Tensor, q: Tensor, drafts: Tensor, rng: Random) -> tuple[int, int]:
        token = sampled(p, source_of(rng))
        children = drafts.tolist()
        return (children.index(token) if token in children else -1), token


@dataclass(frozen=True)
class IndependentRejection(_Independent):
    """Recursive rejection of independent draws (SpecInfer, Algorithm 2).

    R starts as p; the child x is accepted with probability R(x)/q(x); after a rejection R becomes
    norm((R - q)+), whatever was rejected.  After the last child a token is sampled from R.
    """

    name: str = "rrs"

    def verify(self, p: Tensor, q: Tensor, drafts: Tensor, rng: Random) -> tuple[int, int]:
        rng = source_of(rng)
        residual = p
        for rank, token in enumerate(drafts.tolist()):
            left = tried(residual, q, token, rng)
            if left is None:
                return rank, token
            residual = left
        return -1, sampled(residual, rng)


@dataclass(frozen=True)
class Chain(IndependentRejection):
    """One child, accepted with probability min(1, p/q) (Leviathan et al., Chen et al., 2023)."""

    name: str = "chain"


@dataclass(frozen=True)
class SequentialSelection(_Independent):
    """K-SEQ (SpecTr, Algorithm 3): every child is accepted with probability min(1, p / (g q)).

    With b = sum min(q, p/g) the chance of each child, token x comes out of the k trials with
    probability min(q, p/g)(x) (1 - (1-b)^k) / b; g is the smallest factor for which that stays
    within p(x) everywhere, the root of 1 - (1-b)^k = g b in [1, k].  What p has beyond it is
    sampled after the last rejection.  The children are independent of k, their acceptance is not.
    """

    name: str = "kseq"

    def verify(self, p: Tensor, q: Tensor, drafts: Tensor, rng: Random) -> tuple[int, int]:
        rng = source_of(rng)
        if len(drafts) == 0:
            return -1, sampled(p, rng)
        target, draft = normalised(p), normalised(q)
        p_host, q_host = target.cpu().numpy(), draft.cpu().numpy()
        factor = selection_factor(p_host, q_host, len(drafts))
        for rank, token in enumerate(drafts.tolist()):
            if rng.accept(float(p_host[token]), factor * float(q_host[token])):
                return rank, token
        accepted = torch.minimum(draft, target / factor)
        chance = float(accepted.sum())
        trials = (1 - (1 - chance) ** len(drafts)) / chance if chance > 0 else 0.0
        residual = (target - trials * accepted).clamp_(min=0)
        return -1, sampled(residual if float(residual.sum()) > 0 else target, rng)
