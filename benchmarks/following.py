"""The closed loop beside an oracle that knows every step's time: how long until it finds the best?

    python -m benchmarks.following [-o FILE] [--page FILE]

Steps are drawn here, not decoded: a setting's time is the planned one, longer by f and g as the
condition says (`runtime.closed_loop`), with noise, in which some steps take up to four times as
long; in a storm steps scatter more, and one in seven loses ten plain steps' time.  The settings are
a plan's for the recorded profile of the embedded pair.  What is counted is the time that is to be
expected of the settings chosen, over that of the best one at every moment, which an oracle would
choose, and over that of no speculation; and after the last change the tokens until the loop keeps
to a setting that is nearly the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erf
from pathlib import Path

import numpy as np
from tqdm import tqdm

from planner import Profile
from planner.optimizer import solve
from planner.plans.settings import PlanSetting
from runtime.closed_loop import ClosedLoop

from .outputs import markdown, parser_of, publish

PROFILE = Path(__file__).parent.parent / "notebooks/data/inflated-to-25-M/profile.json"
SCATTER, SLOW_STEPS, SLOW = 0.12, 0.03, (1.5, 4.0)
"""Scatter of a step's time, as a logarithm; the share of steps that take so many times as long."""
STORM_SCATTER, STORM_SHARE, STORM_LOSS = 1.0, 1 / 7, 10.0
"""The same in a storm, of a factor of at least 1; and the share of steps that lose so many plain
ones' time besides."""
NEARLY, KEPT_FOR, KEEPING = 0.05, 50, 0.9
"""A setting is nearly the best that is at most so much slower; it is kept to where of so many steps
this share is in such a setting."""


@dataclass(frozen=True)
class Stretch:
    """A stretch of so many tokens: times longer by exp(f + (1 - e_0 / e_s) g), and the chance
    that a drafted token is accepted, as a multiple."""

    tokens: int
    f: float = 0.0
    g: float = 0.0
    chance: float = 1.0
    storm: bool = False


QUIET, CROWDED = Stretch(2000), Stretch(2000, f=0.4, g=2.5)
CONDITIONS: dict[str, tuple[Stretch, ...]] = {
    "as planned": (QUIET,),
    "all three times as slow": (Stretch(2000, f=1.1),),
    "others want the cores": (CROWDED,),
    "others want the cores, then not": (CROWDED, QUIET),
    "as planned, then others": (QUIET, CROWDED),
    "only drafting becomes slow": (QUIET, Stretch(2000, g=2.5)),
    "only drafting becomes quick again": (Stretch(2000, g=2.5), QUIET),
    "a storm at the start": (Stretch(100, f=0.7, g=1.2, storm=True), QUIET),
    "a storm in the middle": (QUIET, Stretch(1000, f=1.3, g=2.2, storm=True), QUIET),
    "a text that the draft does not know": (Stretch(2000, chance=0.4),),
    "such a text, then another": (Stretch(2000, chance=0.4), QUIET),
}


@dataclass(frozen=True)
class FollowingRow:
    """One condition, over several draws: means, and the worst of them."""

    condition: str
    num_draws: int
    over_oracle: float
    worst_over_oracle: float
    over_plain: float
    worst_over_plain: float
    found: float
    """Tokens after the last change until the loop keeps to a setting that is nearly the best."""
    worst_found: float


def run(
    settings: Sequence[PlanSetting], stretches: Sequence[Stretch], seed: int
) -> tuple[float, float, float]:
    """(time over the oracle's, over plain decoding's, tokens until the best was found)."""
    rng, loop = np.random.default_rng(seed), ClosedLoop(settings)
    planned = np.array([setting.step_ms for setting in settings])
    further = 1 - planned.min() / planned
    spent = best = plain = 0.0
    for stretch in stretches:
        typical = planned * np.exp(stretch.f + further * stretch.g)
        rates = expected(typical, storm=stretch.storm)
        emitted = np.array([setting.tokens_at(stretch.chance) for setting in settings])
        ms_per_token = rates / emitted
        good = ms_per_token <= (1 + NEARLY) * ms_per_token.min()
        written, steps = 0, []
        while written < stretch.tokens:
            which = loop.choose()
            accept, most = settings[which].chain
            num = 1
            while num <= most and rng.random() < accept * stretch.chance:
                num += 1
            loop.note(num, drawn(typical, which, rng, storm=stretch.storm))
            steps.append((written, good[which]))
            written += num
            spent += rates[which]
            best += ms_per_token.min() * emitted[which]
            plain += ms_per_token[-1] * emitted[which]
    return spent / best, spent / plain, found_at(steps, written)


def drawn(typical: np.ndarray, which: int, rng: np.random.Generator, *, storm: bool) -> float:
    """Milliseconds of one step, the last setting's being a plain one."""
    ms = typical[which] * np.exp(SCATTER * rng.normal())
    if rng.random() < SLOW_STEPS:
        ms *= rng.uniform(*SLOW)
    if storm:
        ms *= np.exp(abs(STORM_SCATTER * rng.normal()))
        ms += STORM_LOSS * typical[-1] * (rng.random() < STORM_SHARE)
    return float(ms)


def expected(typical: np.ndarray, *, storm: bool) -> np.ndarray:
    """float64 [settings]: the mean of `drawn`."""
    ms = typical * np.exp(SCATTER**2 / 2) * (1 + SLOW_STEPS * (np.mean(SLOW) - 1))
    if not storm:
        return ms
    ms *= np.exp(STORM_SCATTER**2 / 2) * (1 + erf(STORM_SCATTER / np.sqrt(2)))
    return ms + STORM_LOSS * STORM_SHARE * typical[-1]


def found_at(steps: Sequence[tuple[int, bool]], written: int) -> float:
    """Tokens of a stretch until, from some step on, enough of the next ones are in good settings.

    steps  tokens before each, and whether its setting is nearly the best
    """
    good = np.array([each for _, each in steps], float)
    for place, (before, each) in enumerate(steps):
        if each and good[place : place + KEPT_FOR].mean() >= KEEPING:
            return float(before)
    return float(written)


def table(rows: Sequence[FollowingRow]) -> str:
    """A line for each condition."""
    head = [
        "condition", "time over the oracle's (worst)", "over plain decoding's (worst)",
        "tokens until the best is found (worst)",
    ]  # fmt: skip
    return markdown(
        head,
        [
            [
                row.condition,
                f"{row.over_oracle:.3f} ({row.worst_over_oracle:.3f})",
                f"{row.over_plain:.2f} ({row.worst_over_plain:.2f})",
                f"{row.found:.0f} ({row.worst_found:.0f})",
            ]
            for row in rows
        ],
    )


def main() -> None:
    parser = parser_of(__doc__ or "", {"num-draws": (20, "draws of every condition")})
    arguments = parser.parse_args()
    settings = solve(Profile.load(PROFILE)).settings
    rows = []
    for name, stretches in tqdm(CONDITIONS.items()):
        every = [run(settings, stretches, seed) for seed in range(arguments.num_draws)]
        found = np.array(every)
        both = np.column_stack([found.mean(axis=0), found.max(axis=0)])
        rows.append(FollowingRow(name, len(every), *both.ravel().tolist()))
    publish(rows, table(rows), "following", arguments.output, arguments.page)
    print(table(rows))


if __name__ == "__main__":
    main()
