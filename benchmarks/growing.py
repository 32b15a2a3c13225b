"""Trees that grow while decoding against fixed ones: predicted and measured side by side.

    python -m benchmarks.growing [-o FILE] [--page FILE] [--pair NAME] [--shape NAME] ...

For each embedded pair, each shape of its target and each temperature: train a head, profile, let
each solver propose, and measure every proposal, each number where it costs least noise: the time of
a step by decoding some prompts on the shape itself, on one core, a step of each way in turn, beside
autoregressive decoding; tokens per step by decoding the evaluation prompts with the pair as it is,
whose function the inflated shapes compute.  Policies that look at the text draft more on some texts
than on others: the time of a step is that of steps with as many draft passes and nodes as were
taken where the tokens were counted.  DySpec's threshold stands there twice: as the planner sets it,
and as somebody tunes it who decodes the profiling prompts with each of a grid.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
from tqdm import tqdm

from planner.verifiers import GREEDY_VERIFIER
from runtime.embedded import load_prompts

from .contests import OFTEN, TEMPERATURES, Profiling, add_contests, contests_of
from .decoding import CountedSteps, Counting, counted, log_error
from .growing_table import RIVALS, GrowingRow, details, table
from .growing_times import Effort, TimedEntrant, times_of
from .lead import MeasuredSpeed, lead
from .outputs import folder_beside, kept, parser_of, processes, publish, replace_marked

SEED = 501
LEAST_PROMPTS = 4
"""Two halves of which each has an error."""
TUNING, COMPARING = "profile", "evaluation"
"""The prompts by which settings are tuned, and those by which everything is compared."""


@dataclass(frozen=True)
class Result:
    """One entrant's times, and what it did on the prompts by which all are compared."""

    timed: TimedEntrant
    counted: CountedSteps
    tuning: CountedSteps | None = None
    """Steps on the prompts by which settings are tuned, where this one is tuned."""

    @property
    def entrant(self) -> str:
        return self.timed.entrant.name

    @property
    def step_ms(self) -> float:
        """Milliseconds of a step on the prompts by which all are compared."""
        return self.timed.lap.step_on(self.counted)

    @property
    def speedup(self) -> float:
        return self.counted.ratio.value * self.timed.alone.step_ms / self.step_ms

    @property
    def tuned_rate(self) -> float:
        """Tokens per millisecond on those by which settings are tuned."""
        assert self.tuning is not None
        return self.tuning.ratio.value / self.timed.lap.step_on(self.tuning)

    @property
    def influence(self) -> np.ndarray:
        """float64 [prompts]: by how much each of those compared moves ln(speedup); they sum to 0.
        Where many nodes bring many tokens, the one makes up for the other."""
        found, lap = self.counted, self.timed.lap
        ms = lap.pass_ms * found.passes + lap.node_ms * found.nodes
        num_steps = found.steps.sum()
        moved = (ms - found.steps / num_steps * ms.sum()) / (num_steps * self.step_ms)
        return found.ratio.influence - moved

    @property
    def measured(self) -> MeasuredSpeed:
        return MeasuredSpeed(self.speedup, (self.influence, -self.timed.lap.influence))


def row_of(pair: str, result: Result) -> GrowingRow:
    timed, found = result.timed, result.counted
    plan = timed.entrant.plan
    predicted = plan.predicted
    return GrowingRow(
        pair, timed.shape, timed.temperature, timed.entrant.name, plan.drafting.words(),
        GREEDY_VERIFIER if timed.temperature == 0 else plan.verifier,
        found.ratio.value, None if predicted is None else predicted.tokens_per_step.value,
        found.passes_per_step,
        result.step_ms, None if predicted is None else predicted.step_ms.value,
        result.speedup,
        result.speedup * float(np.hypot(log_error(result.influence), timed.error)),
        None if predicted is None else predicted.speedup.value,
    )  # fmt: skip


