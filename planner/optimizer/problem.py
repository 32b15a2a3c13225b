"""What every solver is given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..documents.tree import Tree
from ..estimates.law import AcceptanceLaw
from ..estimates.step_costs import StepCosts


@dataclass(frozen=True)
class Estimates:
    """What the profile says about one verifier, at one batch size and context."""

    law: AcceptanceLaw
    """For no more children than the verifier serves."""
    costs: StepCosts


@dataclass(frozen=True)
class Limits:
    """What a proposed tree may not exceed."""

    max_nodes: int
    """Root included."""
    max_depth: int
    """Levels below the root."""


class Solver(Protocol):
    """A way to find promising trees.  Its settings are fields; grading is not its business."""

    def propose(self, estimates: Estimates, limits: Limits) -> list[Tree]:
        """Trees worth grading, within the limits, in a fixed order."""
        ...
