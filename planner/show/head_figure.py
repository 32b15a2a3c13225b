"""A trained head in a figure: how it learned, how right its scores are, and what it brings."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..documents.head_card import HeadCard
from .drawing import DRAFT, INK, QUIET, TARGET, plain

STYLES = {
    "fixed": (INK, "o-"),
    "head": (DRAFT, "o-"),
    "confidence": (TARGET, "s--"),
    "entropy": ("#7a9e3a", "^--"),
    "probability": (QUIET, "v--"),
}


def head_figure(card: HeadCard) -> Figure:
    """Loss by step; scores against what was accepted; discard against verification rates."""
    figure = Figure(figsize=(13, 4.4), layout="constrained")
    loss, fit, rates = figure.subplots(1, 3)
    places = (np.arange(len(card.losses)) + 0.5) / len(card.losses) * card.training.epochs
    loss.plot(places, card.losses, color=DRAFT, linewidth=1.2)
    loss.set(
        title=f"weighted loss in training (rejections weigh {card.training.reject_weight:g})",
        xlabel="epoch", ylabel="nats per token",
    )  # fmt: skip
    _calibration(fit, card)
    _stopping(rates, card)
    title = f"acceptance head for {card.draft.name} beside {card.target.name}, {card.sampling}"
    figure.suptitle(title, fontsize=10)
    return plain(figure)


def _calibration(axes: Axes, card: HeadCard) -> None:
    found, bins = card.evaluation, card.evaluation.calibration
    accepted = [one.accepted for one in bins]
    axes.plot([0, 1], [0, 1], ":", color=QUIET, linewidth=1)
    axes.plot([one.score for one in bins], accepted, "o-", ms=4, color=QUIET, label="score")
    if card.training.reject_weight != 1:
        predicted = [one.predicted for one in bins]
        axes.plot(predicted, accepted, "o-", ms=4, color=DRAFT, label="weight undone")
    axes.set(
        title="held-out tokens in ten bins of equal size\n"
        f"KL {found.kl_unweighted:.3f} with the weight undone, "
        f"of a constant {found.kl_constant:.3f}",
        xlabel="predicted acceptance", ylabel="accepted", xlim=(0, 1), ylim=(0, 1),
    )  # fmt: skip
    axes.legend(fontsize=8, frameon=False, loc="upper left")


def _stopping(axes: Axes, card: HeadCard) -> None:
    for curve in card.evaluation.stopping:
        colour, style = STYLES[curve.rule]
        points = sorted(curve.points, key=lambda point: point.discard_rate)
        axes.plot(
            [point.discard_rate for point in points],
            [point.verification_rate for point in points],
            style, color=colour, ms=3.5, linewidth=1, label=curve.rule,
        )  # fmt: skip
    fixed = next(each for each in card.evaluation.stopping if each.rule == "fixed")
    widest = max(point.discard_rate for point in fixed.points[:8])
    axes.set(
        title="stopping rules, held-out texts: lower left is better",
        xlabel="tokens discarded per token", ylabel="target passes per token", xlim=(0, widest),
    )  # fmt: skip
    axes.legend(fontsize=8, frameon=False)
