"""The gain of judging whole paths: `traversal` against `rrsw` and `lookahead`, decoded.

    python -m benchmarks.whole_paths [-o FILE] [--page FILE] [--jobs N] [--pair NAME]

For each embedded pair as it is, each temperature above 0 and each number of nodes, the planner
finds the best fixed tree of each verifier, and says which verifier it would choose, at times that
are made up so that nodes cost next to nothing.  The evaluation prompts are decoded by every plan:
tokens per step, compared prompt by prompt, beside what the plans promised.  Prints a Markdown
table; `-o` writes JSON, `--page` puts the table between that file's whole-paths marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from tqdm import tqdm

from planner import Plan, Profile
from planner.documents.given_costs import GivenCosts
from planner.documents.sampling import Sampling
from planner.estimates.other_costs import with_costs
from planner.optimizer import solve
from profiler import Pair, Settings, measure_profile
from runtime.embedded import PAIRS, load_prompts

from .contests import TEMPERATURES, draft_of, target_of
from .decoding import Counting, Ratio, counted, log_error
from .outputs import folder_beside, markdown, parser_of, processes, publish

SIZES = (8, 16, 32, 64)
VERIFIERS = ("rrsw", "lookahead", "traversal")
"""The last is compared with the others."""
TEXTS = 4
"""Texts that the target writes behind every profiling prompt."""
SEED = 401
CHEAP = {
    "source": "made up: a target's pass of 10 ms whatever it verifies, draft passes of .1 ms",
    "costs": [
        {
            "context": 128,
            "verify": {"counts": [1, max(SIZES)], "ms": [10, 10]},
            "draft": {"counts": [1, max(SIZES)], "ms": [0.1, 0.1]},
        }
    ],
}


@dataclass(frozen=True)
class BestTree:
    """The best tree of one verifier, in tokens per step."""

    verifier: str
    num_nodes: int
    depth: int
    predicted: float
    measured: float
    error: float
    """Standard error, over prompts."""


@dataclass(frozen=True)
class Gain:
    """How many more tokens a step has than another verifier's, as a fraction."""

    over: str
    predicted: float
    measured: float
    error: float
    """Standard error, over prompts, each compared with itself."""

    @property
    def words(self) -> str:
        return f"{self.measured:+.1%} ± {self.error:.1%} ({self.predicted:+.1%})"


@dataclass(frozen=True)
class WholePathsRow:
    """All verifiers at one limit."""

    pair: str
    temperature: float
    max_nodes: int
    trees: list[BestTree]
    """One for each of `VERIFIERS`."""
    gains: list[Gain]
    auto: str
    """The verifier that the planner chooses of all that there are."""


def profile_of(pair: str, num_tokens: int, place: Path) -> Path:
    """The file of a profile with several texts behind every prompt, at the times made up; its own
    are not looked at."""
    if not place.exists():
        settings = Settings(
            samplings=tuple(Sampling(temperature=each) for each in TEMPERATURES if each),
            contexts=(128,), max_nodes=4, repeats=2, num_tokens=num_tokens, num_replayed=0,
        )  # fmt: skip
        prompts = load_prompts("profile") * TEXTS
        measured = measure_profile(Pair(target_of(), draft_of(pair)), prompts, settings)
        with_costs(measured, GivenCosts.model_validate(CHEAP)).save(place)
    return place


def row_of(
    pair: str, temperature: float, max_nodes: int, place: Path, counting: Counting
) -> WholePathsRow:
    """Every verifier's best tree, decoded."""
    profile = Profile.load(place)
    planned = partial(solve, profile, solver="fixed", temperature=temperature, max_nodes=max_nodes)
    plans = [planned(verifier=verifier) for verifier in VERIFIERS]
    ratios = [counted(pair, plan, counting).ratio for plan in plans]
    trees = list(map(best_tree, plans, ratios))
    gains = [
        Gain(
            over=other.verifier,
            predicted=trees[-1].predicted / other.predicted - 1,
            measured=trees[-1].measured / other.measured - 1,
            error=log_error(ratios[-1].influence - ratio.influence),
        )
        for other, ratio in zip(trees[:-1], ratios[:-1], strict=True)
    ]
    return WholePathsRow(
        pair, temperature, max_nodes, trees, gains, planned(verifier="auto").verifier
    )


def best_tree(plan: Plan, ratio: Ratio) -> BestTree:
    assert plan.predicted is not None
    return BestTree(
        verifier=plan.verifier,
        num_nodes=plan.tree.num_nodes,
        depth=plan.tree.depth,
        predicted=plan.predicted.tokens_per_step.value,
        measured=ratio.value,
        error=ratio.value * log_error(ratio.influence),
    )


def table(rows: Sequence[WholePathsRow]) -> str:
    """A line for each row, and what they come to."""
    head = [
        "pair", "T", "nodes", *(f"{name}, tokens (predicted)" for name in VERIFIERS), "depths",
        *(f"traversal over {name} (predicted)" for name in VERIFIERS[:-1]), "auto chooses",
    ]  # fmt: skip
    lines = [
        [
            row.pair, f"{row.temperature:g}", str(row.max_nodes),
            *(f"{each.measured:.3f} ({each.predicted:.3f})" for each in row.trees),
            ", ".join(str(each.depth) for each in row.trees),
            *(gain.words for gain in row.gains), row.auto,
        ]
        for row in rows
    ]  # fmt: skip
    return "\n".join([markdown(head, lines), "", *summary(rows)])


def summary(rows: Sequence[WholePathsRow]) -> list[str]:
    """The mean gain by temperature, and where traversal is chosen."""
    lines = []
    for temperature in sorted({row.temperature for row in rows}):
        own = [row for row in rows if row.temperature == temperature]
        words = []
        for place, rival in enumerate(VERIFIERS[:-1]):
            gains = [row.gains[place] for row in own]
            mean = np.mean([gain.measured for gain in gains])
            promised = np.mean([gain.predicted for gain in gains])
            error = np.hypot.reduce([gain.error for gain in gains]) / len(gains)
            words.append(f"{mean:+.1%} ± {error:.1%} over `{rival}` (predicted {promised:+.1%})")
        chosen = sum(row.auto == VERIFIERS[-1] for row in own)
        lines.append(
            f"- T = {temperature:g}: `traversal` on average {', '.join(words)}; `auto` chooses it "
            f"in {chosen} of {len(own)} rows."
        )
    return lines


def main() -> None:
    parser = parser_of(
        __doc__,
        {
            "num-prompts": (64, "evaluation prompts to decode"),
            "num-tokens": (128, "decoded a prompt"),
            "jobs": (2, "processes of one thread each"),
        },
    )
    parser.add_argument("--pair", choices=PAIRS, action="append", help="only this one; repeatable")
    arguments = parser.parse_args()
    pairs = arguments.pair or PAIRS
    cases = product(pairs, [each for each in TEMPERATURES if each], SIZES)
    with folder_beside(arguments.output) as folder, processes(arguments.jobs) as pool:
        counting = Counting(arguments.num_tokens, SEED, folder, arguments.num_prompts)
        profiles = {
            pair: pool.submit(profile_of, pair, arguments.num_tokens, folder / f"{pair}.json")
            for pair in pairs
        }
        places = {pair: found.result() for pair, found in profiles.items()}
        running = [pool.submit(row_of, *case, places[case[0]], counting) for case in cases]
        rows = [each.result() for each in tqdm(running, desc="rows")]
        print(table(rows))
        publish(rows, table(rows), "whole-paths", arguments.output, arguments.page)


if __name__ == "__main__":
    main()
