"""A report as it looks in a terminal: measured beside predicted."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..documents.counted import counted
from ..plans.report import Report
from .tables import grouped, table
from .words import model_words, percent, summary

OFF_PACE = 1.15
"""Measured over predicted step time, or the other way round, from which on a report says so."""


def show_report(report: Report) -> RenderableType:
    measured, predicted = report.measured, report.plan.predicted
    numbers = Table(box=None, padding=(0, 3, 0, 0))
    for heading in ("", "measured", "predicted"):
        numbers.add_column(heading, justify="left" if not heading else "right")
    numbers.add_row(
        "tokens per step (= mean acceptance length)",
        f"{measured.tokens_per_step:.3f}",
        str(predicted.tokens_per_step) if predicted else "",
    )
    step_ms = measured.ms_per_token * measured.tokens_per_step
    numbers.add_row("step, ms", f"{step_ms:.2f}", str(predicted.step_ms) if predicted else "")
    numbers.add_row("ms per token", f"{measured.ms_per_token:.2f}", "")
    if report.baseline:
        numbers.add_row(
            "ms per token, autoregressive",
            f"{report.baseline.ms_per_token:.2f}",
            str(predicted.autoregressive_ms) if predicted else "",
        )
        numbers.add_row(
            "speedup", str(report.baseline.speedup), str(predicted.speedup) if predicted else ""
        )
    numbers.add_row("accepted / drafted", f"{measured.draft_acceptance_rate:.3f}", "")
    for row in _steps_rows(report):
        numbers.add_row(*row)
    phases = measured.phases
    total = phases.draft_ms + phases.verify_ms + phases.accept_ms
    shares = ", ".join(
        f"{name} {share / total:.0%}"
        for name, share in (
            ("draft", phases.draft_ms),
            ("verify", phases.verify_ms),
            ("accept", phases.accept_ms),
        )
        if total > 0
    )
    differences, pace = _differences(report), _pace(report)
    return Group(
        Text(f"plan     {summary(report.plan)}"),
        Text(f"target   {model_words(report.target)}"),
        Text(
            f"run      {counted(len(report.continuations), 'prompt')}, "
            f"{counted(measured.num_tokens, 'token')}, {counted(measured.num_steps, 'step')}; "
            f"time: {shares}"
        ),
        *([Text(f"differs  {differences}")] if differences else []),
        *([Text(f"pace     {pace}")] if pace else []),
        Text(),
        numbers,
        *_steps_distributions(report),
    )


def _differences(report: Report) -> str:
    """Under which conditions the plan was made that the run did not have; empty where none differ.

    The context differs if it was outside the texts from their prompts to their ends.
    """
    origin = report.plan.made_from
    if origin is None or report.plan.predicted is None:
        return ""
    then, now = origin.machine, report.machine
    pairs = [
        (then.gpu or then.cpu, now.gpu or now.cpu),
        (origin.execution.dtype, report.execution.dtype),
        (f"attention {origin.execution.attention}", f"attention {report.execution.attention}"),
    ]
    if (then.device, now.device) == ("cpu", "cpu"):
        pairs.append((counted(then.num_threads, "thread"), counted(now.num_threads, "thread")))
    first = min(each.num_prompt_tokens for each in report.continuations)
    last = max(each.num_prompt_tokens + len(each.tokens) for each in report.continuations)
    if not first <= origin.context <= last:
        pairs.append((f"context {origin.context}", f"contexts {first} to {last}"))
    pairs = [(before, after) for before, after in pairs if before != after]
    if not pairs:
        return ""
    before, after = (", ".join(words) for words in zip(*pairs, strict=True))
    return f"predicted for {before}; run with {after}"


def _pace(report: Report) -> str:
    """What there is to know where steps took quite another time than was predicted."""
    predicted, measured, baseline = report.plan.predicted, report.measured, report.baseline
    if predicted is None:
        return ""
    ratio = measured.ms_per_token * measured.tokens_per_step / predicted.step_ms.value
    if ratio == 0 or 1 / OFF_PACE <= ratio <= OFF_PACE:
        return ""
    words = f"steps took {ratio:.2f} times what was predicted"
    if baseline is not None:
        alone = baseline.ms_per_token / predicted.autoregressive_ms.value
        words += f", the target alone {alone:.2f} times"
    return f"{words}; if nothing else runs on this machine, profile again"


def _steps_rows(report: Report) -> Iterator[tuple[str, str, str]]:
    """What plans whose trees grow are judged by besides: (name, measured, predicted)."""
    if not report.plan.grows:
        return
    measured, predicted = report.measured, report.plan.predicted
    steps = predicted.steps if predicted else None
    num_steps = measured.num_steps
    for name, got, expected in (
        (
            "nodes verified per step",
            1 + measured.num_drafted / num_steps,
            steps and steps.mean_nodes,
        ),
        (
            "draft passes per step",
            measured.num_draft_passes / num_steps,
            steps and steps.draft_passes,
        ),
        ("discarded draft tokens per token", measured.discard_rate, steps and steps.discard_rate),
        ("target passes per token", measured.verification_rate, steps and steps.verification_rate),
    ):
        yield name, f"{got:.3f}", "" if expected is None else f"{expected:.3f}"


def _steps_distributions(report: Report) -> Iterator[RenderableType]:
    """How the sizes and depths of grown trees are spread over the steps."""
    if not report.plan.grows:
        return
    predicted = report.plan.predicted
    steps = predicted.steps if predicted else None
    for title, counts, expected in (
        ("nodes verified", report.measured.steps_by_nodes, steps.nodes if steps else []),
        ("levels drafted", report.measured.steps_by_depth, steps.depth if steps else []),
    ):
        if counts is None:
            continue
        length = max(len(counts), len(expected))
        rows = {"steps measured": [count / report.measured.num_steps for count in counts]}
        if expected:
            rows["steps predicted"] = expected
        padded = {name: [*row, *[0.0] * (length - len(row))] for name, row in rows.items()}
        groups = grouped([max(shares) for shares in zip(*padded.values(), strict=True)])
        cells = [
            [name, *(percent(sum(row[count] for count in part)) for _, part in groups)]
            for name, row in padded.items()
        ]
        yield table("", [title, *(name for name, _ in groups)], cells)
