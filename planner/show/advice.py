"""The five lines that a document is shown by first: what to do, what it gains, how sure, why, and
what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..documents.counted import counted
from ..documents.engine import EngineFacts
from ..documents.estimate import Estimate
from ..documents.origin import Execution, ModelInfo
from ..documents.sampling import Sampling
from ..plans.alternatives import Alternative
from ..plans.check import Check, differ
from ..plans.plan import Plan, Predicted
from ..plans.report import Report
from .tables import Named
from .words import certificate


@dataclass(frozen=True)
class Advice:
    """The answer of a document, a line each."""

    do: str
    gain: str
    sure: str
    why: str
    next: str
    """A command to paste."""

    @property
    def shown(self) -> Named:
        """The lines as a part of what is shown."""
        return Named(asdict(self), 6, pasted=("next",))


def advice_on(document: Any, path: Path) -> Advice | None:
    """The advice of the document in the file `path`; None for a kind that gives none."""
    give = ADVICE.get(type(document))
    return None if give is None else give(document, path)


def plan_advice(plan: Plan, path: Path) -> Advice:
    """The plan's decision and its promise."""
    origin, predicted = plan.made_from, plan.predicted
    do = f"decode without a draft, at {plan.sampling}"
    if plan.speculates:
        do = f"{_drafts(plan)}, verify by {plan.verifier}, at {plan.sampling}"
    if origin is not None and origin.engine is not None:
        do += f", in {origin.engine.name}"
        following = typed("check", path, [], "check")
    else:
        follow = ["--follow"] if len(plan.settings) > 1 and not plan.speculates else []
        words = ["--prompts", "embedded/evaluation", *follow, "--baseline"]
        following = typed("decode", path, words, "report")
    if predicted is None:
        nothing = "nothing is predicted of it"
        return Advice(do, nothing, "not at all: it was not graded", "it was given", following)
    if not plan.speculates:
        return Advice(do, _in_vain(plan), _how_sure(plan), _why_the_best(plan), following)
    gain = (
        f"{predicted.speedup.value:.2f} times as fast as the target alone: "
        f"{predicted.tokens_per_step.value:.2f} tokens by a step of {predicted.step_ms.value:.2f} "
        f"ms, against {predicted.autoregressive_ms.value:.2f} ms for one"
    )
    return Advice(do, gain, _how_sure(plan), _why_the_best(plan), following)


def report_advice(report: Report, path: Path) -> Advice:
    """The outcome of a plan, and whether it kept its promise."""
    plan, measured, baseline = report.carried_out, report.measured, report.baseline
    predicted, texts = plan.predicted, counted(len(report.continuations), "prompt")
    written = typed("report", path, [], path.stem, ".html")
    if baseline is None:
        promise = f"{predicted.speedup} predicted" if predicted else "nothing predicted"
        gain = f"not measured: decoded without --baseline; {promise}"
        why = f"a step emitted {measured.tokens_per_step:.2f} tokens on {texts}"
        return Advice(_kept(None, plan), gain, "not at all", why, written)
    gained, promised = baseline.speedup, predicted.speedup if predicted else None
    broken = promised is not None and differ(promised, gained)
    sure = _intervals(gained, promised)
    if promised is not None:
        sure += ": they differ, profile again" if broken else ": they agree"
    longer = measured.ms_per_token * measured.tokens_per_step / baseline.ms_per_token
    tokens = _beside(predicted.tokens_per_step.value if predicted else None)
    step = _beside(_longer(predicted) if predicted else None)
    why = f"a step emitted {measured.tokens_per_step:.2f} tokens{tokens}, in {longer:.2f} times "
    return Advice(
        do=_kept(gained, plan),
        gain=f"{gained.value:.2f} times as fast as the target alone, measured on {texts}"
        f"{_beside(promised.value if promised else None)}",
        sure=sure,
        why=f"{why}the time of one{step}",
        next=_profile_again((report.target, report.draft), report.execution, plan.sampling, None)
        if broken
        else written,
    )


def check_advice(check: Check, path: Path) -> Advice:
    """The outcome in an engine, and which of the settings tried to serve with."""
    run, best, faults = check.planned, check.best, check.faults
    name, predicted = check.engine.name, check.plan.predicted
    do = f"serve {name} with the plan's setting, {run.setting}"
    if best is check.plain:
        do = f"serve {name} without speculation"
    elif best is not run and not differ(best.speedup, run.speedup):
        do += f" ({best.setting} was as fast)"
    elif best is not run:
        do = f"serve {name} with {best.setting}, which was faster than the plan's {run.setting}"
    promised = predicted.speedup if predicted else None
    gain = f"{run.speedup.value:.2f} times as fast as without speculation, measured"
    gain += _beside(promised.value if promised else None)
    sure = _intervals(run.speedup, promised)
    sure += f": {counted(len(faults), 'promise')} broken" if faults else ": the plan holds"
    longer = run.step_ms / check.plain.ms_per_token
    why = faults[0] if faults else (
        f"a step emitted {run.tokens_per_step.value:.2f} tokens in {longer:.2f} times the time of "
        f"one, on {counted(check.num_prompts, 'prompt')}"
    )  # fmt: skip
    origin = check.plan.made_from
    following = typed("report", path, [], path.stem, ".html")
    if faults and origin is not None:
        following = _profile_again(
            (origin.target, origin.draft),
            origin.execution,
            check.plan.sampling,
            origin.engine or check.engine,
        )
    return Advice(do, gain, sure, why, following)


