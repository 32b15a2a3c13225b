"""Measured over predicted numbers, for many reports at once."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..plans.report import Reports
from .drawing import DRAFT, INK, QUIET, TARGET, apart, plain, tip
from .promises import Promise, kept_words, promises

FEW = 8
"""Promises that have their names beside them, at most."""
NAME = 24.0
"""Points that a name and its dot take up."""


def promises_figure(reports: Reports) -> Figure:
    """Tokens per step and speedup, a dot a report: on the diagonal where it came as predicted."""
    figure = Figure(figsize=(9.6, 4.9), layout="constrained")
    for axes, (what, found) in zip(figure.subplots(1, 2), promises(reports).items(), strict=True):
        _draw(axes, found)
        words = kept_words(found) if found else "nothing was both predicted and measured"
        axes.set(title=f"{what}: {words}", xlabel="predicted", ylabel="measured")
    return plain(figure)


def _draw(axes: Axes, found: list[Promise]) -> None:
    """The dots with their 95 % intervals both ways, and the diagonal."""
    bounds = [end for each in found for number in (each.predicted, each.measured)
              for end in (number.low, number.high)] or [1.0]  # fmt: skip
    margin = 0.06 * (max(bounds) - min(bounds)) or 0.1
    ends = np.array([min(bounds) - margin, max(bounds) + margin])
    axes.plot(ends, ends, color=QUIET, linewidth=1, linestyle=":", zorder=1)
    axes.annotate(
        "as predicted", (ends[1], ends[1]), xytext=(-8, -4), textcoords="offset points",
        ha="right", va="bottom", rotation=45, rotation_mode="anchor", fontsize=8, color=INK,
    )  # fmt: skip
    for each in found:
        predicted, measured = each.predicted, each.measured
        colour = TARGET if each.is_kept else DRAFT
        for xs, ys in (
            ((predicted.low, predicted.high), (measured.value, measured.value)),
            ((predicted.value, predicted.value), (measured.low, measured.high)),
        ):
            axes.plot(xs, ys, color=colour, linewidth=1, alpha=0.45, zorder=2)
        dot = axes.plot(predicted.value, measured.value, "o", color=colour, markersize=6, zorder=3)
        tip(dot, f"{each.report}: {predicted} predicted, {measured} measured")
    axes.set(xlim=ends, ylim=ends, aspect="equal")
    _name(axes, sorted(_to_name(found), key=lambda each: each.measured.value))


def _name(axes: Axes, found: list[Promise]) -> None:
    """Names beside their dots, moved so far up or down that none is on another; lowest first."""
    places = [(each.predicted.value, each.measured.value) for each in found]
    points = 72 / axes.figure.dpi
    heights = [float(axes.transData.transform(place)[1]) * points for place in places]
    for each, place, own, height in zip(found, places, heights, apart(heights, NAME), strict=True):
        axes.annotate(
            each.report, place, xytext=(5, 4 + height - own), textcoords="offset points",
            fontsize=8, color=INK, zorder=4,
        )  # fmt: skip


def _to_name(found: list[Promise]) -> list[Promise]:
    """All, where they are few; else those that were broken the most."""
    if len(found) <= FEW:
        return found
    broken = [each for each in found if not each.is_kept]
    return sorted(broken, key=lambda each: each.off, reverse=True)[:FEW]
