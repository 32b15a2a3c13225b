"""How much faster than the chosen plan would the best plan have been?

    python -m benchmarks.regret [-o FILE] [--page FILE] [--pair NAME] [--shape NAME] ...

For each embedded pair, each shape of its target and each temperature: profile, solve, and then
measure the chosen plan beside a grid of other plans.  A plan's speed is its tokens per step over
its step time, each measured where it costs least noise: step times in turns, in one run, on the
shape itself; tokens per step by decoding the evaluation prompts with the pair as it is, whose
function the inflated shapes compute.  The best of many noisy numbers looks better than it is, so
the grid is thinned on one set of random texts, the winner picked on a second, and compared with the
chosen plan on a third (at temperature 0, where there is no chance, on the same ones gone on with)
and by step times of the two taken anew.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from profiler import discard_pieces

from .marks import add_outputs, publish
from .regret_times import (
    TEMPERATURES,
    StepClock,
    TimedChoices,
    TreeChoice,
    add_contests,
    contests_of,
    draft_of,
    lower_quartile,
    one_thread,
    take_turns,
    target_of,
    times_file,
    times_of,
)
from .truth import Ratio, Texts, TruthCase, decoded, log_error

KEPT = 4
FIRST, SECOND, THIRD = 24, 64, 128
"""Tokens per prompt with which the grid is thinned, the winner picked, and the two compared."""
FINAL_REPEATS = 160
"""Steps of the two, and of the target alone, that are timed at the end."""


@dataclass(frozen=True)
class RegretRow:
    """One pair, shape and temperature."""

    pair: str
    shape: str
    temperature: float
    chosen: str
    predicted_speedup: float
    chosen_speedup: float
    best: str
    best_speedup: float
    regret: float
    """By which fraction the best of the grid was faster than the chosen plan, both once more."""
    regret_error: float
    """Standard error of it, from the prompts and from the repeated times."""
    num_plans: int

    def markdown(self) -> str:
        error = f" ± {self.regret_error:.1%}" if self.regret_error else ""
        return (
            f"| {self.pair} | {self.shape or 'as it is'} | {self.temperature:g} | {self.chosen} | "
            f"{self.predicted_speedup:.2f} | {self.chosen_speedup:.2f} | {self.best} | "
            f"{self.best_speedup:.2f} | {self.regret:+.1%}{error} | {self.num_plans} |"
        )


HEADER = (
    "| pair | shape | T | chosen plan | speedup predicted | measured | best of the grid | "
    "measured | regret | plans |\n|---|---|---|---|---|---|---|---|---|---|"
)


def table(rows: Sequence[RegretRow]) -> str:
    """All rows, in Markdown."""
    return "\n".join([HEADER, *(row.markdown() for row in rows)])


def rows_of_json(content: list[dict[str, Any]]) -> list[RegretRow]:
    """The rows of a saved run."""
    return [RegretRow(**row) for row in content]


class ChoiceDecoder:
    """Decodes choices of one pair and temperature, each setting once."""

    def __init__(
        self, pool: ProcessPoolExecutor, pair: str, temperature: float, output: Path | None
    ) -> None:
        self._pool, self._pair, self._temperature = pool, pair, temperature
        self._output = output

    def tokens(
        self, choices: Sequence[TreeChoice], num_tokens: int, seed: int
    ) -> dict[TreeChoice, Ratio]:
        """Tokens per step of each over the evaluation prompts."""
        running = [
            self._pool.submit(
                decoded,
                TruthCase(self._pair, self._temperature, choice.verifier, choice.tree.num_nodes),
                choice.tree.parents.tolist(),
                Texts(num_tokens, seed=seed, retrace=False),
                self._output,
            )
            for choice in choices
        ]
        title = f"{self._pair}, T={self._temperature:g}, {num_tokens} tokens a prompt"
        done = [each.result().measured for each in tqdm(running, desc=title)]
        return dict(zip(choices, done, strict=True))


@dataclass(frozen=True)
class Final:
    """The chosen plan and the one that looked best beside it, with the tokens of both."""

    timed: TimedChoices
    best: TreeChoice
    tokens: dict[TreeChoice, Ratio]

    @property
    def entrants(self) -> list[TreeChoice]:
        """Both, and the target alone."""
        return list(dict.fromkeys([self.timed.chosen, self.best, TreeChoice.alone()]))


def finals_of(pair: str, shapes: Sequence[TimedChoices], contest: ChoiceDecoder) -> list[Final]:
    """All shapes of one pair, at the contest's temperature."""
    chosen = [each.chosen for each in shapes]
    entrants = list(dict.fromkeys(choice for each in shapes for choice in each.step_ms))
    first = contest.tokens(entrants, FIRST, seed=201)
    kept = [ranked(first, each.step_ms)[:KEPT] for each in shapes]
    seconds = list(dict.fromkeys([*chosen, *(choice for each in kept for choice in each)]))
    second = contest.tokens(seconds, SECOND, seed=301)
    best = [
        ranked({choice: second[choice] for choice in few}, each.step_ms)[0]
        for each, few in zip(shapes, kept, strict=True)
    ]
    finalists = list(dict.fromkeys([*chosen, *best]))
    third = contest.tokens(finalists, THIRD, seed=401)
    return [Final(each, other, third) for each, other in zip(shapes, best, strict=True)]


