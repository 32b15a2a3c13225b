"""A check as it looks in a terminal: every setting that the engine was tried with."""

from __future__ import annotations

from ..documents.counted import counted
from ..documents.estimate import Estimate
from ..plans.check import Check, EngineRun
from .tables import Named, Shown, table
from .words import engine_words, percent, summary


def show_check(check: Check) -> list[Shown]:
    """The promises beside what was measured, and all settings that were tried."""
    lines = {
        "plan": summary(check.plan),
        "engine": engine_words(check.engine),
        "run": f"{counted(check.num_prompts, 'prompt')} of {counted(check.num_tokens, 'token')} "
        f"each, {_together(check)}all settings in turns",
        "fastest": _fastest(check),
    }
    if check.planned.num_same is not None:
        same = f"{check.planned.num_same} of {check.num_greedy}"
        lines["greedy"] = f"{same} texts are those without speculation"
    headings = ["", "setting", "tokens per step", "ms per token", "cpu ms", "speedup"]
    settings = table("", headings, map(_row, check.runs), num_left=2)
    return [Named(lines, 9), *_promises(check), settings]


def _together(check: Check) -> str:
    requests = check.plan.made_from.batch_size if check.plan.made_from else 1
    return "" if requests == 1 else f"{requests} equal requests at once, "


def _promises(check: Check) -> list[Shown]:
    predicted, run = check.plan.predicted, check.planned
    if predicted is None:
        return []
    step = predicted.step_ms.value / predicted.autoregressive_ms.value
    taken = run.step_ms / check.plain.ms_per_token
    rows = [
        _promise("tokens per step", predicted.tokens_per_step, run.tokens_per_step),
        ["step, in tokens of the target alone", f"{step:.2f}", f"{taken:.2f}", _off(taken, step)],
        _promise("speedup", predicted.speedup, run.speedup),
    ]
    return [table("", ["", "predicted", "measured", "off by"], rows, gap=3)]


def _promise(what: str, predicted: Estimate, measured: Estimate) -> list[str]:
    return [what, str(predicted), str(measured), _off(measured.value, predicted.value)]


def _fastest(check: Check) -> str:
    best, behind = check.best, check.best.speedup.value / check.planned.speedup.value - 1
    if behind == 0:
        return "the plan's own setting"
    return f"{best.setting}, {percent(behind)} faster than the plan's"


def _row(run: EngineRun) -> list[str]:
    cpu = "" if run.cpu_ms_per_token is None else f"{run.cpu_ms_per_token:.2f}"
    tokens = f"{run.tokens_per_step.value:.3f}"
    return [run.role, run.setting, tokens, f"{run.ms_per_token:.2f}", cpu, str(run.speedup)]


def _off(measured: float, predicted: float) -> str:
    return f"{100 * (measured / predicted - 1):+.1f} %"
