"""Does a plan with a setting for every number of requests keep its promise, and is it worth having?

    python -m benchmarks.batches --pair distilled --shape 25M [-o FILE] [--page FILE]

One profile with times of 1, 2, 4 and 8 requests at a time, and for each temperature two plans: one
with a setting for each number, and one for a single request, as if nobody had asked.  Both decode
evaluation prompts with so many in flight, to the letter and following the machine, each in turns,
step by step, with no draft.  One thread.  The aim of following: by either plan .97 of the speed
without a draft or more, and at most 5 % behind the setting that was planned for so many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from planner.optimizer import solve
from planner.plans.plan import Plan
from planner.plans.report import Report
from profiler import Pair, Settings
from runtime import decode_prompts
from runtime.embedded import load_prompts

from .contests import (
    add_contests,
    contests_of,
    draft_of,
    one_thread,
    profiled,
    samplings_at,
    target_of,
)
from .coverage import three
from .outputs import ContestRow, folder_beside, kept, kept_rows, markdown, parser_of, publish

SIZES = (1, 2, 4, 8)
TEMPERATURES = (0.0, 0.6)


@dataclass(frozen=True)
class BatchRow(ContestRow):
    """A number of requests at a time; speedups are multiples of decoding as many without a draft.

    Of three numbers the last two are the 95 % interval.
    """

    batch_size: int
    plain_ms: float
    """A token's without a draft, by the clock, prompts included."""
    setting: str
    """The plan's for so many."""
    promised: list[float]
    speedup: list[float]
    for_one: str
    """The setting of the plan for a single request."""
    for_one_speedup: list[float]
    followed: list[float]
    """The first plan's speedup where it follows the machine, and the second one's."""
    for_one_followed: list[float]


def measured(
    contest: tuple[str, str, float], batch_size: int, plans: tuple[Plan, Plan], num_prompts: int
) -> list[BatchRow]:
    """One row.

    plans  the one with a setting for each number, and the one for a single request
    """
    target, draft = target_of(contest[1]), draft_of(contest[0])
    own, for_one, followed, for_one_followed = (
        decode_prompts(
            plan, target, draft, load_prompts("evaluation", num_prompts), max_new_tokens=128,
            seed=batch_size, stop_tokens=[], baseline=True, batch_size=batch_size, follow=follow,
        )
        for follow, plan in product((False, True), plans)
    )  # fmt: skip
    assert own.together is not None
    assert own.together.baseline_ms is not None
    assert own.baseline is not None
    predicted = own.carried_out.predicted
    assert predicted is not None
    row = BatchRow(
        *contest,
        batch_size=batch_size,
        plain_ms=own.together.baseline_ms / own.baseline.num_tokens,
        setting=words(own),
        promised=three(predicted.speedup),
        speedup=speedup_of(own),
        for_one=words(for_one),
        for_one_speedup=speedup_of(for_one),
        followed=speedup_of(followed),
        for_one_followed=speedup_of(for_one_followed),
    )
    return [row]


def words(report: Report) -> str:
    """The setting that was carried out."""
    plan = report.carried_out
    return f"{plan.drafting.words()}, {plan.verifier}" if plan.speculates else "no draft"


def speedup_of(report: Report) -> list[float]:
    assert report.baseline is not None
    return three(report.baseline.speedup)


def table(rows: Sequence[BatchRow]) -> str:
    """A line for each number of requests."""
    head = [
        "pair", "shape", "T", "requests", "no draft, ms a token", "the plan's setting for so many",
        "promised", "measured", "followed", "the setting for one", "measured", "followed",
    ]  # fmt: skip

    def said(number: list[float]) -> str:
        return "{:.2f} [{:.2f}, {:.2f}]".format(*number)

    ordered = sorted(rows, key=lambda row: (row.contest, row.batch_size))
    return markdown(
        head,
        [
            [
                *row.contest, str(row.batch_size), f"{row.plain_ms:.2f}", row.setting,
                said(row.promised), said(row.speedup), said(row.followed),
                row.for_one, said(row.for_one_speedup), said(row.for_one_followed),
            ]
            for row in ordered
        ],
    )  # fmt: skip


def main() -> None:
    counts = {"num-prompts": (32, "evaluation prompts that every plan decodes")}
    parser = parser_of(__doc__ or "", counts)
    add_contests(parser)
    arguments = parser.parse_args()
    pairs, shapes = contests_of(arguments)
    settings = Settings(samplings=samplings_at(TEMPERATURES), batch_sizes=SIZES)
    with folder_beside(arguments.output, keep=True) as folder, one_thread():
        for pair, shape in product(pairs, shapes):
            stem = f"{pair}-{shape or 'as-it-is'}"
            profile = profiled(
                Pair(target_of(shape), draft_of(pair)), folder / f"profile-{stem}.json",
                load_prompts("profile"), settings,
            )  # fmt: skip
            for temperature in TEMPERATURES:
                one, *others = (
                    solve(profile, temperature=temperature, batch_size=size) for size in SIZES
                )
                plans = one.with_batches(others), one
                for size in SIZES:
                    contest = pair, shape, temperature
                    measure = partial(measured, contest, size, plans, arguments.num_prompts)
                    place = folder / f"row-{stem}-{temperature:g}-{size}.json"
                    kept(place, list[BatchRow], measure)
                    rows = kept_rows(folder, list[BatchRow])
                    publish(rows, table(rows), "batches", arguments.output, arguments.page)
                    print(table(rows), flush=True)


if __name__ == "__main__":
    main()
