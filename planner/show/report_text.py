"""A report as it looks in a terminal: measured beside predicted."""

from __future__ import annotations

from ..documents.counted import counted
from ..plans.plan import Plan
from ..plans.report import Followed, Report, SharedSteps
from .tables import Named, Shown, shares_table, table
from .words import model_words, summary

OFF_PACE = 1.15
"""Measured over predicted step time, or the other way round, from which on a report says so."""


def show_report(report: Report) -> list[Shown]:
    """The run, its numbers beside those predicted, and how grown trees spread over the steps."""
    plan = report.carried_out
    measured, predicted = report.measured, plan.predicted
    phases = measured.phases
    spent = {"draft": phases.draft_ms, "verify": phases.verify_ms, "accept": phases.accept_ms}
    total = sum(spent.values())
    shares = ", ".join(f"{name} {ms / total:.0%}" for name, ms in spent.items() if total > 0)
    lines = {
        "plan": summary(plan),
        "target": model_words(report.target),
        "run": f"{counted(len(report.continuations), 'prompt')}, "
        f"{counted(measured.num_tokens, 'token')}, {counted(measured.num_steps, 'step')}; "
        f"time: {shares}",
        "together": _together(report),
        "followed": _followed(report),
        "differs": _differences(report),
        "pace": _pace(report),
    }
    headings = ["", "measured", "predicted"]
    parts: list[Shown] = [Named(lines, 9), table("", headings, _numbers(report), gap=3)]
    parts += _by_requests(report)
    if plan.grows:
        steps = predicted.steps if predicted else None
        for what, counts, expected in (
            ("nodes verified", measured.steps_by_nodes, steps and steps.nodes),
            ("levels drafted", measured.steps_by_depth, steps and steps.depth),
        ):
            if counts is not None:
                rows = {"steps measured": [count / measured.num_steps for count in counts]}
                if expected:
                    rows["steps predicted"] = expected
                parts.append(shares_table(what, rows))
    return parts


def _together(report: Report) -> str:
    """How many decoded together, and how much came out of it by the clock, prompts read and all."""
    together, num_tokens = report.together, report.measured.num_tokens
    if together is None:
        return ""
    line = (
        f"up to {counted(together.batch_size, 'request')} at a time: "
        f"{1e3 * num_tokens / together.total_ms:.1f} tokens per second by the clock, the reading "
        "of prompts included"
    )
    if together.baseline_ms is not None and report.baseline is not None:
        alone = 1e3 * report.baseline.num_tokens / together.baseline_ms
        line += f"; {alone:.1f} autoregressive"
    return line


def _by_requests(report: Report) -> list[Shown]:
    """The steps by the number of requests that took them, where several decoded together."""
    if report.together is None:
        return []
    rows = []
    for each in report.together.steps:
        words, *predicted = _promised(report.plan, each)
        tokens, ms = (f"{number:.2f}" if number else "" for number in predicted)
        rows.append(
            [
                str(each.num_rows),
                words,
                str(each.num_steps),
                f"{each.num_tokens / each.num_steps / each.num_rows:.3f}",
                tokens,
                f"{each.total_ms / each.num_steps:.2f}",
                ms,
                f"{1e3 * each.num_tokens / each.total_ms:.1f}" if each.total_ms else "",
            ]
        )
    title = "shared steps in which no prompt was read, by the requests that took them"
    headings = [
        "requests", "drafting", "steps", "tokens each", "predicted", "ms", "predicted", "tokens/s",
    ]  # fmt: skip
    return [table(title, headings, rows, num_left=2)]


def _promised(plan: Plan, steps: SharedSteps) -> tuple[str, float | None, float | None]:
    """The drafting of shared steps in words, and the tokens and milliseconds of one that the plan
    says for as many requests; None for other numbers of them."""
    carried = plan.at_batch(plan.ways[steps.setting].batch_size)
    planned = carried.batch_size == steps.num_rows
    if steps.followed is not None:
        setting = carried.settings[steps.followed]
        expected = (setting.tokens_per_step, setting.step_ms) if planned else (None, None)
        return setting.words, *expected
    predicted = carried.predicted if planned else None
    if predicted is None:
        return carried.words, None, None
    return carried.words, predicted.tokens_per_step.value, predicted.step_ms.value