ADVICE: dict[type, Callable[[Any, Path], Advice]] = {
    Plan: plan_advice,
    Report: report_advice,
    Check: check_advice,
}


def _drafts(plan: Plan) -> str:
    words = plan.drafting.words()
    return f"draft a {words}" if words.startswith(("tree of", "chain of")) else f"draft {words}"


def _how_sure(plan: Plan) -> str:
    predicted = plan.predicted
    if predicted is None or not plan.speculates:
        words = "no interval: it is decoding as it was"
    else:
        low, high = predicted.speedup.low, predicted.speedup.high
        words = f"95 %: {low:.2f} to {high:.2f} times"
        words += ", so it may be slower, too" if low < 1 else ""
    if predicted is not None and predicted.optimality_gap is not None:
        words += f"; proven: {certificate(predicted.optimality_gap)}"
    return words


def _in_vain(plan: Plan) -> str:
    """The best that drafts, where a plan does not."""
    others = _others(plan)
    if not others:
        return "nothing, and nothing is lost"
    return f"nothing is lost: the best that drafts, {_named(others[0])}, is at {others[0].speedup}"


def _why_the_best(plan: Plan) -> str:
    """The cost of a step, and what stands next to the plan."""
    origin, predicted, others = plan.made_from, plan.predicted, _others(plan)
    words = "no draft is worth its time and its risk here"
    if plan.speculates and predicted:
        words = f"a step takes {_longer(predicted):.2f} times as long as one token alone"
    if origin is None:
        return words
    words += f"; best of {origin.num_candidates} candidates"
    if plan.speculates and others:
        words += f", next {_named(others[0])} at {others[0].speedup.value:.2f}"
    return words


def _others(plan: Plan) -> list[Alternative]:
    """The alternatives that draft, the best first."""
    listed = plan.made_from.alternatives[1:] if plan.made_from else []
    return [one for one in listed if one.speculates]


def _longer(predicted: Predicted) -> float:
    """A step over one token of the target alone."""
    return predicted.step_ms.value / predicted.autoregressive_ms.value


def _beside(promise: float | None) -> str:
    """The promise behind what was measured, if there was one."""
    return "" if promise is None else f" ({promise:.2f} predicted)"


def _intervals(measured: Estimate, promised: Estimate | None) -> str:
    words = f"95 %: {_range(measured)} measured"
    return words + (f", {_range(promised)} predicted" if promised else "")


def _named(one: Alternative) -> str:
    return f"{one.verifier}'s {one.nodes:.3g} nodes"


def _kept(speedup: Estimate | None, plan: Plan) -> str:
    if not plan.speculates:
        return f"decode without a draft, as planned, at {plan.sampling}"
    if speedup is None:
        return "decode with --baseline, to know what the plan brings"
    if speedup.high < 1:
        return "decode without a draft: with this plan it was slower"
    if speedup.low < 1:
        return "try more prompts: faster or slower, this run does not tell"
    return f"keep the plan: {_drafts(plan)}, verify by {plan.verifier}, at {plan.sampling}"


def _range(estimate: Estimate) -> str:
    return f"{estimate.low:.2f} to {estimate.high:.2f}"


def typed(command: str, path: Path, options: list[str], output: str, suffix: str = ".json") -> str:
    """A command on the file, its output beside it."""
    beside = str(path.with_name(output + suffix))
    return shlex.join(["planner", command, str(path), *options, "-o", beside])


def _profile_again(
    models: tuple[ModelInfo, ModelInfo | None],
    execution: Execution,
    sampling: Sampling,
    engine: EngineFacts | None,
) -> str:
    """The command that measures the same target and draft again, loaded alike; with an engine's own
    method, all but the target's name is the engine's affair."""
    target, draft = models
    words = ["planner", "profile", "--target", target.name]
    if engine is None or engine.method is None:
        words += [*([] if draft is None else ["--draft", draft.name]), *execution.flags]
    words += sampling.flags.split()
    words += [] if engine is None else engine.flags
    return shlex.join([*words, "-o", "profile.json"])
