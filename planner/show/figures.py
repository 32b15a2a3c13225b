"""The figures: one function per document, each returning a matplotlib figure."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..documents.document import write_atomically
from ..documents.estimate import Estimate
from ..documents.head_card import HeadCard
from ..documents.profile import Profile
from ..documents.sampling import Sampling
from ..documents.times import Curve
from ..plans.check import Check
from ..plans.plan import Plan
from ..plans.report import Report
from .drawing import DRAFT, INK, QUIET, TARGET, plain
from .head_figure import head_figure


def save_png(figure: Figure, path: str | Path) -> None:
    """Write `figure` to `path` atomically.  Raises PlannerError when that is not possible."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    write_atomically(path, buffer.getvalue())


def profile_figure(profile: Profile) -> Figure:
    """t(n) and draft cost by width at every context; per sampling, what each verifier accepts."""
    samplings = list(dict.fromkeys(entry.sampling for entry in profile.acceptance))
    names = [str(sampling) for sampling in samplings]
    rows: list[Any] = [["verify", "draft", *names]]
    if len(names) > 1:
        rows = [[each for each in rows[0][:2] for _ in names], [n for n in names for _ in (1, 2)]]
    figure = Figure(figsize=(4.6 * max(len(names), 3), 0.6 + 3.4 * len(rows)), layout="constrained")
    named_axes = figure.subplot_mosaic(rows)
    costs, widths = named_axes["verify"], named_axes["draft"]
    for shade, entry in zip(np.linspace(1, 0.45, len(profile.costs)), profile.costs, strict=True):
        _times(costs, entry.verify, TARGET, shade, f"context {entry.context}")
        _times(widths, entry.draft, DRAFT, shade, f"context {entry.context}")
    alone = profile.costs[0].target_step.median_ms[0]
    costs.axhline(alone, color=QUIET, linestyle=":", linewidth=1)
    costs.annotate(
        "one autoregressive token", (costs.get_xlim()[1], alone),
        ha="right", va="bottom", fontsize=8, color=QUIET,
    )  # fmt: skip
    costs.set(title=f"verifying n nodes: {profile.target.name}", xlabel="n (root included)")
    widths.set(title=f"one draft pass: {profile.draft.name}", xlabel="nodes in the level")
    for axes in (costs, widths):
        axes.set(ylabel="ms (median, quartiles)", ylim=(0, None))
        axes.legend(fontsize=7, frameon=False)
    lines: dict[str, Any] = {}
    for name, sampling in zip(names, samplings, strict=True):
        _accepted(named_axes[name], profile, sampling)
        drawn, labels = named_axes[name].get_legend_handles_labels()
        lines |= dict(zip(labels, drawn, strict=True))
    for axes in named_axes.values():
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
    figure.legend(
        lines.values(), lines, loc="outside lower center", ncols=6, fontsize=8, frameon=False
    )
    return plain(figure)


def tree_figure(plan: Plan) -> Figure:
    """The tree; a node's area is the probability that it is reached."""
    tree = plan.tree
    num_leaves = int((tree.num_children == 0).sum())
    width = min(6 + 0.16 * max(num_leaves - 1, 1), 16)
    figure = Figure(figsize=(width, 1.5 + 0.5 * tree.depth))
    height = figure.get_figheight()
    axes = figure.add_axes((0.02, 0.02, 0.96, 1 - 0.9 / height))
    _draw_tree(axes, plan, size=240)
    title = f"{tree.num_nodes} nodes, depth {tree.depth}, {plan.verifier}, {plan.sampling}"
    if plan.predicted:
        title += (
            f"\npredicted {plan.predicted.tokens_per_step.value:.2f} tokens per step, "
            f"speedup {plan.predicted.speedup.value:.2f}"
        )
    if plan.made_from:
        title += f"\n{plan.made_from.target.name}, {plan.made_from.draft.name}"
    figure.text(0.02, 1 - 0.15 / height, title, fontsize=9, va="top")
    return figure


