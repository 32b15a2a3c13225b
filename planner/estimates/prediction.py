"""A prediction: the steps that a tree would make on what was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..documents.estimate import Estimate
from ..documents.tree import Tree
from .bootstrap import foreseen


class Reaching(Protocol):
    """The evidence that a prediction is made from."""

    def reach(self, tree: Tree) -> np.ndarray:
        """float64 [n]: expected visits of each node per step."""

    def acceptance_inside(self, tree: Tree) -> np.ndarray:
        """float64 [k]: by rank, where rounds of `tree` come by; see `Prediction`."""


@dataclass(frozen=True)
class Prediction:
    """The steps that a tree would make on the recorded text.  All but the tokens is worked out when
    it is asked for: of most trees nobody asks."""

    tokens_per_step: Estimate
    """Bonus token included; the 95 % interval is that of as many other prompts (`foreseen`)."""
    tree: Tree
    evidence: Reaching

    @property
    def reach(self) -> np.ndarray:
        """float64 [n]: expected visits of each node per step; they sum to tokens_per_step."""
        return self.evidence.reach(self.tree)

    @property
    def acceptance(self) -> np.ndarray:
        """float64 [k]: mean acceptance by rank at the visited nodes that have children (for a lone
        root: everywhere), as if each had all k: the vector that holds inside this tree."""
        return self.evidence.acceptance_inside(self.tree)


def tokens_interval(value: float, samples: np.ndarray, num_prompts: int, tree: Tree) -> Estimate:
    """The estimate for as many other prompts.  A step emits at least one token, and at most one per
    level, root included."""
    most = max(value, float(tree.depth + 1))
    return foreseen(value, samples, num_prompts, least=min(value, 1.0), most=most)
