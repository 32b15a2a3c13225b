"""The figures: one function per document, each returning a matplotlib figure."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from ..documents.document import PlannerError, write_atomically
from ..documents.estimate import Estimate
from ..documents.head_card import HeadCard
from ..documents.profile import Profile
from ..estimates.step_costs import timed_like
from ..optimizer import solve
from ..plans.check import Check
from ..plans.plan import Plan
from ..plans.report import Report, Reports
from .drawing import DRAFT, INK, PAGE_WIDTH, QUIET, TARGET, plain, tip
from .head_figure import head_figure
from .profile_drawing import Pass, draw_acceptance, draw_times
from .promises_figure import promises_figure
from .speed_figure import Outcome, draw_speed
from .step_times_figure import draw_step_times
from .step_trees_figure import draw_step_tree, tree_height
from .tree_figure import draw_tree, tree_figure
from .words import drafting_words, percent


def save_png(figure: Figure, path: str | Path) -> None:
    """Write `figure` to `path` atomically.  Raises PlannerError when that is not possible."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    write_atomically(path, buffer.getvalue())


def profile_figure(profile: Profile) -> Figure:
    """t(n) and draft cost by width at every context; how fast trees of every size would be; per
    sampling, how often each verifier rejects all children, or what an engine counted."""
    samplings = list(dict.fromkeys(entry.sampling for entry in profile.acceptance))
    names, plan = [str(sampling) for sampling in samplings], quick_plan(profile)
    times: list[Pass] = ["verify"] if profile.costs[0].are_whole else ["verify", "draft"]
    above = [*times, *(["speed"] if plan else [])]
    rows: list[Any] = [
        [each for each in above for _ in names],
        [each for each in names for _ in above],
    ]
    if len(names) == 1:
        wide = [*above, *names]
        rows = [wide[:2], wide[2:]] if len(wide) == 4 else [wide]
    across = max(len(names), len(above) if len(names) > 1 else len(rows[0]))
    figure = Figure(figsize=(4.6 * across, 0.6 + 3.4 * len(rows)), layout="constrained")
    named_axes = figure.subplot_mosaic(rows)
    for what in times:
        draw_times(named_axes[what], profile, what)
    if plan:
        draw_speed(named_axes["speed"], plan, profile)
    for name, sampling in zip(names, samplings, strict=True):
        draw_acceptance(named_axes[name], profile, sampling)
    return plain(figure)


def quick_plan(profile: Profile) -> Plan | None:
    """The best fixed tree at the first sampling, to draw; None where none can be planned."""
    try:
        return solve(profile, solver="auto" if profile.engine else "sequoia")
    except PlannerError:
        return None


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
        draw_tree(choice, plan)
    drafting = "trees that grow" if plan.grows else plan.drafting.words()
    choice.set_title(f"2. chosen: {drafting}, {plan.verifier}")
    draw_outcome(outcome, report)
    outcome.set_title("3. brought: predicted (bar), measured (dot)")
    return plain(figure)


def plan_figure(plan: Plan) -> Figure:
    """The tree of all steps, or what the trees of the steps will look like, beside what the plan
    was chosen from."""
    if not plan.made_from or not plan.made_from.alternatives:
        return steps_figure(plan) if plan.grows else tree_figure(plan)
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    figure.suptitle(f"{drafting_words(plan)}, {plan.sampling}", fontsize=9.5)
    if not plan.speculates:
        draw_speed(figure.subplots(), plan)
        return plain(figure)
    *left, speed = figure.subplots(1, 3 if plan.grows else 2)
    if plan.grows:
        _draw_steps(left, plan)
    else:
        draw_tree(left[0], plan)
    draw_speed(speed, plan)
    return plain(figure)


def steps_figure(plan: Plan) -> Figure:
    """How large and how deep the trees of the steps will be, where they grow."""
    figure = Figure(figsize=(PAGE_WIDTH, 2.8), layout="constrained")
    _draw_steps(figure.subplots(1, 2, sharey=True), plan)
    return plain(figure)