def rows_of(finals: Sequence[tuple[str, Final]], repeats: int) -> list[RegretRow]:
    """Rows by pair: the two plans and the target alone are timed once more, in turns."""
    clocks = [
        StepClock(
            target_of(final.timed.shape), draft_of(pair), final.entrants, final.timed.temperature
        )
        for pair, final in finals
    ]
    with one_thread():
        take_turns(clocks, repeats, "steps of the finals")
    return [
        row_of(pair, final, clock.samples)
        for (pair, final), clock in zip(finals, clocks, strict=True)
    ]


def row_of(pair: str, final: Final, samples: Mapping[TreeChoice, np.ndarray]) -> RegretRow:
    """samples  milliseconds of the entrants' steps, float64 [turns]"""
    timed, mine, other, tokens = final.timed, final.timed.chosen, final.best, final.tokens
    times = {choice: lower_quartile(each) for choice, each in samples.items()}
    alone = times[TreeChoice.alone()]
    speeds = {choice: tokens[choice].value / times[choice] for choice in (mine, other)}
    error = np.hypot(
        log_error(tokens[other].influence - tokens[mine].influence),
        quartile_error(samples[other], samples[mine]),
    )
    return RegretRow(
        pair, timed.shape, timed.temperature, mine.words, timed.promised, speeds[mine] * alone,
        other.words, speeds[other] * alone, speeds[other] / speeds[mine] - 1, float(error),
        len(timed.step_ms),
    )  # fmt: skip


def quartile_error(one: np.ndarray, other: np.ndarray) -> float:
    """Standard error of the logarithm of the ratio of lower quartiles, by bootstrap over turns.

    one, other  float64 [turns], taken turn by turn: what slows a turn may slow both
    """
    turns = np.random.default_rng(0).integers(len(one), size=(1000, len(one)))
    quartiles = np.percentile(np.stack([one, other])[:, turns], 25, axis=2)
    return float(np.log(quartiles[0] / quartiles[1]).std())


def ranked(tokens: dict[TreeChoice, Ratio], step_ms: dict[TreeChoice, float]) -> list[TreeChoice]:
    """The fastest first."""
    there = [choice for choice in tokens if choice in step_ms]
    return sorted(there, key=lambda choice: -tokens[choice].value / step_ms[choice])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_outputs(parser)
    add_contests(parser)
    parser.add_argument("--repeats", type=int, default=12, help="of every time")
    parser.add_argument("--num-tokens", type=int, default=128, help="profiled per prompt")
    parser.add_argument("--jobs", type=int, default=2, help="processes that decode")
    parser.add_argument(
        "--until", choices=["times", "tokens"],
        help="stop when these are measured; the same command without it goes on from there",
    )  # fmt: skip
    arguments = parser.parse_args()
    (pairs, shapes), output = contests_of(arguments), arguments.output
    effort = arguments.repeats, arguments.num_tokens
    times = {pair: times_of(pair, shapes, *effort, output) for pair in pairs}
    if arguments.until == "times":
        return
    finals: list[tuple[str, Final]] = []
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        for pair, temperature in product(pairs, TEMPERATURES):
            shapes = [each for each in times[pair] if each.temperature == temperature]
            contest = ChoiceDecoder(pool, pair, temperature, output)
            finals += [(pair, final) for final in finals_of(pair, shapes, contest)]
    if arguments.until == "tokens":
        return
    rows = rows_of(finals, FINAL_REPEATS)
    print(table(rows))
    publish(rows, table(rows), "regret", output, arguments.page)
    within = sum(row.regret <= 0.03 for row in rows)
    worst = max(row.regret for row in rows)
    print(f"\n{within} of {len(rows)} within 3 %, worst {worst:+.1%}", file=sys.stderr)
    if output:
        discard_pieces(output)
        for kept in (times_file(output, pair) for pair in pairs):
            if kept is not None:
                kept.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
