"""The numbers that Sequoia's tables print, and the times that follow from them.

A speedup is tokens per step over what a step takes, in units of a token of the target alone: so
that a printed row says what its step took.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Printed:
    """A way of drafting, as a row prints it."""

    num_nodes: int
    depth: int
    """Levels below the root: printed depths count it."""
    tokens: float
    """Emitted a step."""
    speedup: float

    @property
    def step(self) -> float:
        """A step's time over that of a token of the target alone."""
        return self.tokens / self.speedup


@dataclass(frozen=True)
class PrintedContest:
    """Sequoia's tree beside SpecInfer's chains, by their shapes."""

    best: Printed
    others: dict[str, Printed]

    @property
    def ways(self) -> list[Printed]:
        """All, Sequoia's first."""
        return [self.best, *self.others.values()]


def _contest(best: tuple[int, int, float, float], *others: tuple[float, float]) -> PrintedContest:
    """5x8 and 8x8."""
    shapes = {"5x8": (41, 8), "8x8": (65, 8)}
    rows = {
        name: Printed(*shape, *row)
        for (name, shape), row in zip(shapes.items(), others, strict=True)
    }
    return PrintedContest(Printed(*best), rows)


A100 = {
    0.0: _contest((128, 9, 5.08, 4.04), (3.96, 3.45), (4.11, 3.70)),
    0.6: _contest((128, 6, 3.92, 3.18), (2.97, 2.47), (3.05, 2.45)),
}
"""Table 4, by temperature: Llama2-7B drafted for by JF68M, on C4."""
L40 = {
    0.0: _contest((64, 9, 4.68, 3.95), (3.98, 3.50), (4.10, 3.30)),
    0.6: _contest((64, 6, 3.63, 3.10), (2.89, 2.28), (3.08, 2.31)),
}
"""Table 7, the same."""
OFFLOADED = {
    0.0: PrintedContest(Printed(768, 21, 12.18, 9.96), {"16x48": Printed(769, 48, 8.66, 6.46)}),
    0.6: PrintedContest(Printed(768, 22, 10.12, 8.26), {"16x48": Printed(769, 48, 6.93, 5.20)}),
}
"""Table 5: Llama2-70B drafted for by Llama2-7B, on C4."""

OFFLOADED_MS = 5600.0
"""A token of Llama2-70B alone, offloaded on an L40 (section 4.1)."""
OFFLOADED_STEPS = np.array([
    [12.18, 9.96, 22], [10.12, 8.26, 23], [9.83, 8.14, 18], [9.05, 7.39, 19], [10.46, 8.78, 17],
    [9.58, 8.03, 18],
])  # fmt: skip
"""All rows of Table 5: tokens per step, speedup, levels with the root's; trees of 768 nodes."""


def offloaded_times() -> tuple[float, float]:
    """(a pass over 768 nodes, a draft pass) in ms: least squares over the steps of Table 5."""
    tokens, speedup, layers = OFFLOADED_STEPS.T
    steps = OFFLOADED_MS * tokens / speedup
    columns = np.column_stack([np.ones(len(steps)), layers - 1])
    verify, draft = np.linalg.lstsq(columns, steps, rcond=None)[0]
    return float(verify), float(draft)


HARDWARE = {
    "L40, Llama2-13B": {64: (4.40, 3.26), 128: (4.77, 3.16), 256: (5.09, 2.51)},
    "A100, Vicuna-33B": {64: (4.41, 2.37), 128: (4.99, 2.09), 256: (5.30, 1.72)},
}
"""Table 3: by nodes, tokens per step and speedup.  The first is the size that the optimizer chose,
which is not printed there; Tables 4 and 7 have 64 for both."""