def overview(profile: Profile, plan: Plan, report: Report) -> Figure:
    """The main job in one picture: what was measured, what was chosen for it, what then happened.

    Left: the time of verifying n tree nodes over that of one, with the plan's number of nodes (the
    mean, for trees that grow).  Middle: the plan's tree, or how large its trees became.  Right:
    tokens per step and speedup, predicted and measured.  The three documents are of one run: the
    plan was made from the profile, the report from the plan.
    """
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    facts, choice, outcome = figure.subplots(1, 3, width_ratios=(1.15, 1, 1))
    _relative_times(facts, profile, plan)
    if plan.grows:
        _sizes(choice, plan, report)
    else:
        _draw_tree(choice, plan, size=420)
    drafting = "trees that grow" if plan.grows else plan.drafting.words()
    choice.set_title(f"2. chosen: {drafting}, {plan.verifier}", loc="left", fontsize=10)
    _outcome(outcome, report)
    return plain(figure)


def plan_figure(plan: Plan) -> Figure:
    """The tree of all steps, or what the trees of the steps will look like."""
    if not plan.grows:
        return tree_figure(plan)
    figure = Figure(figsize=(8, 3), layout="constrained")
    title = f"{plan.drafting.words()}\n{plan.verifier}, {plan.sampling}"
    figure.suptitle(title, fontsize=9)
    steps = plan.predicted.steps if plan.predicted else None
    for axes, name, shares in zip(
        figure.subplots(1, 2, sharey=True),
        ("nodes verified", "levels drafted"),
        (steps.nodes, steps.depth) if steps else ((), ()),
        strict=True,
    ):
        axes.bar(range(len(shares)), shares, color=TARGET)
        axes.set(xlabel=name, ylabel="share of the steps", xlim=(-0.5, None))
        axes.label_outer()
    return plain(figure)


def reports_figure(reports: dict[str, Report]) -> Figure:
    """Predicted against measured, one row per report: tokens per step and speedup."""
    figure = Figure(figsize=(10, 1.6 + 0.5 * len(reports)), layout="constrained")
    tokens, speed = figure.subplots(1, 2, sharey=True)
    _kept_promises(tokens, speed, reports)
    return plain(figure)


def report_figure(report: Report) -> Figure:
    """Predicted against measured; where decoding followed the machine and the text, also which
    settings it took, and what it believed."""
    reports = {report.target.name: report}
    steps = [each.followed for each in report.continuations if each.followed]
    if not steps:
        return reports_figure(reports)
    names = [each.words for each in report.plan.settings]
    figure = Figure(figsize=(10, 4.6 + 0.2 * len(names)), layout="constrained")
    rows: list[Any] = [["tokens", "speed"], ["settings", "settings"], ["beliefs", "beliefs"]]
    drawn = figure.subplot_mosaic(rows, height_ratios=(2, 0.8 + 0.5 * len(names), 3))
    _kept_promises(drawn["tokens"], drawn["speed"], reports)
    drawn["speed"].set_yticks([])
    taken = [setting for each in steps for setting in each.settings]
    drawn["settings"].plot(taken, "|", color=DRAFT, ms=9, markeredgewidth=0.8)
    drawn["settings"].set_yticks(range(len(names)), names)
    drawn["settings"].set(
        title="setting of every step; a new text at every dotted line",
        ylim=(len(names) - 0.5, -0.5),
    )
    for name, colour, values in (
        ("a step's time", INK, [factor for each in steps for factor in each.factors]),
        ("a drafted token's acceptance", TARGET, [c for each in steps for c in each.chances]),
    ):
        drawn["beliefs"].plot(values, color=colour, linewidth=1, label=name)
    drawn["beliefs"].axhline(1, color=QUIET, linestyle=":", linewidth=1)
    drawn["beliefs"].set(xlabel="steps", title="believed, as multiples of planned")
    drawn["beliefs"].legend(fontsize=8, frameon=False, ncols=2)
    for axes in (drawn["settings"], drawn["beliefs"]):
        axes.set_xlim(-1, len(taken))
        for start in np.cumsum([len(each.settings) for each in steps])[:-1]:
            axes.axvline(start - 0.5, color=QUIET, linestyle=":", linewidth=0.6)
    return plain(figure)


def _kept_promises(tokens: Axes, speed: Axes, reports: dict[str, Report]) -> None:
    for row, report in enumerate(reports.values()):
        for axes, (predicted, measured) in zip((tokens, speed), _outcomes(report), strict=True):
            _bar_and_dot(axes, row, predicted, measured, size=6)
    tokens.set_yticks(range(len(reports)), list(reports))
    tokens.invert_yaxis()
    tokens.set(xlabel="tokens per step", title="bar: predicted, 95 %; dot: measured")
    speed.set(xlabel="speedup against autoregressive decoding")
    speed.axvline(1, color=QUIET, linestyle=":", linewidth=1)
    for axes in (tokens, speed):
        axes.margins(y=0.3 if len(reports) > 1 else 1)


