"""The report: what a decoding run measured, beside what its plan had predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from ..documents.document import Count, Document, Part
from ..documents.estimate import Estimate
from ..documents.origin import Execution, Machine, ModelInfo
from .plan import NonNegative, Plan
from .step_tree import StepTree


class PhaseTimes(Part):
    """Wall time by phase of the loop, summed over all steps."""

    prefill_ms: float = Field(ge=0, description="both models reading the prompt")
    draft_ms: float = Field(ge=0)
    verify_ms: float = Field(ge=0)
    accept_ms: float = Field(ge=0, description="acceptance walk, cache keeping, bookkeeping")


class FollowedSteps(Part):
    """The settings of a continuation's steps, and what was believed behind each; see `Followed`."""

    settings: list[int] = Field(description="by its place in the plan's table")
    factors: list[float]
    chances: list[float]


class Continuation(Part):
    """One prompt's continuation."""

    num_prompt_tokens: int = Field(ge=1)
    tokens: list[int] = Field(description="new tokens only")
    text: str | None = None
    tokens_by_step: list[int] = Field(description="tokens emitted by each step, bonus included")
    decode_ms: float = Field(ge=0, description="wall time after the prompt was read")
    ms_by_step: list[NonNegative] | None = Field(
        default=None, description="that time by step, in whole microseconds"
    )
    followed: FollowedSteps | None = Field(
        default=None,
        description="absent where the plan was carried out to the letter, or several prompts "
        "decoded together",
    )

    @model_validator(mode="after")
    def _a_time_each(self) -> Self:
        if self.ms_by_step is not None and len(self.ms_by_step) != len(self.tokens_by_step):
            raise ValueError(
                f"ms_by_step of {len(self.tokens_by_step)} entries, one a step, not "
                f"{len(self.ms_by_step)}"
            )
        return self


class Measured(Part):
    """Totals over all continuations."""

    num_tokens: int = Field(ge=0)
    num_steps: int = Field(ge=0, description="draft-and-verify rounds = target passes")
    num_draft_passes: int = Field(ge=0)
    num_drafted: int = Field(ge=0, description="draft tokens verified")
    num_accepted: int = Field(ge=0, description="draft tokens accepted")
    tokens_per_step: float = Field(ge=0, description="bonus included (mean acceptance length)")
    draft_acceptance_rate: float = Field(ge=0, le=1, description="num_accepted / num_drafted")
    ms_per_token: float = Field(
        ge=0, description="of steps in which no prompt was read, unless one was in every step"
    )
    phases: PhaseTimes
    steps_by_nodes: list[int] | None = Field(
        default=None, description="entry n: steps that verified n nodes, root included"
    )
    steps_by_depth: list[int] | None = Field(
        default=None, description="entry d: steps whose tree had d levels below the root"
    )

    @property
    def discard_rate(self) -> float:
        """Draft tokens verified and thrown away, per token emitted: N_discarded / N (SpecDec++)."""
        return (self.num_drafted - self.num_accepted) / max(self.num_tokens, 1)

    @property
    def verification_rate(self) -> float:
        """Target passes per token emitted: N_target / N (SpecDec++)."""
        return self.num_steps / max(self.num_tokens, 1)


class Followed(Part):
    """The changes of settings while decoding, and what was believed at its end."""

    steps: list[int] = Field(
        min_length=1, description="of every setting of the plan's table, in its order"
    )
    factor: float = Field(gt=0, description="a step's time over the planned one, same setting")
    chance: float = Field(
        gt=0, description="a drafted token's chance of acceptance over the planned one"
    )
    looked_ms: float = Field(
        default=0.0, ge=0, description="believed to be lost by looking at other settings"
    )


class SharedSteps(Part):
    """The steps of one setting that so many requests took together, no prompt being read."""

    num_rows: Count
    setting: int = Field(ge=0, description="0: the plan's own; n: the n-th of its by_batch")
    followed: int | None = Field(
        default=None,
        ge=0,
        description="its place in the table there; absent where the plan was carried out to the "
        "letter",
    )
    num_steps: Count
    num_tokens: int = Field(ge=0, description="of all requests")
    total_ms: float = Field(ge=0)


class FollowedTogether(Followed):
    """The same of the steps that so many requests took together, or more than half as many."""

    num_rows: Count = Field(description="the most")
    setting: int = Field(ge=0, description="whose table it is, as in the steps")


class Together(Part):
    """The requests that decoded together, their shared steps, and how long all of it took."""

    batch_size: Count = Field(description="most requests at a time")
    total_ms: float = Field(ge=0, description="wall time, the reading of prompts included")
    baseline_ms: float | None = Field(
        default=None, description="the same of autoregressive decoding, as many at a time"
    )
    steps: list[SharedSteps]
    followed: list[FollowedTogether] = Field(
        default=[], description="empty where the plan was carried out to the letter"
    )


class Baseline(Part):
    """Autoregressive decoding of the same prompts by the same target in the same run."""

    num_tokens: int = Field(ge=0)
    ms_per_token: float = Field(gt=0, description="likewise")
    speedup: Estimate = Field(description="measured; 95 % interval over prompts")


class Report(Document):
    """The measurements that were made while the plan was carried out."""

    format: Literal["report"] = "report"
    version: Literal[1] = 1
    created: str
    plan: Plan
    plan_sha256: str
    seed: int
    machine: Machine
    execution: Execution
    target: ModelInfo
    draft: ModelInfo | None = None
    measured: Measured
    baseline: Baseline | None = None
    followed: Followed | None = Field(
        default=None,
        description="absent where the plan was carried out to the letter, or several prompts "
        "decoded together",
    )
    together: Together | None = Field(
        default=None, description="absent where one prompt was decoded at a time"
    )
    continuations: list[Continuation] = Field(min_length=1)
    trees: list[StepTree] | None = Field(
        default=None, description="of a few steps, spread over the run; absent without a tokenizer"
    )

    @model_validator(mode="after")
    def _trees_of_its_own(self) -> Self:
        for each in self.trees or ():
            steps = [len(one.tokens_by_step) for one in self.continuations]
            if each.continuation >= len(steps) or each.step >= steps[each.continuation]:
                raise ValueError(
                    f"trees of steps that there were, not of step {each.step} of continuation "
                    f"{each.continuation}"
                )
        return self

    @property
    def carried_out(self) -> Plan:
        """The plan as it was carried out: for so many requests at a time."""
        return self.plan.at_batch(self.together.batch_size) if self.together else self.plan

    @property
    def ms_by_step(self) -> list[float]:
        """The time of every step of all continuations; empty where nobody noted them."""
        return [ms for each in self.continuations for ms in each.ms_by_step or ()]


@dataclass(frozen=True)
class Reports:
    """Reports that are looked at side by side."""

    by_path: Mapping[Path, Report]
