"""What is a tree worth?  Every candidate is graded here, by the same two questions.

Tokens per step (from the recorded acceptance) over milliseconds per step (from the cost tables).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..plan import Estimate, Predicted
from ..tree import Tree
from .acceptance import Evidence
from .cost import StepCosts, speedup


@dataclass(frozen=True)
class Candidate:
    """A tree under a verifier, graded."""

    solver: str
    verifier: str
    tree: Tree
    tokens_per_step: Estimate
    step_ms: Estimate
    autoregressive_ms: Estimate
    speedup: Estimate
    acceptance: np.ndarray
    """float64 [k]: by rank, as it holds inside this tree."""
    reach: np.ndarray
    """float64 [n]: expected visits of each node per step."""

    @property
    def tokens_per_ms(self) -> float:
        """What candidates are chosen by."""
        return self.tokens_per_step.value / self.step_ms.value

    @property
    def predicted(self) -> Predicted:
        """As a plan carries it."""
        return Predicted(
            tokens_per_step=self.tokens_per_step,
            step_ms=self.step_ms,
            autoregressive_ms=self.autoregressive_ms,
            speedup=self.speedup,
            acceptance=self.acceptance.tolist(),
            reach=self.reach.tolist(),
        )


def grade(
    tree: Tree,
    evidence: Evidence,
    costs: StepCosts,
    *,
    solver: str = "",
    verifier: str = "",
) -> Candidate:
    """What `tree` would emit and cost, `evidence` being what was recorded of its verifier.

    Raises PlannerError if the tree is larger, wider or bushier than what was measured.
    """
    prediction = evidence.predict(tree)
    step = costs.step(tree)
    gain = Estimate(value=1.0, low=1.0, high=1.0)  # a lone root is autoregressive decoding itself
    if tree.num_nodes > 1:
        gain = speedup(prediction.tokens_per_step, step, costs.autoregressive)
    return Candidate(
        solver=solver,
        verifier=verifier,
        tree=tree,
        tokens_per_step=prediction.tokens_per_step,
        step_ms=step.estimate,
        autoregressive_ms=costs.autoregressive.estimate,
        speedup=gain,
        acceptance=prediction.acceptance,
        reach=prediction.reach,
    )
