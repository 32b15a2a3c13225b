"""The bound on acceptance: optimal transport between what is drafted and what the target draws."""

from __future__ import annotations

from typing import Self

import numpy as np
from pydantic import Field, model_validator

from .arrays import ROUNDING
from .document import Count, Part, Probability
from .sampling import Sampling


class PromptOptimum(Part):
    """The best acceptance possible at positions of one prompt's continuation, averaged."""

    num_positions: Count
    acceptance: list[Probability] = Field(
        min_length=1, description="by number of children, from 1: P(any of them is accepted)"
    )

    @model_validator(mode="after")
    def _non_decreasing(self) -> Self:
        pairs = zip(self.acceptance, self.acceptance[1:], strict=False)
        for num_children, (fewer, more) in enumerate(pairs, start=1):
            if more < fewer - ROUNDING:
                raise ValueError(
                    f"acceptance non-decreasing in the number of children, not {fewer:g} for "
                    f"{num_children} and {more:g} for {num_children + 1}"
                )
        return self


class OptimalAcceptance(Part):
    """The most that any verifier could accept of children drawn from the draft: optimal transport.

    Every verifier whose children are drawn by the same law accepts at most so much, summed over its
    first ranks, at the same positions.  Where a prompt has `num_positions` = m here and n in
    `acceptance`, these are evenly spaced: floor((2i + 1) n / 2m) for i = 0..m-1, so all if m = n.
    """

    sampling: Sampling
    replacement: bool = Field(
        description="children drawn independently of one another; if not, none twice"
    )
    num_children: Count = Field(description="the most that it was computed for")
    prompts: list[PromptOptimum] = Field(min_length=1)

    @property
    def law(self) -> str:
        """How the children are drawn, in the words of the verifiers that draw them so."""
        return "independent" if self.replacement else "without replacement"

    def mean(self) -> np.ndarray:
        """float64 [num_children]: for 1 child and more, every position weighing the same."""
        weights = [prompt.num_positions for prompt in self.prompts]
        return np.average([p.acceptance for p in self.prompts], axis=0, weights=weights)

    @model_validator(mode="after")
    def _lengths(self) -> Self:
        for index, prompt in enumerate(self.prompts):
            if len(prompt.acceptance) != self.num_children:
                raise ValueError(
                    f"prompts.{index}.acceptance of num_children = {self.num_children} entries, "
                    f"not {len(prompt.acceptance)}"
                )
        return self
