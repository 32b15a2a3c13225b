"""Tables of growing and fixed trees that were measured side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np


@dataclass(frozen=True)
class GrowingRow:
    """One entrant at one pair, shape and temperature."""

    pair: str
    shape: str
    temperature: float
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
    """By which fraction this one was faster, compared on the other half (`lead`)."""
    gain_error: float | None = None
    """Standard error, over prompts, of which all decoded the same."""

    def markdown(self) -> str:
        def against(measured: str, predicted: float | None, digits: int) -> str:
            return measured if predicted is None else f"{measured} ({predicted:.{digits}f})"

        speedup = f"{self.speedup:.2f} ± {self.speedup_error:.2f}"
        return (
            f"| {self.pair} | {self.shape or 'as it is'} | {self.temperature:g} | {self.entrant} | "
            f"{self.drafting}, {self.verifier} | "
            f"{against(f'{self.tokens_per_step:.2f}', self.predicted_tokens, 2)} | "
            f"{self.passes_per_step:.2f} | "
            f"{against(f'{self.step_ms:.1f}', self.predicted_step_ms, 1)} | "
            f"{against(speedup, self.predicted_speedup, 2)} |"
        )

    def cell(self, *, best: bool) -> str:
        """Speedups, in bold where it is the best one."""
        measured = f"**{self.speedup:.2f}**" if best else f"{self.speedup:.2f}"
        known = self.predicted_speedup
        return measured if known is None else f"{measured} ({known:.2f})"


ALL: tuple[str, ...] = ()
RIVALS = {"price": ALL, "dyspec, threshold": ("dyspec, threshold, best of a grid",)}
"""Whom an entrant is compared with: `ALL` others, or some."""

FIXED = ("best fixed tree", "best chain")
"""Entrants that draft the same tree in every step."""

HEADER = (
    "| pair | shape | T | solver | plan | tokens per target pass (predicted) | draft passes per "
    "target pass | ms per step (predicted) | speedup (predicted) |\n" + "|---" * 9 + "|"
)


def details(rows: Sequence[GrowingRow]) -> str:
    """All rows, in Markdown."""
    return "\n".join([HEADER, *(row.markdown() for row in rows)])


def table(rows: Sequence[GrowingRow]) -> str:
    """Speedups measured (and predicted), the fastest of each contest in bold, in Markdown, and what
    they say."""
    entrants = list(dict.fromkeys(row.entrant for row in rows))
    lines = [
        "| pair | shape | T | " + " | ".join(entrants) + " |",
        "|---" * (3 + len(entrants)) + "|",
    ]
    for (pair, shape, temperature), group in contests(rows):
        best = max(group, key=lambda row: row.speedup)
        cells = {row.entrant: row.cell(best=row is best) for row in group}
        words = [pair, shape or "as it is", f"{temperature:g}"]
        words += [cells.get(entrant, "–") for entrant in entrants]
        lines.append("| " + " | ".join(words) + " |")
    return "\n".join([*lines, "", *summary(rows)])


def contests(rows: Sequence[GrowingRow]) -> list[tuple[tuple[str, str, float], list[GrowingRow]]]:
    """Rows of one pair, shape and temperature."""
    by_contest = groupby(rows, lambda row: (row.pair, row.shape, row.temperature))
    return [(contest, list(group)) for contest, group in by_contest]


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
    known = [row for row in rows if row.predicted_speedup and row.predicted_step_ms]
    if known:
        speedups = [row.speedup / (row.predicted_speedup or 1) - 1 for row in known]
        lines.append(f"- Speedup measured over predicted: {spread(speedups)}.")
        steps: dict[str, list[float]] = {}
        for row in known:
            kind = "fixed" if row.entrant in FIXED else "growing"
            what = f"{kind} trees, {'inflated' if row.shape else 'as it is'}"
            steps.setdefault(what, []).append(row.step_ms / (row.predicted_step_ms or 1) - 1)
        each = "; ".join(f"{what}: {spread(values)}" for what, values in sorted(steps.items()))
        lines.append(f"- Time of a step measured over predicted: {each}.")
    return lines


def spread(values: Sequence[float]) -> str:
    """Median and range of fractions, in words."""
    low, middle, high = np.percentile(values, [0, 50, 100])
    return f"median {middle:+.1%}, from {low:+.1%} to {high:+.1%}"


def rows_of_json(content: list[dict[str, Any]]) -> list[GrowingRow]:
    """The rows of a saved run."""
    return [GrowingRow(**row) for row in content]