def _followed(report: Report) -> str:
    """How often every setting was used, and how far the present was from what was planned."""
    followed = report.followed
    if report.together is not None:
        return ". ".join(
            f"Up to {counted(each.num_rows, 'request')} at a time: {_believed(each)}"
            for each in report.together.followed
        )
    if followed is None:
        return ""
    used = [
        f"{setting.words}: {counted(steps, 'step')}"
        for setting, steps in zip(report.plan.settings, followed.steps, strict=True)
    ]
    return f"{'; '.join(used)}. {_believed(followed).capitalize()}"


def _believed(followed: Followed) -> str:
    return (
        f"in the end a step took {followed.factor:.2f} times as long as planned, and drafted "
        f"tokens were accepted {followed.chance:.2f} times as often; looking at other settings "
        f"cost {followed.looked_ms:.3g} ms"
    )


def _numbers(report: Report) -> list[list[str]]:
    """Rows of (name, measured, predicted)."""
    plan, measured, baseline = report.carried_out, report.measured, report.baseline
    predicted = plan.predicted
    step_ms = measured.ms_per_token * measured.tokens_per_step
    rows: dict[str, tuple[object, object]] = {
        "tokens per step (= mean acceptance length)": (
            measured.tokens_per_step,
            predicted and predicted.tokens_per_step,
        ),
        "step, ms": (f"{step_ms:.2f}", predicted and predicted.step_ms),
        "ms per token": (f"{measured.ms_per_token:.2f}", None),
    }
    if baseline:
        alone = f"{baseline.ms_per_token:.2f}"
        rows |= {
            "ms per token, autoregressive": (alone, predicted and predicted.autoregressive_ms),
            "speedup": (baseline.speedup, predicted and predicted.speedup),
        }
    rows["accepted / drafted"] = (measured.draft_acceptance_rate, None)
    if plan.grows:
        steps = predicted.steps if predicted else None
        nodes = 1 + measured.num_drafted / measured.num_steps
        passes = measured.num_draft_passes / measured.num_steps
        discarded, verified = measured.discard_rate, measured.verification_rate
        rows |= {
            "nodes verified per step": (nodes, steps and steps.mean_nodes),
            "draft passes per step": (passes, steps and steps.draft_passes),
            "discarded draft tokens per token": (discarded, steps and steps.discard_rate),
            "target passes per token": (verified, steps and steps.verification_rate),
        }
    return [[name, *map(_cell, numbers)] for name, numbers in rows.items()]


def _cell(number: object) -> str:
    if number is None:
        return ""
    return f"{number:.3f}" if isinstance(number, float) else str(number)


def _differences(report: Report) -> str:
    """The conditions under which the plan was made and that the run did not have; empty if none.

    The context differs if it was outside the texts from their prompts to their ends.
    """
    plan, together = report.carried_out, report.together
    origin = plan.made_from
    if origin is None or plan.predicted is None:
        return ""
    then, now, given = origin.machine, report.machine, origin.costs_from
    pairs = [
        (f"times {given}" if given else then.gpu or then.cpu, now.gpu or now.cpu),
        (origin.execution.dtype, report.execution.dtype),
        (f"attention {origin.execution.attention}", f"attention {report.execution.attention}"),
    ]
    if given is None and (then.device, now.device) == ("cpu", "cpu"):
        pairs.append((counted(then.num_threads, "thread"), counted(now.num_threads, "thread")))
    at_a_time = together.batch_size if together else 1
    if origin.batch_size != at_a_time:
        then_many, now_many = (counted(n, "request") for n in (origin.batch_size, at_a_time))
        pairs.append((f"{then_many} at a time", f"{now_many} at a time"))
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
    """A warning where steps took quite another time than was predicted."""
    predicted, measured, baseline = report.carried_out.predicted, report.measured, report.baseline
    if predicted is None:
        return ""
    ratio = measured.ms_per_token * measured.tokens_per_step / predicted.step_ms.value
    if ratio == 0 or 1 / OFF_PACE <= ratio <= OFF_PACE:
        return ""
    words = f"steps took {ratio:.2f} times what was predicted"
    if baseline is not None:
        alone = baseline.ms_per_token / predicted.autoregressive_ms.value
        words += f", the target alone {alone:.2f} times"
    origin = report.plan.made_from
    if origin is not None and origin.costs_from is not None:
        return f"{words}; the predicted times are not this machine's"
    return f"{words}; if nothing else runs on this machine, profile again"
