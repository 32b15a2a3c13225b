"""Acceptance by rank at every position of a text, without ever flipping the accept coin.

For one position with target distribution p, draft distribution q and emitted token y, write a_r for
P(the child of rank r is accepted) and a_r(y) for the part of it in which that child is y.  A tracer
returns, for N positions at once,

    expected  float32 [N, num_ranks]   a_r
    emitted   float32 [N, num_ranks]   a_r(y) / p(y) = P(rank r was accepted | y was emitted)

The second is what a walk along an emitted text needs: given the text, it says with which
probability a tree's child of rank r carried it on.  Rejections are drawn from their exact law
instead of counted (a Rao-Blackwell estimate): rank 0 has no noise at all, and one rejection path
at each position is enough, since positions differ far more than paths do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch


class Traces(NamedTuple):
    """float32 [N, num_ranks] each; rows of `emitted` and `expected` sum to at most 1."""

    expected: torch.Tensor
    emitted: torch.Tensor


Tracer = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, int, torch.Generator], Traces]

MAX_ELEMENTS = 1 << 22
"""Positions are traced in chunks of so many probabilities: some 32 MiB a tensor in float64."""


def trace_topk(
    p: torch.Tensor, q: torch.Tensor, emitted: torch.Tensor, num_ranks: int, rng: torch.Generator
) -> Traces:
    """Children: the most probable under q; the target samples.  Exact.

    p, q     float [N, V]
    emitted  int64 [N]
    """
    children = q.topk(num_ranks, dim=-1).indices
    return Traces(p.gather(-1, children).float(), (children == emitted[:, None]).float())


def trace_rrsw(
    p: torch.Tensor, q: torch.Tensor, emitted: torch.Tensor, num_ranks: int, rng: torch.Generator
) -> Traces:
    """Recursive rejection without replacement (Sequoia, Algorithm 1), rejection-conditional.

    Given that the first r children were rejected, rank r is accepted as token x with probability
    min(R, D)(x), and the token rejected next is distributed as (D - R)+: no accept event is ever
    sampled, only which tokens were rejected.
    """
    rows = max(1, MAX_ELEMENTS // p.shape[-1])
    chunks = [
        _rejection_path(*part, num_ranks, rng)
        for part in zip(p.split(rows), q.split(rows), emitted.split(rows), strict=True)
    ]
    return Traces(*(torch.cat(part).float() for part in zip(*chunks, strict=True)))


def _rejection_path(
    p: torch.Tensor, q: torch.Tensor, emitted: torch.Tensor, num_ranks: int, rng: torch.Generator
) -> Traces:
    residual, draft = p.double(), q.double()
    untried = torch.ones_like(q, dtype=torch.bool)
    survival = torch.ones(len(p), dtype=torch.float64, device=p.device)
    emitted = emitted[:, None]
    p_emitted = residual.gather(-1, emitted)[:, 0].clamp_min(torch.finfo(torch.float64).tiny)
    expected, given_emitted = [], []
    for _ in range(num_ranks):
        overlap = torch.minimum(residual, draft)
        expected.append(survival * overlap.sum(-1))
        given_emitted.append(survival * overlap.gather(-1, emitted)[:, 0] / p_emitted)
        excess = (draft - residual).clamp_min(0)
        rejection = excess.sum(-1)
        survival = survival * rejection
        rejected = _draw(excess, rng)
        residual = _normalised((residual - draft).clamp_min(0))
        untried = untried.scatter(-1, rejected, False)
        draft = _exhausted_to_uniform(draft * untried, untried)
    return Traces(torch.stack(expected, -1), torch.stack(given_emitted, -1))


def _draw(weights: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """One index per row with probability proportional to `weights` [N, V]; int64 [N, 1].

    A row without any weight (nothing can be rejected there) gives an arbitrary index: what follows
    in such a row is multiplied by a survival of zero.
    """
    noise = torch.empty_like(weights).exponential_(generator=rng)
    return (weights / noise).argmax(-1, keepdim=True)


def _normalised(weights: torch.Tensor) -> torch.Tensor:
    return weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)


def _exhausted_to_uniform(weights: torch.Tensor, untried: torch.Tensor) -> torch.Tensor:
    total = weights.sum(-1, keepdim=True)
    uniform = untried / untried.sum(-1, keepdim=True).clamp_min(1)
    return torch.where(total > 0, weights / total.clamp_min(torch.finfo(total.dtype).tiny), uniform)


TRACERS: dict[str, Tracer] = {"rrsw": trace_rrsw, "topk": trace_topk}
