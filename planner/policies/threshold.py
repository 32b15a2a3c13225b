"""Level by level, every slot above a threshold (DySpec, Algorithm 2)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .policy import Policy, Share
from .slot_policy import SlotPolicy, SlotSettings, Told


class ThresholdDrafting(SlotSettings):
    """Level by level, every place likelier than `threshold` (DySpec, Algorithm 2)."""

    kind: Literal["dyspec-threshold"] = "dyspec-threshold"
    threshold: Share = Field(description="a place is filled if it is reached more often than this")

    def words(self) -> str:
        return f"trees of all places likelier than {self.threshold:g}, {self.limits_in_words}"

    def policy(self, *, deterministic: bool) -> Policy:
        return Threshold(self)


class Threshold(SlotPolicy):
    """Fill every slot whose value exceeds the threshold; one draft pass a level.

    Up to `num_nodes` nodes: once there are so many no further slot is filled, and what is filled
    stays.  Within a level the slots of largest value come first, so that the limit cuts the least.
    Without the limit the tree is `Greedy`'s whose last slot is the last one above the threshold.
    """

    def __init__(self, settings: ThresholdDrafting) -> None:
        from .compiled.threshold_kernel import advanced

        super().__init__(settings)
        self._advanced = advanced
        self._threshold = settings.threshold

    def _advance(self, told: Told) -> int:
        return int(self._advanced(self._arrays, told, self._threshold, self._max_depth))