def check_figure(check: Check) -> Figure:
    """Speedup of every setting that an engine was tried with, the plan's promise as a bar."""
    figure = Figure(figsize=(9, 1.2 + 0.4 * len(check.runs)), layout="constrained")
    axes = figure.subplots()
    predicted = check.plan.predicted
    tried = check.runs[1:]
    for row, run in enumerate(tried):
        promise = predicted.speedup if predicted and run is check.planned else None
        if promise is not None:
            _bar_and_dot(axes, row, promise, None, size=6)
        shown = run.speedup
        below, above = shown.value - shown.low, shown.high - shown.value
        colour = DRAFT if run is check.planned else INK
        axes.errorbar(shown.value, row, xerr=[[below], [above]], fmt="o", color=colour, capsize=2)
    names = [f"{run.role}: {run.setting}" for run in tried]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.axvline(1, color=QUIET, linestyle=":", linewidth=1)
    axes.set(xlabel="speedup against decoding without speculation")
    figure.suptitle(f"{check.engine.name}: bar: predicted, dots: measured, 95 %", fontsize=10)
    return plain(figure)


def _draw_tree(axes: Axes, plan: Plan, *, size: float) -> None:
    """The plan's tree; `size` is the area of a node that is always reached, in points squared."""
    tree, across = plan.tree, _leaf_order(plan)
    known = plan.predicted.reach if plan.predicted else None
    reach = np.ones(tree.num_nodes) if known is None else np.array(known)
    for node in range(1, tree.num_nodes):
        parent = tree.parents[node]
        axes.plot(
            [across[parent], across[node]], [-tree.depths[parent], -tree.depths[node]],
            color=QUIET, linewidth=0.4 + 3 * reach[node], zorder=1,
        )  # fmt: skip
    axes.scatter(across, -tree.depths, s=6 + size * reach, color=TARGET, zorder=2)
    axes.set_axis_off()
    axes.margins(0.06, 0.12)


def _relative_times(axes: Axes, profile: Profile, plan: Plan) -> None:
    """t(n) at the plan's context, quartiles shaded, and where on it the plan stands."""
    context = plan.made_from.context if plan.made_from else profile.costs[0].context
    curve = min(profile.costs, key=lambda costs: abs(costs.context - context)).verify
    quartiles = np.array([curve.low_ms, curve.median_ms, curve.high_ms])
    low, median, high = quartiles / curve.median_ms[0]
    steps = plan.predicted.steps if plan.predicted else None
    chosen = steps.mean_nodes if steps else plan.drafting.most_nodes
    axes.fill_between(curve.counts, low, high, color=TARGET, alpha=0.15)
    axes.plot(curve.counts, median, color=TARGET, linewidth=1.5)
    height = float(np.interp(chosen, curve.counts, median))
    axes.plot(chosen, height, "o", color=DRAFT, ms=9)
    axes.annotate(
        f"the plan: {chosen:.3g} nodes\nfor the time of {height:.2f}", (chosen, height),
        xytext=(14, -6), textcoords="offset points", fontsize=9, color=DRAFT, va="top",
    )  # fmt: skip
    axes.set_title("1. measured: what verifying n nodes costs", loc="left", fontsize=10)
    axes.set(xlabel="n, tree nodes verified at once", ylabel="time, verifying one = 1")
    axes.set(ylim=(0, None), xlim=(0, None))


def _sizes(axes: Axes, plan: Plan, report: Report) -> None:
    """Shares of the steps by number of nodes: predicted as bars, measured as dots."""
    steps = plan.predicted.steps if plan.predicted else None
    if steps:
        axes.bar(range(len(steps.nodes)), steps.nodes, color=QUIET, label="predicted")
    if report.measured.steps_by_nodes:
        shares = np.array(report.measured.steps_by_nodes) / max(report.measured.num_steps, 1)
        axes.plot(np.arange(len(shares)), shares, "o", ms=3, color=DRAFT, label="measured")
    axes.set(xlabel="nodes of a step's tree", ylabel="share of the steps", xlim=(0.5, None))
    axes.legend(fontsize=8, frameon=False)


