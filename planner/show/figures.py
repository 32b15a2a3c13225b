"""The figures: one function per document, each returning a matplotlib figure."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..documents.document import write_atomically
from ..documents.profile import Profile
from ..documents.sampling import Sampling
from ..documents.times import Costs
from ..plans.plan import Plan
from ..plans.report import Report

INK, TARGET, DRAFT, QUIET = "#1b1b1b", "#1f6f8b", "#c8553d", "#9aa5a9"


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
    for shade, entry in zip(_shades(len(profile.costs)), profile.costs, strict=True):
        _times(costs, entry, "verify", TARGET, shade, f"context {entry.context}")
        _times(widths, entry, "draft", DRAFT, shade, f"context {entry.context}")
    first = profile.costs[0]
    costs.axhline(first.target_step.median_ms[0], color=QUIET, linestyle=":", linewidth=1)
    costs.annotate(
        "one autoregressive token", (costs.get_xlim()[1], first.target_step.median_ms[0]),
        ha="right", va="bottom", fontsize=8, color=QUIET,
    )  # fmt: skip
    costs.set(title=f"verifying n nodes: {profile.target.name}", xlabel="n (root included)")
    costs.set(ylabel="ms (median, quartiles)", ylim=(0, None))
    widths.set(title=f"one draft pass: {profile.draft.name}", xlabel="nodes in the level")
    widths.set(ylabel="ms (median, quartiles)", ylim=(0, None))
    panels = [named_axes[name] for name in names]
    for axes, sampling in zip(panels, samplings, strict=True):
        _accepted(axes, profile, sampling)
    for axes in (costs, widths, *panels):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        _plain(axes)
    for axes in (costs, widths):
        axes.legend(fontsize=7, frameon=False)
    named = {
        name: line
        for axes in panels
        for line, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        list(named.values()), list(named), loc="outside lower center", ncols=6, fontsize=8,
        frameon=False,
    )  # fmt: skip
    return figure


def tree_figure(plan: Plan) -> Figure:
    """The tree; a node's area is the probability that it is reached."""
    tree = plan.tree
    known = plan.predicted.reach if plan.predicted else None
    reach = np.ones(tree.num_nodes) if known is None else np.array(known)
    across = _leaf_order(plan)
    spread = max(across.max() - across.min(), 1.0)
    figure = Figure(figsize=(min(6 + 0.16 * spread, 16), 1.5 + 0.5 * tree.depth))
    height = figure.get_figheight()
    axes = figure.add_axes((0.02, 0.02, 0.96, 1 - 0.9 / height))
    for node in range(1, tree.num_nodes):
        parent = tree.parents[node]
        axes.plot(
            [across[parent], across[node]], [-tree.depths[parent], -tree.depths[node]],
            color=QUIET, linewidth=0.4 + 3 * reach[node], zorder=1,
        )  # fmt: skip
    axes.scatter(across, -tree.depths, s=6 + 240 * reach, color=TARGET, zorder=2)
    axes.set_axis_off()
    axes.margins(0.06, 0.12)
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
        _plain(axes)
    return figure


def reports_figure(reports: dict[str, Report]) -> Figure:
    """Predicted against measured, one row per report: tokens per step and speedup."""
    figure = Figure(figsize=(10, 1.6 + 0.5 * len(reports)), layout="constrained")
    tokens, speed = figure.subplots(1, 2, sharey=True)
    for row, report in enumerate(reports.values()):
        predicted = report.plan.predicted
        if predicted:
            for axes, estimate in (
                (tokens, predicted.tokens_per_step),
                (speed, predicted.speedup),
            ):
                axes.plot([estimate.low, estimate.high], [row, row], color=QUIET, linewidth=5)
                axes.plot(estimate.value, row, "|", color=INK, ms=14)
        tokens.plot(report.measured.tokens_per_step, row, "o", color=DRAFT)
        if report.baseline:
            speed.plot(report.baseline.speedup.value, row, "o", color=DRAFT)
    tokens.set_yticks(range(len(reports)), list(reports))
    tokens.invert_yaxis()
    tokens.set(xlabel="tokens per step", title="bar: predicted, 95 %; dot: measured")
    speed.set(xlabel="speedup against autoregressive decoding")
    speed.axvline(1, color=QUIET, linestyle=":", linewidth=1)
    for axes in (tokens, speed):
        axes.margins(y=0.3 if len(reports) > 1 else 1)
        _plain(axes)
    return figure


def _times(axes, costs: Costs, field: str, colour: str, shade: float, label: str) -> None:  # type: ignore[no-untyped-def]
    curve = getattr(costs, field)
    axes.fill_between(curve.counts, curve.low_ms, curve.high_ms, color=colour, alpha=0.15 * shade)
    axes.plot(curve.counts, curve.median_ms, "o-", ms=3, color=colour, alpha=shade, label=label)


def _accepted(axes, profile: Profile, sampling: Sampling) -> None:  # type: ignore[no-untyped-def]
    """Acceptance by number of children under one sampling, beside the best that is possible."""
    entries = [entry for entry in profile.acceptance if entry.sampling == sampling]
    if sampling.temperature == 0:
        entries = entries[:1]  # all verifiers are one rule there
    for place, entry in enumerate(entries):
        accepted = entry.by_count()
        name = entry.verifier if sampling.temperature > 0 else "all verifiers (T=0)"
        colour = f"C{place}" if sampling.temperature > 0 else TARGET
        counts = np.arange(1, len(accepted) + 1)
        axes.plot(counts, accepted, "o-", ms=3, linewidth=1, color=colour, label=name)
    bounds = [bound for bound in profile.optimal if bound.sampling == sampling]
    for bound in bounds:
        # of one child both laws are the same; the one measured at more positions sets the level
        sharpest = max(bounds, key=lambda b: sum(prompt.num_positions for prompt in b.prompts))
        best = np.minimum(bound.mean() * sharpest.mean()[0] / max(bound.mean()[0], 1e-12), 1)
        law = "drawn independently" if bound.replacement else "without replacement"
        style = ":" if bound.replacement else "--"
        counts = np.arange(1, len(best) + 1)
        axes.plot(counts, best, style, color=INK, linewidth=1, label=f"optimum, {law}")
    axes.set(title=f"accepted at all, {sampling}", xlabel="children of a node", ylim=(None, 1))


def _shades(count: int) -> np.ndarray:
    return np.linspace(1, 0.45, count)


def _plain(axes) -> None:  # type: ignore[no-untyped-def]
    axes.spines[["top", "right"]].set_visible(False)
    axes.title.set_fontsize(9)


def _leaf_order(plan: Plan) -> np.ndarray:
    """float [n]: leaves side by side in depth-first order, parents above their children."""
    tree = plan.tree
    across = np.zeros(tree.num_nodes)
    seats = iter(range(tree.num_nodes))
    stack, order = [0], []
    while stack:
        node = stack.pop()
        order.append(node)
        if not tree.children[node]:
            across[node] = next(seats)
        stack.extend(reversed(tree.children[node]))
    for node in reversed(order):
        if tree.children[node]:
            across[node] = np.mean([across[child] for child in tree.children[node]])
    return across


FIGURES: dict[type, Callable[[Any], Figure]] = {
    Profile: profile_figure,
    Plan: plan_figure,
    Report: lambda report: reports_figure({report.target.name: report}),
}
