"""Rules whose children are drawn independently, and a lone draw: closed forms, no noise at all."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from .base import TINY, Rank


def chain(p: Tensor, q: Tensor, num_ranks: int, rng: torch.Generator) -> Iterator[Rank]:
    """One child x, accepted with probability min(1, p/q)(x): there is one rank only."""
    yield torch.ones_like(p[:, :1]), torch.minimum(p, q)


def naive(p: Tensor, q: Tensor, num_ranks: int, rng: torch.Generator) -> Iterator[Rank]:
    """Child r is the target's token x, and none before it is: p q (1 - q)^r at x."""
    survival, mass, others = torch.ones_like(p[:, :1]), p * q, 1 - q
    for _ in range(num_ranks):
        yield survival, mass
        mass = mass * others


def rrs(p: Tensor, q: Tensor, num_ranks: int, rng: torch.Generator) -> Iterator[Rank]:
    """Recursive rejection: R <- norm((R - q)+) at each rejection, whatever was rejected."""
    residual, survival = p, torch.ones_like(p[:, :1])
    for _ in range(num_ranks):
        yield survival, torch.minimum(residual, q)
        residual = torch.sub(residual, q).clamp_(min=0)
        left = residual.sum(-1, keepdim=True)
        survival = survival * left
        residual /= left.clamp_min(TINY)
