"""The rule whose children follow from the draft's distribution without any chance."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from .base import Random
from .independent import Naive


@dataclass(frozen=True)
class MostProbable(Naive):
    """The draft's most probable tokens, verified like `Naive` by sampling the target first."""

    name: str = "topk"

    def sample(self, q: Tensor, k: int, rng: Random) -> Tensor:
        return q.topk(k, dim=-1).indices
