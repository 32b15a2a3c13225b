"""How much faster than the chosen plan would the best plan have been?

    python -m benchmarks.regret [-o FILE] [--page FILE] [--pair NAME] [--shape NAME] ...

For each embedded pair, shape of its target and temperature: profile, solve as `solve` does by
default, and decode by that plan and by a grid of others, in turns, on one thread.  The grid has
trees of several sizes, chains among them, under every verifier, and what each solver of growing
trees finds for each.  The fastest of many is so partly by luck: the grid is thinned on a few
prompts, the winner picked on others, and compared with the plan on prompts that none has decoded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from pathlib import Path

import numpy as np

from planner.documents.profile import Profile
from planner.documents.sampling import Sampling
from planner.optimizer import Question, rank_candidates, solve
from planner.optimizer.grading import Candidate
from planner.plans.plan import Plan
from planner.policies import TreeDrafting
from runtime import Decoder
from runtime.embedded import load_prompts

from .contests import (
    TEMPERATURES,
    Profiling,
    add_contests,
    contests_of,
    draft_of,
    one_thread,
    profiles_of,
    target_of,
)
from .decoding import in_turns, log_error
from .outputs import ContestRow, folder_beside, kept, markdown, parser_of, publish

SIZES = (2, 3, 4, 5, 6, 8, 12, 16, 32)
"""Nodes of fixed trees."""
HOPELESS = 0.75
"""Plans that are predicted to be slower than so much of the fastest are not decoded."""
NUM_KEPT = 4
THINNED, PICKED = (12, 32), (24, 64)
"""Prompts, and tokens behind each, on which the grid is thinned and the winner picked."""
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
    """The fraction by which the best of the grid was faster than the plan, on new prompts."""
    regret_error: float
    """Standard error of it, over prompts."""
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


def words(plan: Plan) -> str:
    """The drafting and the verifier."""
    return f"{plan.drafting.words()}, {plan.verifier}" if plan.speculates else "no draft"


def grid(candidates: Sequence[Candidate], sampling: Sampling) -> list[Plan]:
    """Plans of all verifiers and sizes, and not to speculate.

    candidates  all that were graded, the best first

    Of each size the tree with most tokens a step and the one predicted to be the fastest; of every
    solver of growing trees its first.
    """
    found: dict[tuple[object, ...], Candidate] = {}
    least = HOPELESS * candidates[0].tokens_per_ms
    most = sorted(candidates, key=lambda each: -each.tokens_per_step.value)
    for order, each in [(0, one) for one in candidates] + [(1, one) for one in most]:
        if each.tokens_per_ms < least or not each.speculates:
            continue
        if each.grows:
            found.setdefault((each.verifier, each.solver), each)
        elif each.tree.num_nodes in SIZES:
            found.setdefault((order, each.verifier, each.tree.num_nodes), each)
    plans = [
        Plan(drafting=one.drafting, verifier=one.verifier, sampling=sampling)
        for one in found.values()
    ]
    return [no_draft(sampling), *{plan.fingerprint(): plan for plan in plans}.values()]


def no_draft(sampling: Sampling) -> Plan:
    """The target alone."""
    return Plan(drafting=TreeDrafting(parents=[-1]), verifier="rrsw", sampling=sampling)


@dataclass(frozen=True)
class Stage:
    """Evaluation prompts that plans decode, and the tokens behind each."""

    prompts: Sequence[Sequence[int]]
    num_tokens: int

    def ms(self, plans: Sequence[Plan], pair: str, shape: str) -> list[np.ndarray]:
        """Milliseconds that each plan takes for each prompt, in turns: float64 [prompts]."""
        models = target_of(shape), draft_of(pair)
        decoders = {str(at): Decoder.from_plan(plan, *models) for at, plan in enumerate(plans)}
        found = in_turns(decoders, self.prompts, self.num_tokens)
        return [np.array([made.decode_ms for made in found[name]]) for name in decoders]

    def fastest(self, plans: Sequence[Plan], pair: str, shape: str) -> list[Plan]:
        """The same plans, the fastest first."""
        spent = [each.sum() for each in self.ms(plans, pair, shape)]
        return [plans[place] for place in np.argsort(spent, kind="stable")]


def stages(counts: Sequence[tuple[int, int]]) -> list[Stage]:
    """A stage for each number of prompts and tokens; none shares a prompt with another."""
    prompts = iter(load_prompts("evaluation", sum(number for number, _ in counts)))
    return [Stage(list(islice(prompts, number)), num_tokens) for number, num_tokens in counts]


def measured(contest: tuple[str, str, float], place: Path, count: tuple[int, int]) -> RegretRow:
    """The row of one pair, shape and temperature.

    place  of the profile
    count  prompts on which two plans are compared, and tokens behind each
    """
    pair, shape, temperature = contest
    profile, sampling = Profile.load(place), Sampling(temperature=temperature)
    chosen = solve(profile, temperature=temperature)
    assert chosen.predicted is not None
    others = grid(rank_candidates(profile, Question(sampling=sampling)), sampling)
    thinning, picking, last = stages((THINNED, PICKED, count))
    few = thinning.fastest(others, pair, shape)[:NUM_KEPT]
    best = picking.fastest(few, pair, shape)[0]
    own, other, plain = last.ms([chosen, best, no_draft(sampling)], pair, shape)
    if is_same(chosen, best):
        own = other = (own + other) / 2
    return RegretRow(
        pair, shape, temperature, words(chosen), chosen.predicted.speedup.value,
        float(plain.sum() / own.sum()), words(best), float(plain.sum() / other.sum()),
        float(own.sum() / other.sum() - 1), log_error(own / own.sum() - other / other.sum()),
        len(others),
    )  # fmt: skip


def is_same(one: Plan, other: Plan) -> bool:
    """Do both draft and verify alike?"""
    if not one.speculates:
        return not other.speculates
    return (one.drafting, one.verifier) == (other.drafting, other.verifier)


def main() -> None:
    parser = parser_of(
        __doc__,
        {
            "repeats": (12, "of every time in a profile"),
            "num-prompts": (128, "that two plans are compared on"),
            "num-tokens": (64, "behind each, as in the profile"),
        },
    )
    add_contests(parser)
    arguments = parser.parse_args()
    pairs, shapes = contests_of(arguments)
    profiling = Profiling(arguments.repeats, arguments.num_tokens, num_prompts=128)
    count = arguments.num_prompts, arguments.num_tokens
    rows: list[RegretRow] = []
    with folder_beside(arguments.output, keep=True) as folder, one_thread():
        for pair in pairs:
            places = profiles_of(pair, shapes, profiling, folder)
            for temperature, shape in product(TEMPERATURES, shapes):
                path = folder / f"row-{pair}-{temperature:g}-{shape or 'as-it-is'}.json"
                measure = partial(measured, (pair, shape, temperature), places[shape], count)
                rows += kept(path, list[RegretRow], lambda measure=measure: [measure()])
                print(table(rows), flush=True)
        publish(rows, table(rows), "regret", arguments.output, arguments.page)
    within = sum(row.regret <= 0.03 for row in rows)
    worst = max(row.regret for row in rows)
    print(f"\n{within} of {len(rows)} within 3 %, worst {worst:+.1%}", file=sys.stderr)


if __name__ == "__main__":
    main()
