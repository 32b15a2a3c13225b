"""Do promised intervals hold what is then measured?  Profiles and decodings, pair by pair.

    python -m benchmarks.coverage --pair distilled [--shape NAME ...] [-o FILE] [--page FILE]

Prompts come in four groups to profile and four to decode, of other files.  A profile of one group
is taken under each of a few loads (`moved`), by models loaded anew; its plans at two temperatures
decode every group under the same load, in turns with plain decoding: two at once, two when all
other profiles have been taken.  Counted is how often the promised 95 % interval holds the measured
value itself; and how often it does once the measurement's own error is allowed for as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from planner import Profile
from planner.documents.estimate import Estimate
from planner.optimizer import solve
from planner.plans.plan import Plan
from planner.plans.report import Report
from profiler import Pair
from runtime import decode_prompts
from runtime.embedded import load_prompts

from .contests import add_contests, contests_of, draft_of, profiled, target_of
from .decoding import Ratio, log_error
from .moved import CONDITIONS, SETTINGS, TEMPERATURES, beside
from .outputs import ContestRow, folder_beside, kept, kept_rows, markdown, parser_of, publish

LOADS = ("nothing", "nothing", "one core busy", "memory busy", "nothing")
"""Conditions of `moved`, one for each profile; the fifth's prompts are the first's."""
NUM_PROMPTS, GROUPS = 256, 4
"""Numbers of profiling prompts, and of evaluation prompts: all that there are."""


@dataclass(frozen=True)
class CoverageRow(ContestRow):
    """One plan decoded once; of three numbers the last two are the 95 % interval."""

    load: str
    profile: int
    group: int
    """Numbers of the evaluation prompts."""
    plan: str
    promised_tokens: list[float]
    tokens: list[float]
    promised_speedup: list[float]
    speedup: list[float]


def held(promised: list[float], found: list[float], *, allowing: bool) -> bool:
    """Does the promise hold what was found?

    allowing  for the error of what was found, too: both halves of an interval in squares, as logs
    """
    off = np.log(found[0] / promised[0])
    side = 2 if off > 0 else 1
    room = np.log(promised[side] / promised[0])
    if allowing:
        room = np.hypot(room, np.log(found[3 - side] / found[0]))
    return bool(abs(off) <= abs(room))


def three(estimate: Estimate) -> list[float]:
    return [estimate.value, estimate.low, estimate.high]


def group_of(name: str, number: int) -> list[list[int]]:
    """The group of that number, cyclically, of the embedded prompts of that name."""
    return load_prompts(name, NUM_PROMPTS)[number % GROUPS :: GROUPS]


def measured(
    contest: tuple[str, str, float], number: int, group: int, plan: Plan, num_tokens: int
) -> list[CoverageRow]:
    """One row: the plan, decoded under the load of profile `number`."""
    assert plan.predicted is not None
    pair, load = Pair(target_of(contest[1]), draft_of(contest[0])), LOADS[number]
    with beside(CONDITIONS[load].beside):
        report = decode_prompts(
            plan, pair.target, pair.draft, group_of("evaluation", group),
            max_new_tokens=num_tokens, seed=number, stop_tokens=[], baseline=True,
        )  # fmt: skip
    assert report.baseline is not None
    row = CoverageRow(
        *contest,
        load=load,
        profile=number,
        group=group % GROUPS,
        plan=f"{plan.drafting.words()}, {plan.verifier}",
        promised_tokens=three(plan.predicted.tokens_per_step),
        tokens=tokens_per_step(report),
        promised_speedup=three(plan.predicted.speedup),
        speedup=three(report.baseline.speedup),
    )
    return [row]


def tokens_per_step(report: Report) -> list[float]:
    """Measured, with its 95 % interval over prompts."""
    texts = report.continuations
    ratio = Ratio(
        np.array([float(len(text.tokens)) for text in texts]),
        np.array([float(len(text.tokens_by_step)) for text in texts]),
    )
    factor = float(np.exp(1.96 * log_error(ratio.influence)))
    return [ratio.value, ratio.value / factor, ratio.value * factor]


def table(rows: Sequence[CoverageRow]) -> str:
    """How often intervals held, by load and in all."""
    head = [
        "load, while profiled and decoded", "pairs", "tokens per step inside",
        "allowing for the measurement's error", "speedup inside",
        "allowing for the measurement's error", "speedup over the promised one, median, 95 %",
    ]  # fmt: skip
    loads = [*dict.fromkeys(row.load for row in rows), "all"]
    lines = []
    for load in loads:
        some = [row for row in rows if load in (row.load, "all")]
        counts = [
            sum(held(promised(row), found(row), allowing=allowing) for row in some)
            for promised, found in (
                (lambda row: row.promised_tokens, lambda row: row.tokens),
                (lambda row: row.promised_speedup, lambda row: row.speedup),
            )
            for allowing in (False, True)
        ]
        off = np.quantile([row.speedup[0] / row.promised_speedup[0] for row in some], (0.5, 0.95))
        spread = f"{off[0]:.2f}, {off[1]:.2f}"
        shares = (f"{count} ({count / len(some):.0%})" for count in counts)
        lines.append([load, str(len(some)), *shares, spread])
    return markdown(head, lines)


def main() -> None:
    counts = {"num-tokens": (128, "tokens of every continuation, as profiled")}
    parser = parser_of(__doc__ or "", counts)
    add_contests(parser)
    arguments = parser.parse_args()
    pairs, shapes = contests_of(arguments)
    with folder_beside(arguments.output, keep=True) as folder:
        for late, number, pair, shape in product((False, True), range(len(LOADS)), pairs, shapes):
            stem = f"{pair}-{shape or 'as-it-is'}-{number}"
            for each in (target_of, draft_of):
                each.cache_clear()  # memory comes to lie anew
            with beside(CONDITIONS[LOADS[number]].beside):
                profile = profiled(
                    Pair(target_of(shape), draft_of(pair)),
                    folder / f"profile-{stem}.json",
                    group_of("profile", number),
                    SETTINGS,
                )
            first = number + GROUPS // 2 * late
            for temperature, group in product(TEMPERATURES, range(first, first + GROUPS // 2)):
                plan = planned(profile, temperature, folder / f"plan-{stem}-{temperature:g}.json")
                if not plan.speculates:  # it promises nothing
                    continue
                contest = pair, shape, temperature
                measure = partial(measured, contest, number, group, plan, arguments.num_tokens)
                place = folder / f"row-{stem}-{temperature:g}-{group % GROUPS}.json"
                kept(place, list[CoverageRow], measure)
                rows = kept_rows(folder, list[CoverageRow])
                publish(rows, table(rows), "coverage", arguments.output, arguments.page)
                print(table(rows), flush=True)


def planned(profile: Profile, temperature: float, path: Path) -> Plan:
    """The plan at `path`, made now if it is not there."""
    if not path.exists():
        solve(profile, temperature=temperature).save(path)
    return Plan.load(path)


if __name__ == "__main__":
    main()
