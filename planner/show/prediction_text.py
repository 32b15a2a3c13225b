"""How far predicted times are off: a roofline beside what profiles measured."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..documents.model_shape import ModelShape
from ..documents.profile import Profile
from ..documents.times import Costs
from ..estimates.roofline import Roofline
from .tables import Shown, table

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Nodes that are told of, as far as they were measured."""


def prediction_errors(profile: Profile, model: ModelShape, roofline: Roofline) -> Iterator[Shown]:
    """Predicted times of the target's passes beside the measured ones, and what is off.

    model  the profile's target
    """
    for costs in profile.costs:
        yield from _errors(costs, model, roofline)


def _errors(costs: Costs, model: ModelShape, roofline: Roofline) -> Iterator[Shown]:
    counts = [n for n in costs.verify.counts if n in SIZES]
    measured = np.array([costs.verify.median_ms[costs.verify.counts.index(n)] for n in counts])
    predicted = np.array(
        [
            roofline.pass_ms(model, n, batch_size=costs.batch_size, context=costs.context)
            for n in counts
        ]
    )
    curves = predicted / predicted[0], measured / measured[0]
    rows = [
        [str(n), f"{guess:.2f}", f"{truth:.2f}", _off(guess, truth), f"{one:.2f}", f"{two:.2f}",
         _off(one, two)]
        for n, guess, truth, one, two in zip(counts, predicted, measured, *curves, strict=True)
    ]  # fmt: skip
    title = f"{model.name}, batch {costs.batch_size}, context {costs.context}"
    title += f", {costs.sampling}" if costs.sampling else ""
    headings = [
        "n", "predicted, ms", "measured, ms", "off by", "t(n) predicted", "t(n) measured", "off by",
    ]  # fmt: skip
    yield table(title, headings, rows, num_left=0)
    yield (f"Times are off by {_worst(predicted, measured)} at worst, t(n) by {_worst(*curves)}.")


def _off(guess: float, truth: float) -> str:
    return f"{100 * (guess / truth - 1):+.0f} %"


def _worst(guess: np.ndarray, truth: np.ndarray) -> str:
    errors = guess / truth - 1
    return f"{100 * errors[np.abs(errors).argmax()]:+.0f} %"