def _draw_steps(both: Sequence[Axes], plan: Plan) -> None:
    steps = plan.predicted.steps if plan.predicted else None
    for axes, name, shares in zip(
        both,
        ("nodes verified", "levels drafted"),
        (steps.nodes, steps.depth) if steps else ((), ()),
        strict=True,
    ):
        for count, bar in enumerate(axes.bar(range(len(shares)), shares, color=TARGET)):
            tip([bar], f"{count} {name}: {percent(shares[count])} of the steps")
        axes.set(xlabel=name, ylabel="share of the steps", xlim=(-0.5, None))
        axes.label_outer()


def reports_figure(reports: dict[str, Report]) -> Figure:
    """Predicted against measured, one row per report: tokens per step and speedup."""
    figure = Figure(figsize=(10, 1.6 + 0.5 * len(reports)), layout="constrained")
    tokens, speed = figure.subplots(1, 2, sharey=True)
    _kept_promises(tokens, speed, reports)
    return plain(figure)


def report_figure(report: Report) -> Figure:
    """Predicted against measured, beside what the plan was chosen from, how long steps took, and a
    few of their trees; where decoding followed the machine and the text, which settings it took
    instead, and what it believed."""
    if report.followed is not None:
        return followed_figure(report)
    if report.carried_out.predicted is None:
        return reports_figure({report.target.name: report})
    rows = 2 if report.ms_by_step else 1
    figure, above = _above_trees(2.2 + 1.4 * rows, report)
    grid = above.add_gridspec(rows, 2, width_ratios=(1.2, 1))
    draw_speed(above.add_subplot(grid[:, 0]), report.carried_out, measured=speeds(report))
    draw_outcome(above.add_subplot(grid[0, 1]), report)
    if report.ms_by_step:
        draw_step_times(above.add_subplot(grid[1, 1]), report)
    return plain(figure)


def _above_trees(height: float, report: Report) -> tuple[Figure, Figure | SubFigure]:
    """A figure at the bottom of which the report's trees are drawn, if it has some, and the part of
    it above them, `height` inches high."""
    trees = report.trees
    if not trees:
        figure = Figure(figsize=(11, height), layout="constrained")
        return figure, figure
    heights = height, max(map(tree_height, trees))
    figure = Figure(figsize=(11, sum(heights)), layout="constrained")
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, tree in zip(below.subplots(1, len(trees), squeeze=False)[0], trees, strict=True):
        draw_step_tree(axes, tree)
    return figure, above


def outcome_figure(report: Report) -> Figure:
    """The picture of `draw_outcome` alone."""
    figure = Figure(figsize=(PAGE_WIDTH, 2.4), layout="constrained")
    draw_outcome(figure.subplots(), report)
    return plain(figure)


def followed_figure(report: Report) -> Figure:
    """The promises; the setting of every step, what was believed behind it, and a few trees."""
    steps = [each.followed for each in report.continuations if each.followed]
    names = [textwrap.fill(each.words, 34) for each in report.plan.settings]
    figure, above = _above_trees(4.6 + 0.25 * len(names), report)
    rows: list[Any] = [["tokens", "speed"], ["settings", "settings"], ["beliefs", "beliefs"]]
    drawn = above.subplot_mosaic(rows, height_ratios=(2, 0.8 + 0.5 * len(names), 3))
    _kept_promises(drawn["tokens"], drawn["speed"], {report.target.name: report})
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
    tried = check.runs[1:]
    figure = Figure(figsize=(PAGE_WIDTH, 1.1 + 0.55 * len(tried)), layout="constrained")
    axes = figure.subplots()
    predicted = check.plan.predicted
    for row, run in enumerate(tried):
        promise = predicted.speedup if predicted and run is check.planned else None
        if promise is not None:
            _bar_and_dot(axes, row, promise, None, size=6)
        shown = run.speedup
        colour = DRAFT if run is check.planned else INK
        axes.plot([shown.low, shown.high], [row, row], color=colour, linewidth=1.6)
        words = f"{run.role}, {run.setting}: {shown} measured"
        tip(axes.plot(shown.value, row, "o", color=colour, markersize=7), words)
        axes.annotate(
            f"{run.role}: {run.setting}", (0, row), xycoords=("axes fraction", "data"),
            xytext=(4, 10), textcoords="offset points", fontsize=8.5, color=INK,
        )  # fmt: skip
    axes.set_yticks([])
    axes.set_ylim(len(tried) - 0.5, -0.9)
    axes.axvline(1, color=QUIET, linestyle=":", linewidth=1)
    axes.set(xlabel="speedup against decoding without speculation")
    axes.set_title(f"{check.engine.name}: bar: predicted, dots: measured, 95 %")
    return plain(figure)


