"""Every random decision of the runtime, behind four primitives.

The decode loop and the verifiers never touch a generator: they ask a `Source`.  The real one,
`TorchSource`, draws fresh noise at every call; another may walk through all outcomes one by one,
and so compute the exact law of anything built on these primitives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from math import prod

import torch
from torch import Tensor

from planner.documents.document import PlannerError
from planner.verifiers.verifier import Source, source_of
from tree_kernels import reference
from tree_kernels.backend import unavailable
from tree_kernels.launches import inverted, race_speeds
from tree_kernels.successive import by_inversion, by_race

__all__ = ["BLOCK", "Source", "TorchSource", "seeded_source", "source_of"]

BLOCK = 64
"""Uniform numbers fetched at once for `accept`: one transfer from a GPU serves that many."""
POOL = 4096
"""Numbers that one launch on a GPU makes, and that are then given out one after the other."""


@dataclass
class TorchSource:
    """The real source: fresh float64 noise on every call, from one generator.

    The same seed gives the same tokens on the same device.  float64 because single-precision
    noise has a smallest step of 2^-24: a large vocabulary's tail then starves or floods.
    """

    generator: torch.Generator
    _coins: list[float] = field(default_factory=list, repr=False)
    _seeds: Tensor = field(default_factory=partial(torch.empty, 0), repr=False)
    _uniforms: Tensor = field(default_factory=partial(torch.empty, 0), repr=False)

    def categorical(self, probs: Tensor) -> Tensor:
        """Tokens drawn by inversion of the cumulative sum."""
        return self.with_replacement(probs, 1).squeeze(-1)

    def with_replacement(self, probs: Tensor, k: int) -> Tensor:
        """Tokens drawn by inversion of the cumulative sum; V where the sum is no number above 0."""
        served = probs.dtype in (torch.float32, torch.float64) and has_kernels(probs.device)
        invert = inverted if served else reference.inverted
        return invert(probs, self.uniforms((*probs.shape[:-1], k), probs.device))

    def without_replacement(self, probs: Tensor, k: int) -> Tensor:
        """Different tokens: by inversion on a CPU, elsewhere by a race."""
        if probs.device.type == "cpu":
            drawn = by_inversion(probs, self.uniforms((len(probs), k), probs.device))
            if drawn.numel() and int(drawn.min()) < 0:
                raise PlannerError(
                    "draft: got probabilities that are no numbers, expected finite ones: its "
                    "logits overflow; load it in another dtype, such as float32"
                )
            return drawn
        if probs.dtype == torch.float32 and has_kernels(probs.device):
            return self.by_kernel(probs, k)
        if k == 1:
            return self.with_replacement(probs, 1)
        return by_race(probs, self.uniforms(probs.shape, probs.device), k)

    def by_kernel(self, probs: Tensor, k: int) -> Tensor:
        """`by_race`, its random numbers made where they are needed; probs float32 [w, V]."""
        number = len(probs)
        if len(self._seeds) < number:
            many = max(POOL, number)
            self._seeds = torch.randint(
                2**62, (many,), device=probs.device, generator=self.generator
            )
        seeds, self._seeds = self._seeds[:number], self._seeds[number:]
        speeds = race_speeds(probs, seeds)
        return speeds.argmax(-1, keepdim=True) if k == 1 else speeds.topk(k, dim=-1).indices

    def accept(self, share: float, total: float) -> bool:
        if not self._coins:
            device = self.generator.device
            self._coins = self.uniforms((BLOCK,), device).tolist()
        return self._coins.pop() * total < share

    def uniforms(self, shape: tuple[int, ...], device: torch.device) -> Tensor:
        """float64 in [0, 1), as many as `shape` says, each given out once."""
        if device.type == "cpu" or prod(shape) > POOL:
            return torch.rand(shape, dtype=torch.float64, device=device, generator=self.generator)
        return self.pooled(shape, device)

    def pooled(self, shape: tuple[int, ...], device: torch.device) -> Tensor:
        """`uniforms`, of which one launch makes many."""
        number = prod(shape)
        if len(self._uniforms) < number:
            self._uniforms = torch.rand(
                POOL, dtype=torch.float64, device=device, generator=self.generator
            )
        taken, self._uniforms = self._uniforms[:number], self._uniforms[number:]
        return taken.view(shape)


def has_kernels(device: torch.device) -> bool:
    """Is it a GPU that our kernels run on?"""
    return device.type != "cpu" and unavailable(device) is None


@source_of.register
def _(rng: torch.Generator) -> Source:
    """Verifiers take a bare generator as well."""
    return TorchSource(rng)


def seeded_source(seed: int, device: torch.device) -> TorchSource:
    """A source on `device` whose every decision follows from `seed`, as `checked_seed` wants it."""
    return TorchSource(torch.Generator(device).manual_seed(checked_seed(seed)))


def checked_seed(seed: int) -> int:
    """`seed` as it is.  Raises PlannerError for one outside [0, 2^63)."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise PlannerError(f"seed: got {seed!r}, expected an integer from 0 to 2^63 - 1")
    return seed