def _outcome(axes: Axes, report: Report) -> None:
    """Tokens per step and speedup: predicted with its interval, measured as a dot."""
    for row, (predicted, measured) in enumerate(_outcomes(report)):
        _bar_and_dot(axes, row, predicted, measured, size=8)
        words = [f"predicted {predicted.value:.2f}"] if predicted else []
        words += [] if measured is None else [f"measured {measured:.2f}"]
        axes.annotate(
            ", ".join(words), (1, row), xytext=(0, 14), textcoords="offset points", fontsize=9
        )
    axes.axvline(1, color=QUIET, linestyle=":", linewidth=1)
    axes.set_yticks([0, 1], ["tokens\nper step", "speedup"])
    axes.set_ylim(1.5, -0.7)
    axes.set_xlim(0.9, 1.1 * axes.get_xlim()[1])
    axes.set_title("3. brought: predicted (bar), measured (dot)", loc="left", fontsize=10)
    axes.set(xlabel="against decoding without drafts = 1")


def _outcomes(report: Report) -> list[tuple[Estimate | None, float | None]]:
    """Tokens per step and speedup: (predicted, measured)."""
    predicted, baseline = report.plan.predicted, report.baseline
    return [
        (predicted.tokens_per_step if predicted else None, report.measured.tokens_per_step),
        (predicted.speedup if predicted else None, baseline.speedup.value if baseline else None),
    ]


def _bar_and_dot(
    axes: Axes, row: int, predicted: Estimate | None, measured: float | None, *, size: float
) -> None:
    """The dot is `size` points wide."""
    if predicted:
        interval = [predicted.low, predicted.high]
        axes.plot(interval, [row, row], color=QUIET, linewidth=size - 1)
        axes.plot(predicted.value, row, "|", color=INK, ms=size + 8)
    if measured is not None:
        axes.plot(measured, row, "o", color=DRAFT, ms=size)


def _times(axes: Axes, curve: Curve, colour: str, shade: float, label: str) -> None:
    axes.fill_between(curve.counts, curve.low_ms, curve.high_ms, color=colour, alpha=0.15 * shade)
    axes.plot(curve.counts, curve.median_ms, "o-", ms=3, color=colour, alpha=shade, label=label)


def _accepted(axes: Axes, profile: Profile, sampling: Sampling) -> None:
    """Acceptance by number of children under one sampling, beside the best that is possible."""
    entries = [entry for entry in profile.acceptance if entry.sampling == sampling]
    lines = [(entry, entry.verifier, f"C{place}") for place, entry in enumerate(entries)]
    if sampling.is_greedy:
        lines = [(entries[0], "all verifiers (T=0)", TARGET)]
    for entry, name, colour in lines:
        counts = np.arange(1, entry.num_ranks + 1)
        axes.plot(counts, entry.by_count(), "o-", ms=3, linewidth=1, color=colour, label=name)
    bounds = [bound for bound in profile.optimal if bound.sampling == sampling]
    for bound in bounds:
        # of one child both laws are the same; the one measured at more positions sets the level
        sharpest = max(bounds, key=lambda b: sum(prompt.num_positions for prompt in b.prompts))
        best = np.minimum(bound.mean() * sharpest.mean()[0] / max(bound.mean()[0], 1e-12), 1)
        law = "drawn independently" if bound.replacement else "without replacement"
        style = ":" if bound.replacement else "--"
        counts = np.arange(1, bound.num_children + 1)
        axes.plot(counts, best, style, color=INK, linewidth=1, label=f"optimum, {law}")
    axes.set(title=f"accepted at all, {sampling}", xlabel="children of a node", ylim=(None, 1))


def _leaf_order(plan: Plan) -> np.ndarray:
    """float [n]: leaves side by side in depth-first order, parents above their children."""
    children = plan.tree.children
    across = np.zeros(len(children))
    seats = iter(range(len(children)))
    stack = [0]
    while stack:
        node = stack.pop()
        if not children[node]:
            across[node] = next(seats)
        stack.extend(reversed(children[node]))
    for node in reversed(range(len(children))):
        if children[node]:
            across[node] = across[list(children[node])].mean()
    return across


FIGURES: dict[type, Callable[[Any], Figure]] = {
    Profile: profile_figure,
    Plan: plan_figure,
    Report: report_figure,
    HeadCard: head_figure,
    Check: check_figure,
}