def shown(results: Sequence[Result]) -> list[Result]:
    """The results without those of a grid that suited the tuning prompts less than its best one.

    results  of one pair, shape and temperature
    """
    best: dict[str, Result] = {}
    for each in results:
        known = best.get(each.entrant)
        if known is None or each.tuned_rate > known.tuned_rate:
            best[each.entrant] = each
    return list(best.values())


def compared(pair: str, results: Sequence[Result]) -> list[GrowingRow]:
    """Their rows, those with rivals compared with the fastest of these (`lead`)."""
    rows = []
    for each in results:
        row, names = row_of(pair, each), RIVALS.get(each.entrant)
        rivals = [
            other
            for other in results
            if names is not None and other is not each and (not names or other.entrant in names)
        ]
        if rivals:
            found = lead(each.measured, [other.measured for other in rivals])
            rival = " and ".join(dict.fromkeys(rivals[place].entrant for place in found.rivals))
            row = replace(row, rival=rival, gain=found.gain, gain_error=found.error)
        rows.append(row)
    return rows


def main() -> None:
    parser = parser_of(
        __doc__,
        {
            "repeats": (12, "rounds of profiled times"),
            "num-prompts": (64, "decoded for their tokens"),
            "num-profiled": (256, "tokens a prompt"),
            "num-tokens": (64, "decoded a prompt"),
            "num-timed": (8, "prompts decoded on the shape"),
            "num-rounds": (1, "how often each of these is"),
            "num-timed-tokens": (32, "decoded of each of these"),
            "jobs": (2, "processes that decode"),
        },
    )
    add_contests(parser)
    parser.add_argument("--temperature", type=float, choices=TEMPERATURES, action="append")
    parser.add_argument(
        "--times-only", action="store_true",
        help="stop before tokens are counted; the same command without it goes on from there",
    )  # fmt: skip
    arguments = parser.parse_args()
    shipped = len(load_prompts(COMPARING))
    for name, most in (("num_prompts", shipped), ("num_timed", shipped // max(OFTEN.values()))):
        got = getattr(arguments, name)
        if not LEAST_PROMPTS <= got <= most:
            option = "--" + name.replace("_", "-")
            parser.error(f"{option}: got {got}, expected {LEAST_PROMPTS} to {most}")
    with folder_beside(arguments.output, keep=arguments.times_only) as folder:
        run(arguments, folder)


def run(arguments: argparse.Namespace, folder: Path) -> None:
    """Everything; times, heads and what is decoded are kept in `folder`."""
    pairs, shapes = contests_of(arguments)
    effort = Effort(
        profiling=Profiling(arguments.repeats, arguments.num_profiled),
        num_prompts=arguments.num_timed, num_tokens=arguments.num_timed_tokens,
        num_rounds=arguments.num_rounds, jobs=arguments.jobs,
    )  # fmt: skip
    temperatures = arguments.temperature or TEMPERATURES
    times = {
        pair: kept(
            folder / f"{pair}.times", list[TimedEntrant],
            partial(times_of, pair, shapes, temperatures, effort, folder),
        )
        for pair in pairs
    }  # fmt: skip
    if arguments.times_only:
        return
    comparing, tuning = (
        Counting(arguments.num_tokens, SEED, folder, arguments.num_prompts, which)
        for which in (COMPARING, TUNING)
    )
    rows: list[GrowingRow] = []
    with processes(arguments.jobs) as pool:
        for pair, entrants in times.items():
            running = [
                [
                    pool.submit(counted, pair, each.entrant.plan, counting)
                    for counting in ([comparing, tuning] if each.entrant.tuned else [comparing])
                ]
                for each in entrants
            ]
            results = [
                Result(timed, *(each.result() for each in asked))
                for timed, asked in zip(entrants, tqdm(running, f"decoding, {pair}"), strict=True)
            ]
            for _, group in groupby(
                results, lambda each: (each.timed.shape, each.timed.temperature)
            ):
                rows += compared(pair, shown(list(group)))
            publish(rows, table(rows), "growing", arguments.output, arguments.page)
            if arguments.page:
                beside = arguments.page.with_name("growing-details.md")
                replace_marked(beside, "growing-details", details(rows))
    print(details(rows))


if __name__ == "__main__":
    main()
