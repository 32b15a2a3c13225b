"""Verifiers that bias the output, each by a mistake that was made: checks must see them."""

from __future__ import annotations

import torch
from torch import Tensor

from planner.verifiers.rrsw import RecursiveRejection
from planner.verifiers.topk import MostProbable
from planner.verifiers.verifier import Random
from runtime.randomness import source_of


class DraftNotRenormalised(RecursiveRejection):
    """Recursive rejection whose second and later children are tested against q itself instead of
    the draft distribution they were drawn from."""

    def verify(self, p: Tensor, q: Tensor, drafts: Tensor, rng: Random) -> tuple[int, int]:
        rng = source_of(rng)
        residual = p / p.sum()
        for rank, token in enumerate(drafts.tolist()):
            if rng.accept(float(residual[token]), float(q[token])):
                return rank, token
            left = (residual - q).clamp(min=0)
            if not float(left.sum()) > 0:
                return rank, token
            residual = left / left.sum()
        return -1, int(rng.categorical(residual))


class UnlikelyDropped(RecursiveRejection):
    """Recursive rejection that forgets drafted tokens for their own small probability."""

    def verify(self, p: Tensor, q: Tensor, drafts: Tensor, rng: Random) -> tuple[int, int]:
        kept = (q[drafts] >= 0.3).nonzero().flatten()
        rank, token = super().verify(p, q, drafts[kept], rng)
        return (int(kept[rank]) if rank >= 0 else -1), token


class ResidualIsTarget(RecursiveRejection):
    """Recursive rejection that samples from p after rejecting everything."""

    def verify(self, p: Tensor, q: Tensor, drafts: Tensor, rng: Random) -> tuple[int, int]:
        rank, token = super().verify(p, q, drafts, rng)
        return (rank, token) if rank >= 0 else (-1, int(source_of(rng).categorical(p)))


class GreedyTarget(MostProbable):
    """`topk` that takes the target's most probable token instead of sampling one."""

    def verify(self, p: Tensor, q: Tensor, drafts: Tensor, rng: Random) -> tuple[int, int]:
        one_hot = torch.zeros_like(p).index_fill(0, p.argmax(), 1.0)
        return super().verify(one_hot, q, drafts, rng)


class Reranked(RecursiveRejection):
    """Recursive rejection of children that were put in order of probability after sampling."""

    def sample(self, q: Tensor, k: int, rng: Random) -> Tensor:
        drafts = super().sample(q, k, rng)
        order = q.gather(-1, drafts).argsort(dim=-1, descending=True)
        return drafts.gather(-1, order)


BROKEN = (DraftNotRenormalised(), UnlikelyDropped(), ResidualIsTarget(), GreedyTarget())
