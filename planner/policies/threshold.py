"""Level by level, every slot above a threshold (DySpec, Algorithm 2)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .policy import Policy, Share
from .slot_policy import SlotPolicy, SlotSettings


class ThresholdDrafting(SlotSettings):
    """Level by level, every place likelier than `threshold` (DySpec, Algorithm 2)."""

    kind: Literal["dyspec-threshold"] = "dyspec-threshold"
    threshold: Share = Field(description="a place is filled if it is reached more often than this")

    def words(self) -> str:
        return f"trees of all places likelier than {self.threshold:g}, {self.limits_in_words}"

    def policy(self, *, deterministic: bool) -> Policy:
        from .compiled.threshold_kernel import advanced

        return SlotPolicy(self, advanced, self.threshold)
