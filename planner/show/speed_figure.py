"""How fast are trees of every size and depth, and where among them does a plan stand?"""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from matplotlib.transforms import ScaledTranslation

from ..documents.document import PlannerError
from ..documents.estimate import Estimate
from ..documents.profile import Profile
from ..optimizer.landscape import Landscape, landscape
from ..plans.alternatives import Alternative
from ..plans.plan import Plan
from .drawing import (
    DRAFT,
    INK,
    PAGE_WIDTH,
    PAPER,
    QUIET,
    TARGET,
    Name,
    named,
    plain,
    spots,
    tip,
    whiskers,
)

FEW_DEPTHS = (1, 2, 4, 8)
"""Levels whose lines are drawn, beside the plan's."""
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Outcome:
    """The speed that a plan turned out to have, and who says so."""

    name: str
    speedup: Estimate


def speed_figure(
    plan: Plan, profile: Profile | None = None, measured: tuple[Outcome, ...] = ()
) -> Figure:
    """The picture of `draw_speed` alone."""
    figure = Figure(figsize=(PAGE_WIDTH, 3.3), layout="constrained")
    draw_speed(figure.subplots(), plan, profile, measured)
    return plain(figure)


def draw_speed(
    axes: Axes, plan: Plan, profile: Profile | None = None, measured: tuple[Outcome, ...] = ()
) -> None:
    """Speed against not speculating by number of nodes: the best fixed tree of every size with its
    interval, those of some depths, the plan, what it was weighed against, and what was measured.

    profile  that the plan was made from; without one only what the plan itself says is drawn
    """
    found = None
    if profile is not None:
        try:
            found = landscape(profile, plan)
        except PlannerError:  # the profile is of something else
            found = None
    sizes, ends = [2.0], []
    if found is not None and found.candidates:
        ends = _lines(axes, found, plan)
        sizes += [each.num_nodes for each in found.candidates]
    alternatives = plan.made_from.alternatives if plan.made_from else []
    others = [each for each in alternatives if each.speculates]
    for each in others:
        sizes.append(each.nodes)
        _alternative(axes, each)
    if others:
        axes.lines[-1].set_label("other verifiers and solvers")
    _chosen(axes, plan, measured)
    axes.axhline(1, color=INK, linewidth=0.8, linestyle=(0, (2, 3)), zorder=1)
    axes.set_xscale("log", base=2)
    ticks = [size for size in SIZES if size <= 1.1 * max(sizes)]
    axes.set_xticks(ticks, [str(size) for size in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="nodes verified by a step", ylabel="speed, not speculating = 1")
    axes.set_xlim(0.85, 1.4 * max(sizes))
    axes.set_ylim(bottom=max(0.0, min(axes.get_ylim()[0], 0.9)))
    for x in {each.x for each in ends}:
        named(axes, [each for each in ends if each.x == x], size=7.5)
    axes.set_title("Speed by size and depth of the tree" if found else "What was weighed")
    if axes.get_legend_handles_labels()[0]:
        below = ScaledTranslation(0, -0.42, axes.figure.dpi_scale_trans)
        axes.legend(
            loc="upper left", bbox_to_anchor=(-0.02, 0), ncols=2,
            bbox_transform=axes.transAxes + below, fontsize=8, frameon=False,
            handletextpad=0.5, columnspacing=1.2,
        )  # fmt: skip


def _lines(axes: Axes, found: Landscape, plan: Plan) -> list[Name]:
    """Draw them; the depth of each at its end."""
    best = found.best
    sizes, speeds = [each.num_nodes for each in best], [each.speedup for each in best]
    axes.fill_between(
        sizes, [s.low for s in speeds], [s.high for s in speeds], color=TARGET, alpha=0.14,
        linewidth=0,
    )  # fmt: skip
    own = 0 if plan.grows or not plan.speculates else plan.tree.depth
    ends = []
    for depth, trees in found.by_depth.items():
        if len(trees) < 2 or depth not in (*FEW_DEPTHS, own):
            continue
        speeds_there = [each.speedup.value for each in trees]
        axes.plot(
            [each.num_nodes for each in trees], speeds_there, color=TARGET, linewidth=0.8,
            alpha=0.55, zorder=2,
        )  # fmt: skip
        ends.append(Name(f"depth {depth}", trees[-1].num_nodes, speeds_there[-1], TARGET))
    axes.plot(
        sizes, [s.value for s in speeds], color=TARGET, linewidth=1.9, zorder=3,
        label="best of its size, 95 %",
    )  # fmt: skip
    words = [f"{each.drafting.words()}: {each.speedup}" for each in best]
    spots(axes, sizes, [s.value for s in speeds], words)
    return ends


def _alternative(axes: Axes, one: Alternative) -> None:
    depth = f"{one.depth:.3g} levels"
    words = f"{one.solver} under {one.verifier}, {one.nodes:.3g} nodes, {depth}: {one.speedup}"
    mark = axes.plot(
        one.nodes, one.speedup.value, "o", color=QUIET, markerfacecolor=PAPER, markersize=5,
        markeredgewidth=1.1, zorder=4,
    )  # fmt: skip
    tip(mark, words)


def _chosen(axes: Axes, plan: Plan, measured: tuple[Outcome, ...]) -> None:
    """The plan with its interval, and beside it what came of it."""
    predicted = plan.predicted
    steps = predicted.steps if predicted else None
    nodes = steps.mean_nodes if steps else float(plan.drafting.most_nodes)
    if not plan.speculates:
        tip(axes.plot(1, 1, "o", color=DRAFT, markersize=9, zorder=6), "the plan: no draft")
        _label(axes, (1, 1), "the plan: no draft", DRAFT, 1)
    elif predicted is not None:
        promise = predicted.speedup
        whiskers(axes, nodes, promise, DRAFT)
        words = f"the plan, {plan.drafting.words()}: {promise} predicted"
        tip(axes.plot(nodes, promise.value, "o", color=DRAFT, markersize=9, zorder=6), words)
        _label(axes, (nodes, promise.value), f"the plan: {promise.value:.2f}", DRAFT, -1)
    for place, each in enumerate(measured):
        beside = nodes * 1.16 ** (1 + place)
        whiskers(axes, beside, each.speedup, INK)
        words = f"{each.name}: {each.speedup} measured"
        tip(axes.plot(beside, each.speedup.value, "D", color=INK, markersize=7, zorder=6), words)
        _label(axes, (beside, each.speedup.value), f"measured: {each.speedup.value:.2f}", INK, 1)


def _label(axes: Axes, place: tuple[float, float], words: str, colour: str, side: int) -> None:
    """Words beside a mark, on its left (-1) or right."""
    axes.annotate(
        words, place, xytext=(side * 9, 0), textcoords="offset points", fontsize=9, color=colour,
        ha="left" if side > 0 else "right", va="center", zorder=7,
        bbox={"boxstyle": "square,pad=0.1", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.85},
    )  # fmt: skip
