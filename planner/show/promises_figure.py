"""What was measured over what was predicted, for many reports at once."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..plans.report import Reports
from .drawing import DRAFT, INK, QUIET, TARGET, Name, named, plain, tip
from .promises import Promise, kept_words, promises

FEW = 8
"""Promises up to which each has its name; of more, only those that were not kept."""


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
    bounds = [1.0]
    labels = []
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
        bounds += [predicted.low, predicted.high, measured.low, measured.high]
        if len(found) <= FEW or not each.is_kept:
            labels.append(Name(each.report, predicted.value, measured.value, INK))
    margin = 0.06 * (max(bounds) - min(bounds)) or 0.1
    ends = np.array([min(bounds) - margin, max(bounds) + margin])
    axes.plot(ends, ends, color=QUIET, linewidth=1, linestyle=":", zorder=1)
    axes.annotate(
        "as predicted", (ends[1], ends[1]), xytext=(-4, -14), textcoords="offset points",
        ha="right", va="top", fontsize=8, color=QUIET,
    )  # fmt: skip
    axes.set(xlim=ends, ylim=ends, aspect="equal")
    named(axes, labels)
