"""Always the likeliest slot next, up to a number of nodes (DySpec, Algorithm 1)."""

from __future__ import annotations

from typing import Literal

from ..documents.counted import counted
from .policy import Policy
from .slot_policy import SlotPolicy, SlotSettings


class GreedyDrafting(SlotSettings):
    """Always the likeliest place next, up to `num_nodes` nodes (DySpec, Algorithm 1)."""

    kind: Literal["dyspec-greedy"] = "dyspec-greedy"

    def words(self) -> str:
        levels = counted(self.max_depth, "level")
        return f"trees of {self.num_nodes} nodes, the likeliest place first, at most {levels}"

    def policy(self, *, deterministic: bool) -> Policy:
        from .compiled.greedy_kernel import advanced

        return SlotPolicy(self, advanced)
