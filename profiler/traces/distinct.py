"""Rules whose children are drawn without replacement: along one path of rejected tokens each."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from .base import (
    TINY,
    Rank,
    drawn,
    exhausted_to_uniform,
)

SWEEPS = 8
"""As in `runtime.verifiers.distinct`."""


def rrsw(p: Tensor, q: Tensor, num_ranks: int, rng: torch.Generator) -> Iterator[Rank]:
    """Recursive rejection (Sequoia, Algorithm 1).

    Given that the first r children were rejected, rank r is accepted as token x with probability
    min(R, D)(x), and the token rejected next is distributed as (D - R)+.
    """
    residual, draft = p, q
    untried = torch.ones_like(q, dtype=torch.bool)
    survival = torch.ones_like(p[:, :1])
    for rank in range(num_ranks):
        yield survival, torch.minimum(residual, draft)
        if rank + 1 == num_ranks:
            return
        difference = draft - residual
        gone = drawn(difference.clamp(min=0), rng)
        residual, survival = _left(difference.neg_().clamp_(min=0), survival)
        untried.scatter_(-1, gone, False)
        draft = exhausted_to_uniform(draft.scatter(-1, gone, 0.0), untried)


def lookahead(p: Tensor, q: Tensor, num_ranks: int, rng: torch.Generator) -> Iterator[Rank]:
    """Pair look-ahead rejection; names and derivation as in `runtime.verifiers.distinct`.

    Given that all earlier pairs were rejected, the first of a pair is accepted as x with
    probability min(R, D)(x), the second with D(x) take(x) Z.  Of a rejected pair the first is
    distributed as e - A give K, then the second as D (1 - give(first) take), the first left out.
    """
    residual, draft = p, q
    untried = torch.ones_like(q, dtype=torch.bool)
    survival = torch.ones_like(p[:, :1])
    for rank in range(0, num_ranks, 2):
        yield survival, torch.minimum(residual, draft)
        if rank + 1 == num_ranks:
            return
        excess = (draft - residual).clamp_(min=0)
        lack = (residual - draft).clamp_(min=0)
        giving, following = _pair_law(draft, excess, untried)
        handed, taken, sum_handed, sum_taken = _water_fill(giving, following, excess, lack)
        second = taken * sum_handed
        yield survival, second
        if rank + 2 == num_ranks:
            return
        first_gone = drawn((excess - handed * sum_taken).clamp_(min=0), rng)
        give = handed.gather(-1, first_gone) / giving.gather(-1, first_gone).clamp_min(TINY)
        partner = (following - give * taken).clamp_(min=0).scatter_(-1, first_gone, 0.0)
        second_gone = drawn(partner, rng)
        residual, survival = _left((lack - second).clamp_(min=0), survival)
        both = torch.cat((first_gone, second_gone), -1)
        untried.scatter_(-1, both, False)
        draft = exhausted_to_uniform(draft.scatter(-1, both, 0.0), untried)


def _left(residual: Tensor, survival: Tensor) -> Rank:
    """The residual normalised (in place), and the chance to come so far."""
    left = residual.sum(-1, keepdim=True)
    residual /= left.clamp_min(TINY)
    return residual, survival * left


def _pair_law(draft: Tensor, excess: Tensor, untried: Tensor) -> tuple[Tensor, Tensor]:
    """A, zero where nothing is rejected, and the law of the second."""
    top = draft.argmax(-1, keepdim=True)
    others = draft.scatter(-1, top, 0.0)
    beside = others.sum(-1, keepdim=True)  # 1 - D(top), without the cancellation
    alone = beside <= 0
    after = (1 - draft).scatter_(-1, top, torch.where(alone, draft.gather(-1, top), beside))
    giving = draft / after.clamp_(min=TINY)
    giving.masked_fill_(excess <= 0, 0)
    if not bool(alone.any()):
        return giving, draft
    even = untried.to(draft.dtype).scatter_(-1, top, 0.0)
    even /= even.sum(-1, keepdim=True).clamp_min(1)
    return giving, torch.where(alone, even, draft)


def _water_fill(
    giving: Tensor, following: Tensor, excess: Tensor, lack: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(A give, D take, Z, K), float64 [N, V] and [N, 1]; Z K = 0 where nothing can be handed on.

    All sweeps but the last are in single precision, and they stop once they change nothing that it
    shows: K comes out within some 1e-6 of itself, and as K falls from sweep to sweep, Z K and the
    mass of the rejected stay within their bounds to the same precision.
    """
    rough = (giving.float(), following.float(), excess.float(), lack.float())
    rough_taken = torch.ones_like(rough[0][:, :1])
    for _ in range(SWEEPS - 1):
        before = rough_taken
        _, _, _, rough_taken = _sweep(*rough, before)
        if bool((before - rough_taken <= 1e-6 * before).all()):
            break
    return _sweep(giving, following, excess, lack, rough_taken.double())


def _sweep(
    giving: Tensor, following: Tensor, excess: Tensor, lack: Tensor, sum_taken: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    tiny = torch.finfo(excess.dtype).tiny
    handed = excess / sum_taken.clamp_min(tiny)
    sum_handed = torch.minimum(giving, handed, out=handed).sum(-1, keepdim=True)
    taken = lack / sum_handed.clamp_min(tiny)
    sum_taken = torch.minimum(following, taken, out=taken).sum(-1, keepdim=True)
    return handed, taken, sum_handed, sum_taken
