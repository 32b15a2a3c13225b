"""Tables of growing and fixed trees that were measured side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .outputs import ContestRow, contest_table, markdown


@dataclass(frozen=True)
class GrowingRow(ContestRow):
    """One entrant at one pair, shape and temperature."""

    entrant: str
    drafting: str
    verifier: str
    tokens_per_step: float
    predicted_tokens: float | None
    passes_per_step: float
    """Draft passes."""
    step_ms: float
    predicted_step_ms: float | None
    speedup: float
    speedup_error: float
    """Standard error, over prompts."""
    predicted_speedup: float | None
    rival: str | None = None
    """The fastest of those that this entrant has to stand up to, if there are any: one or two, each
    picked on one half of the texts and times."""
    gain: float | None = None
    """The fraction by which this one was faster, compared on the other half (`lead`)."""
    gain_error: float | None = None
    """Standard error, over prompts, of which all decoded the same."""

    @property
    def words(self) -> list[str]:
        """The cells of the table of all details."""
        speedup = f"{self.speedup:.2f} ± {self.speedup_error:.2f}"
        return [
            *self.contest, self.entrant, f"{self.drafting}, {self.verifier}",
            against(f"{self.tokens_per_step:.2f}", self.predicted_tokens),
            f"{self.passes_per_step:.2f}",
            against(f"{self.step_ms:.1f}", self.predicted_step_ms, digits=1),
            against(speedup, self.predicted_speedup),
        ]  # fmt: skip


def against(measured: str, predicted: float | None, *, digits: int = 2) -> str:
    """The measured number, and in brackets the predicted one, if there is any."""
    return measured if predicted is None else f"{measured} ({predicted:.{digits}f})"


ALL: tuple[str, ...] = ()
RIVALS = {"price": ALL, "dyspec, threshold": ("dyspec, threshold, best of a grid",)}
"""Whom an entrant is compared with: `ALL` others, or some."""

FIXED = ("best fixed tree", "best chain")
"""Entrants that draft the same tree in every step."""

HEAD = (
    "pair", "shape", "T", "solver", "plan", "tokens per target pass (predicted)",
    "draft passes per target pass", "ms per step (predicted)", "speedup (predicted)",
)  # fmt: skip


def details(rows: Sequence[GrowingRow]) -> str:
    """All rows, in Markdown."""
    return markdown(HEAD, [row.words for row in rows])


def table(rows: Sequence[GrowingRow]) -> str:
    """Speedups measured (and predicted), the fastest of each contest in bold, in Markdown, and what
    they say."""

    def cell(row: GrowingRow, together: Sequence[GrowingRow]) -> str:
        best = row is max(together, key=lambda each: each.speedup)
        measured = f"**{row.speedup:.2f}**" if best else f"{row.speedup:.2f}"
        return against(measured, row.predicted_speedup)

    speedups = contest_table(rows, lambda row: row.entrant, cell)
    return "\n".join([speedups, "", *summary(rows)])


def summary(rows: Sequence[GrowingRow]) -> list[str]:
    """The price of time against everything else, thresholds planned against tuned ones."""
    lines = []
    for entrant, rivals in RIVALS.items():
        gains = [
            (row.gain, row.gain_error)
            for row in rows
            if row.entrant == entrant and row.gain is not None and row.gain_error is not None
        ]
        if not gains:
            continue
        each = ", ".join(f"{value:+.1%} ± {error:.1%}" for value, error in gains)
        equal = sum(value >= -1.96 * error for value, error in gains)
        within = sum(value >= -0.01 for value, _ in gains)
        others = " or ".join(f"`{rival}`" for rival in rivals) or (
            "the fastest of all others (picked on one half of the texts and times, compared on the "
            "other)"
        )
        lines.append(
            f"- `{entrant}` over {others}, row by row: {each}. At most 1 % slower in {within} of "
            f"{len(gains)}, at most 1.96 standard errors in {equal}."
        )
    speedups = []
    steps = defaultdict(list)
    for row in rows:
        if row.predicted_speedup and row.predicted_step_ms:
            speedups.append(row.speedup / row.predicted_speedup - 1)
            kind = "fixed" if row.entrant in FIXED else "growing"
            what = f"{kind} trees, {'inflated' if row.shape else 'as it is'}"
            steps[what].append(row.step_ms / row.predicted_step_ms - 1)
    if speedups:
        each = "; ".join(f"{what}: {spread(values)}" for what, values in sorted(steps.items()))
        lines.append(f"- Speedup measured over predicted: {spread(speedups)}.")
        lines.append(f"- Time of a step measured over predicted: {each}.")
    return lines


def spread(values: Sequence[float]) -> str:
    """Median and range of fractions, in words."""
    low, middle, high = np.percentile(values, [0, 50, 100])
    return f"median {middle:+.1%}, from {low:+.1%} to {high:+.1%}"
