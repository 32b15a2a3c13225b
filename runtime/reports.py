"""A report, made of what decoding recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from planner.documents.estimate import Estimate
from planner.documents.version import WRITTEN_BY
from planner.plans.plan import Plan
from planner.plans.report import Baseline, Continuation, FollowedSteps, Measured, PhaseTimes, Report

from .language_model import LanguageModel
from .machine import describe_execution, describe_machine
from .session import StepRecord

NUM_RESAMPLES = 2000
COVERAGE = 0.95


@dataclass
class Run:
    """One prompt's decoding."""

    num_prompt_tokens: int
    tokens: list[int] = field(default_factory=list)
    prefill_ms: float = 0.0
    logprobs: list[float] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    tokens_by_step: list[int] = field(default_factory=list)  # up to the text's end
    step_ms: list[float] = field(default_factory=list)  # bookkeeping included
    beside_prompts: set[int] = field(default_factory=set)
    """The steps in which other texts' prompts were read: their times are not a step's."""
    followed: list[tuple[int, float, float]] = field(default_factory=list)
    """The setting of each step, and the closed loop's factor and chance behind it."""

    @property
    def decode_ms(self) -> float:
        return sum(self.step_ms)

    @property
    def all_steps(self) -> np.ndarray:
        """float64 [2, steps]: milliseconds and tokens of each."""
        return np.array([self.step_ms, self.tokens_by_step], np.float64)

    @property
    def timed(self) -> np.ndarray:
        """float64 [2, any]: the same of the steps in which no prompt was read."""
        return np.delete(self.all_steps, sorted(self.beside_prompts), axis=1)


def report_of(
    plan: Plan,
    models: tuple[LanguageModel, LanguageModel | None],
    runs: Sequence[Run],
    *,
    seed: int,
    baseline: Sequence[Run] | None = None,
    to_text: Callable[[list[int]], str] | None = None,
) -> Report:
    """The report of `runs`, made with `plan`, at least one.

    models    target and draft
    baseline  the same prompts decoded autoregressively, in the same order
    """
    target, draft = models
    return Report(
        written_by=WRITTEN_BY,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        plan=plan,
        plan_sha256=plan.fingerprint(),
        seed=seed,
        machine=describe_machine(target.device),
        execution=describe_execution(target),
        target=target.info,
        draft=None if draft is None else draft.info,
        measured=_measured(runs),
        baseline=None if baseline is None else _baseline(runs, baseline),
        continuations=[
            Continuation(
                num_prompt_tokens=run.num_prompt_tokens,
                tokens=run.tokens,
                text=None if to_text is None else to_text(run.tokens),
                tokens_by_step=run.tokens_by_step,
                decode_ms=run.decode_ms,
                ms_by_step=[round(ms, 3) for ms in run.step_ms],
                followed=_followed(run),
            )
            for run in runs
        ],
    )


def _followed(run: Run) -> FollowedSteps | None:
    if not run.followed:
        return None
    settings, factors, chances = zip(*run.followed, strict=True)
    return FollowedSteps(
        settings=list(settings),
        factors=[round(each, 3) for each in factors],
        chances=[round(each, 3) for each in chances],
    )


def _measured(runs: Sequence[Run]) -> Measured:
    steps = [step for run in runs for step in run.steps]
    num_tokens = sum(len(run.tokens) for run in runs)
    num_drafted = sum(step.num_nodes - 1 for step in steps)
    num_accepted = sum(len(step.path) for step in steps)
    return Measured(
        num_tokens=num_tokens,
        num_steps=len(steps),
        num_draft_passes=sum(len(step.widths) for step in steps),
        num_drafted=num_drafted,
        num_accepted=num_accepted,
        tokens_per_step=num_tokens / len(steps),
        draft_acceptance_rate=num_accepted / num_drafted if num_drafted else 0.0,
        ms_per_token=_ms_per_token(runs),
        phases=PhaseTimes(
            prefill_ms=sum(run.prefill_ms for run in runs),
            draft_ms=sum(sum(step.draft_ms) + step.grow_ms for step in steps),
            verify_ms=sum(step.verify_ms for step in steps),
            accept_ms=sum(step.accept_ms for step in steps),
        ),
        steps_by_nodes=np.bincount([step.num_nodes for step in steps]).tolist(),
        steps_by_depth=np.bincount([step.depth for step in steps]).tolist(),
    )


def _baseline(runs: Sequence[Run], baseline: Sequence[Run]) -> Baseline:
    return Baseline(
        num_tokens=sum(len(run.tokens) for run in baseline),
        ms_per_token=_ms_per_token(baseline),
        speedup=speedup(runs, baseline),
    )


def speedup(runs: Sequence[Run], baseline: Sequence[Run]) -> Estimate:
    """How many times less a token costs in `runs` than in `baseline`, the same prompts in order.

    Ratio of milliseconds per token, of steps in which no prompt was read; 95 % interval by
    resampling prompts (percentiles of `NUM_RESAMPLES` bootstrap replicates, fixed seed).  With a
    single prompt its steps are resampled instead, which leaves out how prompts differ.
    """
    texts = _timed(baseline, runs)
    rng = np.random.default_rng(0)
    if len(texts) > 1:
        drawn = [rng.integers(len(texts), size=(NUM_RESAMPLES, len(texts)))] * 2
        totals = [
            np.array([steps.sum(axis=1) for steps in each]).T for each in zip(*texts, strict=True)
        ]
    else:
        totals = [*texts[0]]
        sizes = [each.shape[1] for each in totals]
        drawn = [rng.integers(size, size=(NUM_RESAMPLES, size)) for size in sizes]
    value = _per_token(totals[0]) / _per_token(totals[1])
    sums = [each[:, places].sum(axis=-1) for each, places in zip(totals, drawn, strict=True)]
    alone, own = (milliseconds / tokens for milliseconds, tokens in sums)
    tail = (1 - COVERAGE) / 2
    low, high = np.quantile(alone / own, [tail, 1 - tail])
    return Estimate(value=value, low=min(float(low), value), high=max(float(high), value))


def _ms_per_token(runs: Sequence[Run]) -> float:
    return _per_token(np.hstack([steps for (steps,) in _timed(runs)]))


def _per_token(totals: np.ndarray) -> float:
    """Milliseconds over tokens, of float64 [2, any]."""
    ms, tokens = totals.sum(axis=1)
    return float(ms / tokens)


def _timed(*sides: Sequence[Run]) -> list[tuple[np.ndarray, ...]]:
    """The `timed` steps of each text, as each side decoded it.

    Texts that a side took none of are left out; where that are all, their other steps count, too.
    """
    texts = [tuple(run.timed for run in text) for text in zip(*sides, strict=True)]
    kept = [text for text in texts if all(steps.shape[1] for steps in text)]
    return kept or [tuple(run.all_steps for run in text) for text in zip(*sides, strict=True)]
