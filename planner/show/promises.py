"""Many reports side by side: which promises were kept?"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from ..documents.estimate import Estimate
from ..estimates.bootstrap import interval, ratio_samples
from ..estimates.intervals import around
from ..plans.check import differ
from ..plans.report import Report, Reports
from .tables import Shown, table
from .words import short_names

TOKENS, SPEED = "tokens per step", "speedup"


@dataclass(frozen=True)
class Promise:
    """A number that a plan promised, and what it turned out to be."""

    report: str
    predicted: Estimate
    measured: Estimate

    @property
    def is_kept(self) -> bool:
        """Is the difference within both 95 % intervals?"""
        return not differ(self.predicted, self.measured)

    @property
    def off(self) -> float:
        """The distance between promise and measurement, up or down, on the logarithmic scale."""
        return abs(log(self.measured.value / self.predicted.value))


def promises(reports: Reports) -> dict[str, list[Promise]]:
    """The promises of all reports about `TOKENS` and `SPEED`, where both numbers are known."""
    found: dict[str, list[Promise]] = {TOKENS: [], SPEED: []}
    for name, report in _named(reports).items():
        predicted = report.carried_out.predicted
        if predicted is None:
            continue
        measured = tokens_per_step(report)
        if measured is not None:
            found[TOKENS].append(Promise(name, predicted.tokens_per_step, measured))
        if report.baseline is not None:
            found[SPEED].append(Promise(name, predicted.speedup, report.baseline.speedup))
    return found


def tokens_per_step(report: Report) -> Estimate | None:
    """Measured, with its 95 % interval over prompts; of one prompt all that is possible.

    None where nothing was decoded.
    """
    texts = [text for text in report.continuations if text.tokens and text.tokens_by_step]
    if not texts:
        return None
    tokens = np.array([float(len(text.tokens)) for text in texts])
    steps = np.array([float(len(text.tokens_by_step)) for text in texts])
    most = max(max(text.tokens_by_step) for text in texts)
    low, high = interval(ratio_samples(tokens, steps), len(texts), least=1.0, most=float(most))
    return around(float(tokens.sum() / steps.sum()), low, high)


def show_reports(reports: Reports) -> list[Shown]:
    """A row for each report, measured beside predicted, and how many promises were kept."""
    headings = ["report", "plan", TOKENS, "predicted", SPEED, "predicted"]
    rows = []
    for name, each in _named(reports).items():
        promise, alone = each.carried_out.predicted, each.baseline
        numbers = (
            tokens_per_step(each),
            promise and promise.tokens_per_step,
            alone and alone.speedup,
            promise and promise.speedup,
        )
        rows.append([name, each.carried_out.words, *("" if n is None else str(n) for n in numbers)])
    kept = [f"{what}: {kept_words(found)}" for what, found in promises(reports).items() if found]
    parts: list[Shown] = [table("", headings, rows, num_left=2)]
    return [*parts, "\n".join(kept)] if kept else parts


def kept_words(found: list[Promise]) -> str:
    """The number of these that are kept."""
    return f"{sum(each.is_kept for each in found)} of {len(found)} as predicted"


def _named(reports: Reports) -> dict[str, Report]:
    return dict(zip(short_names(list(reports.by_path)), reports.by_path.values(), strict=True))
