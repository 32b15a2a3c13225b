"""Always the likeliest slot next, up to a number of nodes (DySpec, Algorithm 1)."""

from __future__ import annotations

from typing import Literal

from ..documents.counted import counted
from .policy import Policy
from .slot_policy import SlotPolicy, SlotSettings, Told


class GreedyDrafting(SlotSettings):
    """Always the likeliest place next, up to `num_nodes` nodes (DySpec, Algorithm 1)."""

    kind: Literal["dyspec-greedy"] = "dyspec-greedy"

    def words(self) -> str:
        levels = counted(self.max_depth, "level")
        return f"trees of {self.num_nodes} nodes, the likeliest place first, at most {levels}"

    def policy(self, *, deterministic: bool) -> Policy:
        return Greedy(self)


class Greedy(SlotPolicy):
    """Fill the slot of largest value again and again, until the tree has `num_nodes` nodes.

    The draft is evaluated lazily and in batches.  When the next slot lies below a node that is not
    expanded, others are expanded in the same pass: those whose slots can still be filled, being
    among the m largest where m nodes are left, and are likely to be.  As filling a slot hands its
    whole value on, h slots of total value S become h + m slots of that total, none of which
    exceeds the last one filled: below S / (h + m) nothing is filled, but for value that is lost at
    the limits of depth and children.  Which nodes share a pass changes no tree: evaluating a node
    fills no slot.
    """

    def __init__(self, settings: GreedyDrafting) -> None:
        from .compiled.greedy_kernel import advanced

        super().__init__(settings)
        self._advanced = advanced

    def _advance(self, told: Told) -> int:
        return int(self._advanced(self._arrays, told, self._max_depth))
