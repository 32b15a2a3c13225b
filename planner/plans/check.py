"""The check: what an engine made of a plan, beside what the plan had promised for it."""

from __future__ import annotations

from math import hypot, log
from typing import Literal

from pydantic import Field

from ..documents.document import Count, Document, Part
from ..documents.engine import EngineFacts
from ..documents.estimate import Estimate
from ..documents.origin import Machine
from ..policies import Drafting
from .plan import Plan

Role = Literal["plain", "plan", "neighbour", "default"]


class EngineRun(Part):
    """One setting of the engine over all prompts, decoded in turns with the others."""

    role: Role
    setting: str = Field(description="as the engine is told it")
    drafting: Drafting | None = Field(default=None, description="the same in our terms")
    tokens_per_step: Estimate = Field(description="bonus included; 95 % interval over prompts")
    step_ms: float = Field(gt=0)
    ms_per_token: float = Field(gt=0)
    cpu_ms_per_token: float | None = Field(
        default=None, description="of all of its threads, where the system tells"
    )
    speedup: Estimate = Field(description="against plain decoding, by time per token")
    num_same: int | None = Field(
        default=None, description="greedy texts that are those of plain decoding, where compared"
    )


class Check(Document):
    """Measurements of an engine without speculation, with a plan's setting, and with others."""

    format: Literal["check"] = "check"
    version: Literal[1] = 1
    created: str
    plan: Plan
    plan_sha256: str
    engine: EngineFacts
    machine: Machine
    seed: int
    num_prompts: Count
    num_tokens: Count = Field(description="of every continuation")
    num_greedy: int = Field(ge=0, description="greedy texts compared with plain decoding's")
    runs: list[EngineRun] = Field(min_length=2, description="plain decoding first, then the plan")

    @property
    def plain(self) -> EngineRun:
        return self.runs[0]

    @property
    def planned(self) -> EngineRun:
        return self.runs[1]

    @property
    def best(self) -> EngineRun:
        """The fastest of all that was tried."""
        return min(self.runs, key=lambda run: run.ms_per_token)

    @property
    def faults(self) -> list[str]:
        """Promises of the plan that the engine did not keep, a line each; empty: it holds.

        A prediction is broken where it differs from the measurement by more than both intervals
        together allow: by more than the root of the sum of their half widths' squares.  That is
        lenient: a promise's interval allows for the luck of a run already.
        """
        predicted, run, found = self.plan.predicted, self.planned, []
        if predicted is not None:
            found += [
                f"{what}: predicted {promise}, measured {measured}"
                for what, promise, measured in (
                    ("tokens per step", predicted.tokens_per_step, run.tokens_per_step),
                    ("speedup", predicted.speedup, run.speedup),
                )
                if differ(promise, measured)
            ]
        if run.speedup.high < 1:
            found.append(f"slower than without speculation: {run.speedup}")
        if run.num_same is not None and run.num_same < self.num_greedy:
            found.append(
                f"greedy text: {run.num_same} of {self.num_greedy} as without speculation, "
                "expected all (numbers that round differently in larger passes can do that, "
                "too: try a wider type)"
            )
        return found


def differ(one: Estimate, other: Estimate) -> bool:
    """Do two estimates differ by more than both intervals together allow?"""
    low, high = sorted((one, other), key=lambda each: each.value)
    return log(high.value / low.value) > hypot(
        log(low.high / low.value), log(high.value / high.low)
    )
