"""The times of a run's steps, one by one."""

from __future__ import annotations

from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..plans.report import Report
from .drawing import DRAFT, INK, PAGE_WIDTH, PAPER, QUIET, TARGET, plain, tip
from .words import percent

BINS = 40
SHOWN = 0.99
"""The share of the steps that the scale is for: a few may have waited many times as long."""


def step_times_figure(report: Report) -> Figure:
    """The picture of `draw_step_times` alone."""
    figure = Figure(figsize=(PAGE_WIDTH, 2.6), layout="constrained")
    draw_step_times(figure.subplots(), report)
    return plain(figure)


def draw_step_times(axes: Axes, report: Report) -> None:
    """Shares of the steps by their time, and the mean beside the one that was predicted.

    The report has times of steps.
    """
    times = np.array(report.ms_by_step)
    last = float(np.quantile(times, SHOWN))
    first = min(float(times.min()), last * 0.98)
    edges = np.linspace(first, last, BINS + 1)
    counts, _ = np.histogram(times, edges)
    shares = counts / len(times)
    bars = axes.bar(edges[:-1], shares, np.diff(edges), align="edge", color=TARGET, linewidth=0)
    for bar, low, high, share in zip(bars, edges, edges[1:], shares, strict=False):
        tip([bar], f"{low:.3g} to {high:.3g} ms: {percent(share)} of the steps")
    top, mean = 1.45 * float(shares.max()), float(times.mean())
    promise = report.carried_out.predicted
    predicted = promise.step_ms if promise else None
    ends = [first, last, mean]
    if predicted is not None:
        ends += [predicted.low, predicted.high]
    margin = 0.04 * (max(ends) - min(ends))
    left, right = min(ends) - margin, max(ends) + margin
    label = partial(_mean, axes, (left + right) / 2)
    if predicted is not None:
        axes.axvspan(predicted.low, predicted.high, color=QUIET, alpha=0.25, linewidth=0, zorder=0)
        label(predicted.value, 0.97 * top, f"{predicted.value:.3g} predicted", INK)
    label(mean, 0.85 * top, f"{mean:.3g} measured, on average", DRAFT)
    beyond = percent(float((times > last).mean()))
    axes.set(
        xlim=(left, right), ylim=(0, top), ylabel="share of the steps", title="How long steps took",
        xlabel=f"ms ({beyond} of the steps took longer, up to {times.max():.3g})",
    )  # fmt: skip


def _mean(axes: Axes, middle: float, ms: float, height: float, words: str, colour: str) -> None:
    """A line at a mean, its words on the side that has more room."""
    axes.axvline(ms, color=colour, linewidth=1.2)
    side = 1 if ms < middle else -1
    axes.annotate(
        words, (ms, height), xytext=(5 * side, 0), textcoords="offset points", va="top",
        ha="left" if side > 0 else "right", fontsize=8.5, color=colour,
        bbox={"boxstyle": "square,pad=0.1", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.85},
    )  # fmt: skip