def _relative_times(axes: Axes, profile: Profile, plan: Plan) -> None:
    """t(n) at the plan's context, quartiles shaded, and where on it the plan stands."""
    context = plan.made_from.context if plan.made_from else profile.costs[0].context
    timed = timed_like(plan.sampling, profile.costs)
    curve = min(timed, key=lambda costs: abs(costs.context - context)).verify
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
    axes.set_title("1. measured: what verifying n nodes costs")
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


def draw_outcome(axes: Axes, report: Report) -> None:
    """Tokens per step and speedup: predicted with its interval, measured as a dot with its own."""
    names = ("tokens\nper step", "speedup")
    both = zip(names, _outcomes(report), strict=True)
    known = [(name, *each) for name, each in both if each != (None, None)]
    for row, (_, predicted, measured) in enumerate(known):
        _bar_and_dot(axes, row, predicted, measured, size=8)
        words = [f"predicted {predicted.value:.2f}"] if predicted else []
        words += [] if measured is None else [f"measured {_middle(measured):.2f}"]
        axes.annotate(
            ", ".join(words), (1, row), xytext=(4, 12), textcoords="offset points", fontsize=9
        )
    axes.axvline(1, color=QUIET, linestyle=":", linewidth=1)
    axes.set_yticks(range(len(known)), [name for name, *_ in known])
    axes.set_ylim(len(known) - 0.5, -0.7)
    axes.set_xlim(min(0.9, axes.get_xlim()[0]), 1.1 * axes.get_xlim()[1])
    axes.set_title("Predicted (bar, 95 %) and measured (dot)")
    axes.set(xlabel="against decoding without drafts = 1")


def speeds(report: Report) -> tuple[Outcome, ...]:
    """The measured speed of a run, where there was a baseline."""
    if report.baseline is None:
        return ()
    return (Outcome(report.target.name, report.baseline.speedup),)


def _outcomes(report: Report) -> list[tuple[Estimate | None, Estimate | float | None]]:
    """Tokens per step and speedup: (predicted, measured)."""
    predicted, baseline = report.carried_out.predicted, report.baseline
    return [
        (predicted.tokens_per_step if predicted else None, report.measured.tokens_per_step),
        (predicted.speedup if predicted else None, baseline.speedup if baseline else None),
    ]


def _bar_and_dot(
    axes: Axes,
    row: int,
    predicted: Estimate | None,
    measured: Estimate | float | None,
    *,
    size: float,
) -> None:
    """A bar and a line at what was predicted, a dot, `size` points wide, at what was measured."""
    if predicted:
        interval = [predicted.low, predicted.high]
        bar = axes.plot(interval, [row, row], color=QUIET, linewidth=size - 1, alpha=0.6)
        tip(bar, f"{predicted} predicted")
        axes.plot(predicted.value, row, "|", color=INK, ms=size + 8)
    if isinstance(measured, Estimate):
        axes.plot([measured.low, measured.high], [row, row], color=DRAFT, linewidth=1.6)
    if measured is not None:
        dot = axes.plot(_middle(measured), row, "o", color=DRAFT, ms=size)
        tip(dot, f"{measured if isinstance(measured, Estimate) else f'{measured:.3f}'} measured")


def _middle(measured: Estimate | float) -> float:
    return measured.value if isinstance(measured, Estimate) else measured


FIGURES: dict[type, Callable[[Any], Figure]] = {
    Profile: profile_figure,
    Plan: plan_figure,
    Report: report_figure,
    Reports: promises_figure,
    HeadCard: head_figure,
    Check: check_figure,
}
