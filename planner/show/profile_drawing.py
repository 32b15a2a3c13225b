"""The facts of a profile as pictures: times by size, and how often children are accepted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from ..documents.profile import Acceptance, Profile
from ..documents.sampling import Sampling
from ..estimates.assumed_acceptance import PowerLaw
from .counted_drawing import draw_counted
from .drawing import DRAFT, INK, MANY, MARKS, PAGE_WIDTH, QUIET, TARGET, Name, named, plain, spots

NOTHING = 1e-6
"""A share below which nothing is left but rounding."""
ROOM = 4.0
"""The end of the scale over the largest number of children: names stand there."""
Pass = Literal["verify", "draft"]
WHOLE_STEPS = "steps of n nodes"
LOOKS = {
    "verify": (TARGET, "verifying n nodes", "n (root included)"),
    "draft": (DRAFT, "one draft pass", "nodes in the level"),
}


def times_figure(profile: Profile) -> Figure:
    """Verifying and drafting, one above the other; of whole steps one alone."""
    if profile.costs[0].are_whole:
        figure = Figure(figsize=(PAGE_WIDTH, 3.4), layout="constrained")
        draw_times(figure.subplots(), profile, "verify")
        return plain(figure)
    figure = Figure(figsize=(PAGE_WIDTH, 5.2), layout="constrained")
    verify, draft = figure.subplots(2, 1, height_ratios=(3, 2))
    draw_times(verify, profile, "verify")
    draw_times(draft, profile, "draft")
    return plain(figure)


def acceptance_figure(profile: Profile, sampling: Sampling) -> Figure:
    """The picture of `draw_acceptance` alone."""
    figure = Figure(figsize=(PAGE_WIDTH, 4), layout="constrained")
    draw_acceptance(figure.subplots(), profile, sampling)
    return plain(figure)


def draw_acceptance(axes: Axes, profile: Profile, sampling: Sampling) -> None:
    """How often children are rejected, or what an engine counted, under one sampling."""
    entries = [entry for entry in profile.acceptance if entry.sampling == sampling]
    if entries[0].counted:
        draw_counted(axes, profile, entries[0])
    else:
        draw_rejected(axes, profile, sampling)


def draw_times(axes: Axes, profile: Profile, what: Pass) -> None:
    """Times of passes at every context, quartiles shaded, and one token of the target alone."""
    colour, title, counted = LOOKS[what]
    title = WHOLE_STEPS if profile.costs[0].are_whole else title
    for shade, costs in zip(np.linspace(1, 0.45, len(profile.costs)), profile.costs, strict=True):
        curve = costs.verify if what == "verify" else costs.draft
        axes.fill_between(
            curve.counts, curve.low_ms, curve.high_ms, color=colour, alpha=0.15 * shade, linewidth=0
        )
        axes.plot(
            curve.counts, curve.median_ms, "o-", ms=3, color=colour, alpha=shade,
            label=f"context {costs.context}" + (f", {costs.sampling}" if costs.sampling else ""),
        )  # fmt: skip
        words = [
            f"{n}: {median:.3g} ms [{low:.3g}, {high:.3g}]"
            for n, median, low, high in zip(
                curve.counts, curve.median_ms, curve.low_ms, curve.high_ms, strict=True
            )
        ]
        spots(axes, curve.counts, curve.median_ms, words)
    if what == "verify":
        alone = profile.costs[0].target_step.median_ms[0]
        axes.axhline(alone, color=QUIET, linestyle=":", linewidth=1)
        axes.annotate(
            "one autoregressive token", (1, alone), xycoords=("axes fraction", "data"),
            ha="right", va="top", fontsize=8, color=INK, xytext=(0, -3), textcoords="offset points",
        )  # fmt: skip
    name = profile.target.name if what == "verify" else profile.draft.name
    axes.set(title=f"{title}: {name}", xlabel=counted, ylabel="ms (median, quartiles)")
    axes.set_ylim(0, None)
    if len(profile.costs) > 1:
        axes.legend(fontsize=8, frameon=False)
    _by_count(axes)


def draw_rejected(axes: Axes, profile: Profile, sampling: Sampling) -> None:
    """How often all children of a node are rejected, by their number, under one sampling: both
    scales logarithmic, so that a power law is a straight line; beside it the least possible.

    A line is drawn as far as there is something to see: 0 has no place on this scale.
    """
    entries = [entry for entry in profile.acceptance if entry.sampling == sampling]
    looks = cycle(zip(MANY, MARKS, strict=True))
    lines = [(entry, entry.verifier, *look) for entry, look in zip(entries, looks, strict=False)]
    if sampling.is_greedy:
        lines = [(entries[0], "all verifiers", TARGET, "o")]
    ends = _draw_law(axes, [entry for entry, *_ in lines])
    for entry, name, colour, mark in lines:
        counts, shares = _seen(1 - entry.by_count())
        doubled = [n - 1 for n in (1, 2, 4, 8, 16, 32) if n <= len(counts)]
        axes.plot(counts, shares, f"{mark}-", ms=4, linewidth=1, color=colour, markevery=doubled)
        words = [f"{name}, {n}: {s:.3f} rejected" for n, s in zip(counts, shares, strict=True)]
        spots(axes, counts, shares, words)
        ends += [Name(name, counts[-1], shares[-1], colour)] if len(counts) else []
    bounds = [bound for bound in profile.optimal if bound.sampling == sampling]
    for bound in bounds:
        # of one child both laws are the same; the one measured at more positions sets the level
        sharpest = max(bounds, key=lambda b: sum(prompt.num_positions for prompt in b.prompts))
        best = np.minimum(bound.mean() * sharpest.mean()[0] / max(bound.mean()[0], 1e-12), 1)
        counts, shares = _seen(1 - best)
        axes.plot(counts, shares, ":" if bound.replacement else "--", color=INK, linewidth=1)
        ends += [Name(f"least, {bound.law}", counts[-1], shares[-1], INK)] if len(counts) else []
    axes.set(title=f"all children rejected, {sampling}", xlabel="children of a node")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")
    _by_count(axes)
    last = max((each.x for each in ends), default=1)
    axes.set_xlim(0.6, ROOM * last)
    axes.set_xticks(2 ** np.arange(int(np.log2(last)) + 1))
    named(axes, [each for each in ends if 2 * each.x >= last], size=8)
    for each in ends:
        if 2 * each.x < last:
            axes.annotate(
                each.words, (each.x, each.y), xytext=(-4, 1), textcoords="offset points",
                ha="right", va="top", fontsize=8, color=each.colour, zorder=7,
            )  # fmt: skip


def _draw_law(axes: Axes, entries: Sequence[Acceptance]) -> list[Name]:
    """The power law of the verifier that rejects least where most children were measured."""
    best = min(entries, key=lambda entry: (-entry.num_ranks, 1 - entry.by_count()[-1]))
    counts, shares = _seen(1 - best.by_count())
    if len(shares) < 2 or not shares[-1] < shares[0] < 1:
        return []
    law = PowerLaw.near(shares)
    axes.plot(counts, law.rejected, color=QUIET, linewidth=5, alpha=0.35, zorder=1)
    words = f"power law, {shares[0]:.2g} / k^{law.exponent:.2g}"
    return [Name(words, counts[-1], law.rejected[-1], INK)]


def _seen(shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of children, from 1, and their shares, before the first that is but rounding."""
    nothing = np.flatnonzero(shares < NOTHING)
    end = int(nothing[0]) if len(nothing) else len(shares)
    return np.arange(1, end + 1), shares[:end]


def _by_count(axes: Axes) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
