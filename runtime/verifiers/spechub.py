"""SpecHub: two children, one of which is always the draft's most probable token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..randomness import source_of
from .base import (
    Random,
    Rule,
    normalised,
    sampled,
)
from .independent import Chain


@dataclass(frozen=True)
class SpecHub(Rule):
    """The hub coupling (Sun et al. 2024, section 4; Algorithm 3 as mended).

    With a = argmax q:  x1 ~ q;  if x1 is not a, x2 = a, else x2 ~ q without a.  So the pair (x, a)
    has mass q(x), and (a, x) has Q(x) = q(a) q(x) / (sum of q without a).

        of (x, a)  x is accepted on f(x) = min(p(x), q(x)),
        of (a, x)  x is accepted on s(x) = min(p(x) - f(x), Q(x));
        what is left of the pairs (a, x) gives A1 = min(p(a), sum of Q - s) to a,
        what is left of the pairs (x, a) gives A2 = p(a) - A1 to a.

    Left to be sampled is p(x) - f(x) - s(x), and nothing of a.  A lone child is a chain's.
    """

    name: str = "spechub"

    def sample(self, q: Tensor, k: int, rng: Random) -> Tensor:
        rng = source_of(rng)
        if k == 1:
            return rng.with_replacement(q, 1)
        hub = q.argmax(-1, keepdim=True)
        first = rng.categorical(q)[..., None]
        partner = rng.categorical(_others(q, hub))[..., None]
        return torch.cat((first, torch.where(first == hub, partner, hub)), dim=-1)

    def verify(self, p: Tensor, q: Tensor, drafts: Tensor, rng: Random) -> tuple[int, int]:
        if len(drafts) < 2:
            return Chain().verify(p, q, drafts, rng)
        rng = source_of(rng)
        wanted, first_mass = normalised(p), normalised(q)
        hub = int(q.argmax())
        of_hub = float(wanted[hub])
        others = _others(first_mass, torch.tensor([hub], device=q.device))
        second_mass = float(first_mass[hub]) * others / others.sum()
        first_mass[hub] = wanted[hub] = 0
        as_first = torch.minimum(wanted, first_mass)
        as_second = torch.minimum(wanted - as_first, second_mass)
        left_of_second = float((second_mass - as_second).sum())
        left_of_first = float((first_mass - as_first).sum())
        hub_first = min(of_hub, left_of_second)
        hub_second = min(of_hub - hub_first, left_of_first)
        one, two = drafts.tolist()
        if one == hub:
            if rng.accept(float(as_second[two]), float(second_mass[two])):
                return 1, two
            if rng.accept(hub_first, left_of_second):
                return 0, one
        else:
            if rng.accept(float(as_first[one]), float(first_mass[one])):
                return 0, one
            if rng.accept(hub_second, left_of_first):
                return 1, two
        residual = (wanted - as_first - as_second).clamp_(min=0)
        if float(residual.sum()) > 0:
            return -1, sampled(residual, rng)
        return -1, sampled(p, rng)  # reached by rounding alone


def _others(q: Tensor, hub: Tensor) -> Tensor:
    """q without the hub; even over all other tokens where nothing is left of it."""
    rest = q.scatter(-1, hub, 0.0)
    even = torch.ones_like(q).scatter(-1, hub, 0.0)
    return torch.where(rest.sum(-1, keepdim=True) > 0, rest, even)
