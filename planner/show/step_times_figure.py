"""How long did steps take?  The times of a run, one by one."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..plans.report import Report
from .drawing import DRAFT, INK, PAGE_WIDTH, QUIET, TARGET, plain, tip
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
    top = 1.45 * float(shares.max())
    predicted = report.plan.predicted and report.plan.predicted.step_ms
    ends = [first, last, float(times.mean())]
    if predicted is not None:
        axes.axvspan(predicted.low, predicted.high, color=QUIET, alpha=0.25, linewidth=0)
        _mean(axes, predicted.value, 0.97 * top, f"{predicted.value:.3g} predicted", INK)
        ends += [predicted.low, predicted.high]
    mean = float(times.mean())
    _mean(axes, mean, 0.85 * top, f"{mean:.3g} measured, on average", DRAFT)
    beyond = int((times > last).sum())
    if beyond:
        axes.annotate(
            f"{percent(beyond / len(times))} took longer,\nup to {times.max():.3g} ms", (1, 0.5),
            xycoords="axes fraction", ha="right", fontsize=8, color=INK,
        )  # fmt: skip
    margin = 0.04 * (max(ends) - min(ends))
    axes.set(
        xlim=(min(ends) - margin, max(ends) + margin), ylim=(0, top),
        xlabel="ms", ylabel="share of the steps", title="How long steps took",
    )  # fmt: skip


def _mean(axes: Axes, ms: float, height: float, words: str, colour: str) -> None:
    axes.axvline(ms, color=colour, linewidth=1.2)
    axes.annotate(
        words, (ms, height), xytext=(5, 0), textcoords="offset points", va="top", fontsize=8.5,
        color=colour,
    )  # fmt: skip
