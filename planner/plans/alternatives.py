"""Alternatives that a plan was better than: the best of each verifier and of each solver."""

from __future__ import annotations

from pydantic import Field

from ..documents.document import Part
from ..documents.estimate import Estimate


class Comparison(Part):
    """One plan against another: ratios with their 95 % intervals.

    Both are predicted on the same texts and from the same times, so that what is uncertain of both
    alike drops out: the intervals are narrower than the plans' own suggest.
    """

    tokens_per_step: Estimate
    step_ms: Estimate
    speed: Estimate = Field(description="tokens per millisecond")

    @property
    def could_be_chance(self) -> bool:
        """Does the interval of the speeds' ratio contain 1?"""
        return self.speed.low <= 1 <= self.speed.high


class Alternative(Part):
    """A way of drafting that was graded beside the plan's."""

    verifier: str
    solver: str = Field(description="'none' for not to speculate")
    grows: bool = Field(description="is every step's tree decided on while it is drafted?")
    nodes: float = Field(ge=1, description="verified by a step on average, root included")
    depth: float = Field(ge=0, description="levels below the root on average")
    tokens_per_step: Estimate
    step_ms: Estimate
    speedup: Estimate
    plan_against_it: Comparison | None = Field(
        default=None, description="the plan's numbers over these; absent for the plan itself"
    )

    @property
    def speculates(self) -> bool:
        """Is anything drafted at all?"""
        return self.nodes > 1
