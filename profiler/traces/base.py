"""Acceptance by rank at every position of a text, without ever flipping the accept coin.

For one position with target distribution p, draft distribution q and emitted token y, write a_r for
P(the child of rank r is accepted) and a_r(y) for the part of it in which that child is y.  A tracer
returns, for N positions at once,

    expected  float32 [N, num_ranks]   a_r
    emitted   float32 [N, num_ranks]   a_r(y) / p(y) = P(rank r was accepted | y was emitted)

(A column per rank; where siblings matter, per number of siblings and rank, see the profile.)
The second is what a walk along an emitted text needs: given the text, it says with which
probability a tree's child of rank r carried it on.  Where the law depends on which tokens were
rejected before, rejections are drawn from their exact law instead of counted (a Rao-Blackwell
estimate); one path of rejections at each position is enough, since positions differ far more than
paths do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

MAX_ELEMENTS = {"cpu": 1 << 16, "cuda": 1 << 22}
"""Positions are traced in chunks of so many probabilities: half a MiB a tensor, which a CPU's cache
holds, or enough to fill a GPU."""

TINY = torch.finfo(torch.float64).tiny


class Traces(NamedTuple):
    """float32 [N, num_ranks] each; rows of `emitted` and `expected` sum to at most 1."""

    expected: Tensor
    emitted: Tensor


Tracer = Callable[[Tensor, Tensor, Tensor, int, torch.Generator], Traces]
"""(p [N, V], q [N, V], emitted tokens int64 [N], num_ranks, rng) -> Traces."""

Rank = tuple[Tensor, Tensor]
"""float64 [N, 1], the chance that all earlier children were rejected, and float64 [N, V], the
chance of each token to be accepted then."""

Accepted = Callable[[Tensor, Tensor, int, torch.Generator], Iterator[Rank]]
"""(p, q float64 [N, V], num_ranks, rng) -> for one rank after the other."""


def tracer(accepted: Accepted) -> Tracer:
    """The tracer of a rule, given by the chance of accepting each token at each rank."""

    def trace(
        p: Tensor, q: Tensor, emitted: Tensor, num_ranks: int, rng: torch.Generator
    ) -> Traces:
        rows = max(1, MAX_ELEMENTS.get(p.device.type, MAX_ELEMENTS["cuda"]) // p.shape[-1])
        parts = zip(p.split(rows), q.split(rows), emitted.split(rows), strict=True)
        chunks = [_chunk(accepted, *part, num_ranks, rng) for part in parts]
        return Traces(*(torch.cat(part).float() for part in zip(*chunks, strict=True)))

    return trace


def drawn(weights: Tensor, rng: torch.Generator) -> Tensor:
    """One index a row with probability proportional to `weights` [N, V]; int64 [N, 1].

    A row without any weight (nothing can be rejected there) gives an arbitrary index: what follows
    in such a row is multiplied by a survival of zero.
    """
    cumulative = weights.cumsum(-1)
    height = torch.rand(
        (len(weights), 1), dtype=weights.dtype, device=weights.device, generator=rng
    )
    found = torch.searchsorted(cumulative, height * cumulative[:, -1:], right=True)
    return found.clamp_(max=weights.shape[-1] - 1)


def normalised(weights: Tensor) -> Tensor:
    """Rows summing to 1; rows of zeros stay so."""
    return weights / weights.sum(-1, keepdim=True).clamp_min(TINY)


def exhausted_to_uniform(weights: Tensor, untried: Tensor) -> Tensor:
    """Rows of `weights` [N, V] summing to 1; those without any are uniform where `untried`."""
    total = weights.sum(-1, keepdim=True)
    if bool((total > 0).all()):
        return weights / total
    uniform = untried / untried.sum(-1, keepdim=True).clamp_min(1)
    return torch.where(total > 0, weights / total.clamp_min(TINY), uniform)


def _chunk(
    accepted: Accepted, p: Tensor, q: Tensor, emitted: Tensor, num_ranks: int, rng: torch.Generator
) -> Traces:
    target, draft = normalised(p.double()), normalised(q.double())
    tokens = emitted[:, None]
    p_emitted = target.gather(-1, tokens).clamp_min(TINY)
    expected, given = [], []
    for survival, mass in accepted(target, draft, num_ranks, rng):
        expected.append(survival * mass.sum(-1, keepdim=True))
        given.append(survival * mass.gather(-1, tokens) / p_emitted)
    return Traces(torch.cat(expected, -1), torch.cat(given, -1))
