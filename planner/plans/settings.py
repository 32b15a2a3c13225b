"""The settings that decoding may change between, each with what its steps are expected to be."""

from __future__ import annotations

from functools import cached_property

from pydantic import Field

from ..documents.document import Part
from ..policies import Drafting
from ..policies.chain_policy import MOST_CHANCE, emitted

MOST_TOKENS = 999
"""A chain, however long, whose tokens are accepted with `MOST_CHANCE` emits hardly more."""


class PlanSetting(Part):
    """A way of drafting and verifying, and a step of it where it was profiled."""

    drafting: Drafting
    verifier: str
    tokens_per_step: float = Field(ge=1, le=MOST_TOKENS, description="bonus token included")
    step_ms: float = Field(gt=0)
    depth: float = Field(ge=0, description="levels below the root, on average")
    nodes: float = Field(ge=1, description="verified by a step on average, root included")

    @property
    def speculates(self) -> bool:
        return self.drafting.most_nodes > 1

    @property
    def words(self) -> str:
        """Its drafting and verifier; "none" where nothing is drafted."""
        return f"{self.drafting.words()}, {self.verifier}" if self.speculates else "none"

    @cached_property
    def chain(self) -> tuple[float, int]:
        """The chain that emits as much: the chance of every token, given the one before, and the
        number of tokens; (0, 0) where nothing is drafted.  Trees that grow go as deep as their text
        is well guessed: their chain is as long as they may ever be."""
        if not self.speculates or self.tokens_per_step <= 1:
            return 0.0, 0
        depth = max(self.drafting.max_depth, 1)
        while emitted(MOST_CHANCE, depth) <= self.tokens_per_step:
            depth += 1
        low, high = 0.0, MOST_CHANCE
        for _ in range(40):
            middle = (low + high) / 2
            below = emitted(middle, depth) < self.tokens_per_step
            low, high = (middle, high) if below else (low, middle)
        return low, depth

    def tokens_at(self, factor: float) -> float:
        """Tokens per step where a drafted token's chance of acceptance is `factor` times what it
        was when profiled."""
        chance, depth = self.chain
        return emitted(min(chance * factor, MOST_CHANCE), depth)
