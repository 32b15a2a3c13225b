"""Are the settings of growing trees set well?

    python -m benchmarks.knobs [-o FILE] [--page FILE] [--pair NAME] [--shape NAME] ...

For each embedded pair, shape and temperature the planner sets the knobs of every policy from a
profile of the profiling prompts.  Then trees are recorded on other prompts, and policies play on
them with the planner's settings and with every point of a grid: all on the very same drafts, at the
very same measured times, so that small differences show.  The grid is tuned on one half of these
prompts and compared on the other, and the other way round; beside that stands its best point on the
very prompts by which it is compared, which nobody who tunes can know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from tqdm import tqdm

from planner.documents.document import PlannerError
from planner.documents.profile import Profile
from planner.documents.sampling import Sampling
from planner.estimates.step_costs import StepCosts, step_costs
from planner.optimizer.choice import Question, rank_candidates
from planner.policies import Drafting
from planner.replay.replays import Played, Replays, replays_of
from runtime.embedded import load_prompts

from .contests import TEMPERATURES, Profiling, add_contests, contests_of, facts_of, profiles_of
from .growing_times import best_of
from .outputs import ContestRow, contest_table, folder_beside, parser_of, processes, publish

DEPTHS = (1, 2, 3, 4, 5, 6, 8, 12, 20)
KNOBS: dict[str, dict[str, Sequence[float]]] = {
    "dyspec, greedy": {
        "num_nodes": (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64),
        "max_depth": DEPTHS,
    },
    "dyspec, threshold": {"threshold": [round(0.02 * place, 2) for place in range(1, 50)]},
    "specdecpp, no head": {
        "threshold": (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98),
        "max_depth": DEPTHS,
    },
    "price": {
        "price_per_ms": (0.6, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5),
        "node_price": (0.02, 0.05, 0.1, 0.15, 0.2, 0.3),
        "lookahead": (0.5, 0.7, 1.0, 1.4),
    },
}
"""The values that are tried, by the name of what is planned and the field."""
MULTIPLES = ("price_per_ms",)
"""Fields whose values are multiples of what is planned."""


def grid_around(planned: Drafting, policy: str) -> list[Drafting]:
    """The planned settings, and every point of the grid around them."""
    fields, grid = KNOBS[policy], [planned]
    for values in product(*fields.values()):
        point = dict(zip(fields, values, strict=True))
        for field in MULTIPLES:
            if field in point:
                point[field] *= getattr(planned, field)
        grid.append(planned.model_copy(update=point))
    return grid


@dataclass(frozen=True)
class KnobsRow(ContestRow):
    """One policy at one pair, shape and temperature."""

    policy: str
    planned: str
    """The settings."""
    best: str
    """Settings that none of the grid beats on these prompts."""
    num_settings: int
    over_tuned: float
    """The fraction by which the planned ones are faster than tuned ones."""
    over_tuned_error: float
    """Standard error, over prompts, which all played."""
    over_best: float
    """The same against the best in hindsight."""

    @property
    def cell(self) -> str:
        return f"{self.over_tuned:+.1%} ± {self.over_tuned_error:.1%} ({self.over_best:+.1%})"


def table(rows: Sequence[KnobsRow]) -> str:
    """All rows, in Markdown, and what they say."""
    lines = [contest_table(rows, lambda row: row.policy, lambda row, _: row.cell), ""]
    for policy in dict.fromkeys(row.policy for row in rows):
        gains = [row.over_tuned for row in rows if row.policy == policy]
        luck = [row.over_best for row in rows if row.policy == policy]
        near = sum(each >= -0.01 for each in gains)
        lines.append(
            f"- `{policy}`: at most 1 % slower than tuned in {near} of {len(gains)}, on "
            f"average {np.mean(gains):+.1%}, worst {min(gains):+.1%}; than the best in "
            f"hindsight on average {np.mean(luck):+.1%}, worst {min(luck):+.1%}."
        )
    return "\n".join(lines)


def rows_of(contest: tuple[str, str, float], place: Path, other: Path) -> list[KnobsRow]:
    """Rows of what is planned from one profile, against grids on the trees recorded in the other.

    contest  pair, shape and temperature
    """
    profile, temperature = Profile.load(place), contest[2]
    replays = replays_of(Profile.load(other), Sampling(temperature=temperature), "rrsw")
    if replays is None:
        return []
    rows: list[KnobsRow] = []
    ranking = rank_candidates(profile, Question(sampling=profile.sampling_at(temperature)))
    for policy in KNOBS:
        candidate = best_of(ranking, policy)
        if candidate is not None:
            costs = step_costs(profile, verifier=candidate.verifier).of(candidate.drafting)
            row = compared(contest, policy, candidate.drafting, replays, costs)
            rows += [] if row is None else [row]
    return rows


def compared(
    contest: tuple[str, str, float],
    policy: str,
    planned: Drafting,
    replays: Replays,
    costs: StepCosts,
) -> KnobsRow | None:
    """None where what is tuned on one half asks on the other for a pass that was not timed."""
    grid = grid_around(planned, policy)

    def best(texts: Replays) -> Drafting:
        return max(grid, key=lambda each: Played.of(each, texts, costs).rate)

    def words(drafting: Drafting) -> str:
        return ", ".join(f"{getattr(drafting, field):.3g}" for field in KNOBS[policy])

    hindsight = best(replays)
    mine, most = (Played(replays.play(each), costs) for each in (planned, hindsight))
    tuned = replays.played_by_halves([best(replays.half(1)), best(replays.half(0))], costs)
    if tuned is None:
        return None
    return KnobsRow(
        *contest, policy, words(planned), words(hindsight), len(grid),
        mine.tokens_per_ms / tuned.tokens_per_ms - 1,
        float((np.log(rates(mine)) - np.log(rates(tuned))).std()),
        mine.tokens_per_ms / most.tokens_per_ms - 1,
    )  # fmt: skip


def rates(played: Played) -> np.ndarray:
    """float64 [2000]: tokens per millisecond, by bootstrap sample of the prompts."""
    return played.samples() / played.step_samples()


def main() -> None:
    parser = parser_of(
        __doc__,
        {
            "repeats": (12, "of every profiled time"),
            "num-prompts": (256, "to profile, and to compare"),
            "num-profiled": (128, "tokens a prompt"),
            "jobs": (2, "processes that plan and play"),
        },
    )
    add_contests(parser)
    parser.add_argument(
        "--profiles", type=Path, metavar="FOLDER",
        help="where another benchmark keeps its profiles, to be used instead of new ones",
    )  # fmt: skip
    parser.add_argument("--profiles-only", action="store_true", help="stop when these are measured")
    arguments = parser.parse_args()
    pairs, shapes = contests_of(arguments)
    try:
        load_prompts(count=arguments.num_prompts)
    except PlannerError as error:
        parser.error(f"--num-prompts: {error}")
    profiling = Profiling(arguments.repeats, arguments.num_profiled, arguments.num_prompts)
    with folder_beside(arguments.output, keep=arguments.profiles_only) as folder:
        measured = {
            pair: (
                profiles_of(pair, shapes, profiling, arguments.profiles or folder),
                facts_of(pair, profiling, folder, prompts="evaluation"),
            )
            for pair in pairs
        }
        if arguments.profiles_only:
            return
        with processes(arguments.jobs) as pool:
            running = [
                pool.submit(rows_of, (pair, shape, temperature), places[shape], other)
                for pair, (places, other) in measured.items()
                for shape, temperature in product(shapes, TEMPERATURES)
            ]
            rows = [row for each in tqdm(running, "settings") for row in each.result()]
        print(table(rows))
        publish(rows, table(rows), "knobs", arguments.output, arguments.page)


if __name__ == "__main__":
    main()
