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

import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from pathlib import Path

import numpy as np
from tqdm import tqdm

from .contests import TEMPERATURES, Profiling, add_contests, contests_of, draft_of, target_of
from .decoding import Counting, Ratio, counted, log_error
from .outputs import ContestRow, folder_beside, kept, markdown, parser_of, processes, publish
from .regret_times import StepClock, TimedChoices, TreeChoice, lower_quartile, take_turns, times_of

Stage = tuple[int, int]
"""Tokens per prompt, and the seed."""
KEPT = 4
FIRST, SECOND, THIRD = (24, 201), (64, 301), (128, 401)
"""Stages in which the grid is thinned, the winner picked, and the two compared."""
FINAL_REPEATS = 160
"""Steps of the two, and of the target alone, that are timed at the end."""
HEAD = (
    "pair", "shape", "T", "chosen plan", "speedup predicted", "measured", "best of the grid",
    "measured", "regret", "plans",
)  # fmt: skip


@dataclass(frozen=True)
class RegretRow(ContestRow):
    """One pair, shape and temperature."""

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

    @property
    def words(self) -> list[str]:
        error = f" ± {self.regret_error:.1%}" if self.regret_error else ""
        return [
            *self.contest, self.chosen, f"{self.predicted_speedup:.2f}",
            f"{self.chosen_speedup:.2f}", self.best, f"{self.best_speedup:.2f}",
            f"{self.regret:+.1%}{error}", str(self.num_plans),
        ]  # fmt: skip


def table(rows: Sequence[RegretRow]) -> str:
    """All rows, in Markdown."""
    return markdown(HEAD, [row.words for row in rows])


Tokens = dict[TreeChoice, Ratio]


@dataclass(frozen=True)
class Final:
    """The chosen plan and the one that looked best beside it, with the tokens of both."""

    timed: TimedChoices
    best: TreeChoice
    tokens: Tokens

    @property
    def entrants(self) -> list[TreeChoice]:
        """Both, and the target alone."""
        return list(dict.fromkeys([self.timed.chosen, self.best, TreeChoice.alone()]))


def finals_of(
    shapes: Sequence[TimedChoices], tokens: Callable[[Sequence[TreeChoice], Stage], Tokens]
) -> list[Final]:
    """The finals of all shapes of one pair, at one temperature.

    tokens  decodes choices
    """
    chosen = [each.chosen for each in shapes]
    first = tokens([choice for each in shapes for choice, _ in each.step_ms], FIRST)
    few = [ranked([choice for choice, _ in each.step_ms], each, first)[:KEPT] for each in shapes]
    second = tokens([*chosen, *chain(*few)], SECOND)
    best = [ranked(them, each, second)[0] for them, each in zip(few, shapes, strict=True)]
    third = tokens([*chosen, *best], THIRD)
    return [Final(each, other, third) for each, other in zip(shapes, best, strict=True)]


def tokens_of(
    pool: Executor,
    pair: str,
    temperature: float,
    folder: Path,
    choices: Sequence[TreeChoice],
    stage: Stage,
) -> Tokens:
    """Tokens per step of each of `choices` over the evaluation prompts."""
    counting = Counting(*stage, folder)
    running = {
        choice: pool.submit(counted, pair, choice.plan(temperature), counting)
        for choice in dict.fromkeys(choices)
    }
    title = f"{pair}, T={temperature:g}, {counting.num_tokens} tokens a prompt"
    return {choice: each.result().ratio for choice, each in tqdm(running.items(), title)}


def ranked(choices: Sequence[TreeChoice], timed: TimedChoices, tokens: Tokens) -> list[TreeChoice]:
    """The fastest first."""
    step_ms = dict(timed.step_ms)
    return sorted(choices, key=lambda choice: -tokens[choice].value / step_ms[choice])


def rows_of(finals: Sequence[tuple[str, Final]], repeats: int) -> list[RegretRow]:
    """Rows by pair: the two plans and the target alone are timed once more, in turns."""
    clocks = []
    for pair, final in finals:
        models = target_of(final.timed.shape), draft_of(pair)
        clocks.append(StepClock(models, final.entrants, final.timed.temperature))
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


def main() -> None:
    parser = parser_of(
        __doc__,
        {
            "repeats": (12, "of every time"),
            "num-tokens": (128, "profiled per prompt"),
            "jobs": (2, "processes that decode"),
        },
    )
    add_contests(parser)
    parser.add_argument(
        "--until", choices=["times", "tokens"],
        help="stop when these are measured; the same command without it goes on from there",
    )  # fmt: skip
    arguments = parser.parse_args()
    pairs, shapes = contests_of(arguments)
    profiling = Profiling(arguments.repeats, arguments.num_tokens)
    with folder_beside(arguments.output, keep=arguments.until is not None) as folder:
        times = {
            pair: kept(
                folder / f"{pair}.times", list[TimedChoices],
                partial(times_of, pair, shapes, profiling, folder),
            )
            for pair in pairs
        }  # fmt: skip
        if arguments.until == "times":
            return
        finals: list[tuple[str, Final]] = []
        with processes(arguments.jobs) as pool:
            for pair, temperature in product(pairs, TEMPERATURES):
                at_once = [each for each in times[pair] if each.temperature == temperature]
                tokens = partial(tokens_of, pool, pair, temperature, folder)
                finals += [(pair, final) for final in finals_of(at_once, tokens)]
        if arguments.until == "tokens":
            return
        rows = rows_of(finals, FINAL_REPEATS)
        print(table(rows))
        publish(rows, table(rows), "regret", arguments.output, arguments.page)
    within = sum(row.regret <= 0.03 for row in rows)
    worst = max(row.regret for row in rows)
    print(f"\n{within} of {len(rows)} within 3 %, worst {worst:+.1%}", file=sys.stderr)


if __name__ == "__main__":
    main()
