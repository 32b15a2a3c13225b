"""The facts of a profile as pictures: times by size, and how often children are accepted."""

from __future__ import annotations

from itertools import cycle
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..documents.profile import Profile
from ..documents.sampling import Sampling
from .drawing import DRAFT, INK, MANY, MARKS, PAGE_WIDTH, QUIET, TARGET, plain, spots

LOOKS = {
    "verify": (TARGET, "verifying n nodes", "n (root included)"),
    "draft": (DRAFT, "one draft pass", "nodes in the level"),
}


def times_figure(profile: Profile) -> Figure:
    """Verifying and drafting, one above the other."""
    figure = Figure(figsize=(PAGE_WIDTH, 5.2), layout="constrained")
    verify, draft = figure.subplots(2, 1, height_ratios=(3, 2))
    draw_times(verify, profile, "verify")
    draw_times(draft, profile, "draft")
    return plain(figure)


def accepted_figure(profile: Profile, sampling: Sampling) -> Figure:
    """How often any child is accepted, at one sampling."""
    figure = Figure(figsize=(PAGE_WIDTH, 4.4), layout="constrained")
    axes = figure.subplots()
    draw_accepted(axes, profile, sampling)
    figure.legend(loc="outside lower left", ncols=3, fontsize=8, frameon=False)
    return plain(figure)


def draw_times(axes: Axes, profile: Profile, what: Literal["verify", "draft"]) -> None:
    """Times of passes at every context, quartiles shaded, and one token of the target alone."""
    colour, title, counted = LOOKS[what]
    for shade, costs in zip(np.linspace(1, 0.45, len(profile.costs)), profile.costs, strict=True):
        curve = costs.verify if what == "verify" else costs.draft
        axes.fill_between(
            curve.counts, curve.low_ms, curve.high_ms, color=colour, alpha=0.15 * shade, linewidth=0
        )
        axes.plot(
            curve.counts, curve.median_ms, "o-", ms=3, color=colour, alpha=shade,
            label=f"context {costs.context}",
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


def draw_accepted(axes: Axes, profile: Profile, sampling: Sampling) -> None:
    """Acceptance by number of children under one sampling, beside the best that is possible."""
    entries = [entry for entry in profile.acceptance if entry.sampling == sampling]
    looks = cycle(zip(MANY, MARKS, strict=True))
    lines = [(entry, entry.verifier, *look) for entry, look in zip(entries, looks, strict=False)]
    if sampling.is_greedy:
        lines = [(entries[0], "all verifiers (T=0)", TARGET, "o")]
    for entry, name, colour, mark in lines:
        counts, shares = np.arange(1, entry.num_ranks + 1), entry.by_count()
        axes.plot(counts, shares, f"{mark}-", ms=3.5, linewidth=1, color=colour, label=name)
        words = [f"{name}, {n}: {share:.3f}" for n, share in zip(counts, shares, strict=True)]
        spots(axes, counts, shares, words)
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
    _by_count(axes)


def _by_count(axes: Axes) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
