"""Rules whose acceptance depends on how many siblings there are: one number after the other.

For each number of children from one to `num_ranks`, and each rank below it, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from .base import TINY, Rank

MOST_SIBLINGS = 8
"""Of K-sequential selection: the columns grow with the square of the number of children."""

BISECTIONS = 36
"""Of an interval of length 7, down to 1e-10: finer than the traces are kept."""


def kseq(p: Tensor, q: Tensor, num_ranks: int, rng: torch.Generator) -> Iterator[Rank]:
    """K-sequential selection (SpecTr, Algorithm 3): child r is accepted as x by min(q, p / g)(x).

    All children before it are rejected with probability (1 - b)^r, b = sum min(q, p / g); the
    factor g depends on the number of children.
    """
    most = min(num_ranks, MOST_SIBLINGS)
    factors = _Excess(p, q).factors(most)
    for count in range(1, most + 1):
        mass = torch.minimum(q, p / factors[:, count - 1 : count])
        rejected = (q - mass).sum(-1, keepdim=True)
        survival = torch.ones_like(rejected)
        for _ in range(count):
            yield survival, mass
            survival = survival * rejected


def spechub(p: Tensor, q: Tensor, num_ranks: int, rng: torch.Generator) -> Iterator[Rank]:
    """The hub coupling; names and derivation as in `runtime.verifiers.spechub`.

    A lone child is a chain's.  Of two, the first is accepted as x by f(x), as the hub by A1; the
    second as x by s(x), as the hub by A2.
    """
    certain = torch.ones_like(p[:, :1])
    yield certain, torch.minimum(p, q)
    if num_ranks == 1:
        return
    hub = q.argmax(-1, keepdim=True)
    of_hub = p.gather(-1, hub)
    wanted, first_mass = p.scatter(-1, hub, 0.0), q.scatter(-1, hub, 0.0)
    even = torch.ones_like(q).scatter_(-1, hub, 0.0)
    beside = first_mass.sum(-1, keepdim=True)
    others = torch.where(beside > 0, first_mass, even)
    second_mass = q.gather(-1, hub) * others / others.sum(-1, keepdim=True)
    as_first = torch.minimum(wanted, first_mass)
    as_second = torch.minimum(wanted - as_first, second_mass)
    hub_first = torch.minimum(of_hub, (second_mass - as_second).sum(-1, keepdim=True))
    left_of_first = (first_mass - as_first).sum(-1, keepdim=True)
    hub_second = torch.minimum(of_hub - hub_first, left_of_first)
    yield certain, as_first.scatter_(-1, hub, hub_first)
    yield certain, as_second.scatter_(-1, hub, hub_second)


class _Excess:
    """Sums of positive parts of q - p / g and p - g q, for any g a row, after one sort by p / q."""

    def __init__(self, p: Tensor, q: Tensor) -> None:
        ratio = torch.where(q > 0, p / q.clamp_min(TINY), torch.inf)
        self._ratio, order = ratio.sort(-1)
        zero = torch.zeros_like(p[:, :1])
        p, q = p.gather(-1, order), q.gather(-1, order)
        self._p_below = torch.cat((zero, p.cumsum(-1)), -1)
        self._q_below = torch.cat((zero, q.cumsum(-1)), -1)
        self._p_above = torch.cat((p.flip(-1).cumsum(-1).flip(-1), zero), -1)
        self._q_above = torch.cat((q.flip(-1).cumsum(-1).flip(-1), zero), -1)

    def factors(self, most: int) -> Tensor:
        """float64 [N, most]: for k = 1 .. most the least g in [1, k] with 1 - (1 - b)^k <= g b."""
        counts = torch.arange(1, most + 1, dtype=self._ratio.dtype, device=self._ratio.device)
        low = torch.ones_like(self._ratio[:, :1]).repeat(1, most)
        high = torch.where(self._within(low, counts), low, counts)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            within = self._within(middle, counts)
            low, high = torch.where(within, low, middle), torch.where(within, middle, high)
        return high

    def _within(self, factors: Tensor, counts: Tensor) -> Tensor:
        place = torch.searchsorted(self._ratio, factors, right=True)  # p <= g q before it
        rejected = self._q_below.gather(-1, place) - self._p_below.gather(-1, place) / factors
        lack = self._p_above.gather(-1, place) - factors * self._q_above.gather(-1, place)
        return lack.clamp_min(0) <= rejected.clamp_min(0) ** counts
