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

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import groupby, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

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

from .growing_times import best_of
from .marks import add_outputs, folder_beside, publish
from .regret_times import (
    TEMPERATURES,
    Profiling,
    add_contests,
    contests_of,
    draft_of,
    facts_of,
    kept_facts,
    profiles_of,
    target_of,
)

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
class KnobsRow:
    """One policy at one pair, shape and temperature."""

    pair: str
    shape: str
    temperature: float
    policy: str
    planned: str
    """The settings."""
    best: str
    """Those that no setting of the grid beats on these prompts."""
    num_settings: int
    over_tuned: float
    """By which fraction the planned ones are faster than tuned ones."""
    over_tuned_error: float
    """Standard error, over prompts, which all played."""
    over_best: float
    """The same against the best in hindsight."""

    @property
    def cell(self) -> str:
        return f"{self.over_tuned:+.1%} ± {self.over_tuned_error:.1%} ({self.over_best:+.1%})"


def table(rows: Sequence[KnobsRow]) -> str:
    """All rows, in Markdown, and what they say."""
    policies = list(dict.fromkeys(row.policy for row in rows))
    head = " | ".join(["pair", "shape", "T", *policies])
    lines = [f"| {head} |", "|---" * (3 + len(policies)) + "|"]
    for place, group in groupby(rows, lambda row: (row.pair, row.shape, row.temperature)):
        cells = {row.policy: row.cell for row in group}
        pair, shape, temperature = place
        words = [pair, shape or "as it is", f"{temperature:g}"]
        words += [cells.get(policy, "–") for policy in policies]
        lines.append("| " + " | ".join(words) + " |")
    lines.append("")
    for policy in policies:
        gains = [row.over_tuned for row in rows if row.policy == policy]
        luck = [row.over_best for row in rows if row.policy == policy]
        near = sum(each >= -0.01 for each in gains)
        lines.append(
            f"- `{policy}`: at most 1 % slower than tuned in {near} of {len(gains)}, on "
            f"average {np.mean(gains):+.1%}, worst {min(gains):+.1%}; than the best in "
            f"hindsight on average {np.mean(luck):+.1%}, worst {min(luck):+.1%}."
        )
    return "\n".join(lines)


def rows_of_json(content: list[dict[str, Any]]) -> list[KnobsRow]:
    """The rows of a saved run."""
    return [KnobsRow(**row) for row in content]


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
        return max(grid, key=lambda each: Played(texts.play(each), costs.of(each)).rate)

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


def others_of(pair: str, profiling: Profiling, folder: Path) -> Path:
    """The file of a profile of other prompts; measured where it is not there yet."""
    place = folder / f"{pair}-others.json"
    kept_facts(
        place,
        lambda: facts_of(
            target_of(""), draft_of(pair), profiling.num_tokens,
            prompts="evaluation", num_prompts=profiling.num_prompts,
        ),
    )  # fmt: skip
    return place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_outputs(parser)
    add_contests(parser)
    parser.add_argument("--repeats", type=int, default=12, help="of every profiled time")
    parser.add_argument("--num-prompts", type=int, default=256, help="to profile, and to compare")
    parser.add_argument("--num-profiled", type=int, default=128, help="tokens a prompt")
    parser.add_argument(
        "--profiles", type=Path, metavar="FOLDER",
        help="where another benchmark keeps its profiles, to be used instead of new ones",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=2, help="processes that plan and play")
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
                others_of(pair, profiling, folder),
            )
            for pair in pairs
        }  # fmt: skip
        if arguments.profiles_only:
            return
        with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
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
