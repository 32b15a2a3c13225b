"""How much faster than the chosen plan would the best plan have been?

    python -m benchmarks.regret [-o FILE] [--readme FILE] [--pair NAME] [--shape NAME] ...

For each embedded pair, each shape of its target and each temperature: profile, solve, and then
measure the chosen plan beside a grid of other plans.  A plan's speed is its tokens per step over
its step time, each measured where it costs least noise: step times in turns, in one run, on the
shape itself; tokens per step by decoding the evaluation prompts with the pair as it is, whose
function the inflated shapes compute.  The best of many noisy numbers looks better than it is, so
the grid is thinned on one set of random texts, the winner picked on a second, and compared with the
chosen plan on a third (at temperature 0 there is no chance: on longer ones, once).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from planner.cli.models import EMBEDDED, load_named
from planner.optimizer import SOLVERS, Estimates, Limits, recorded, solve, step_costs
from planner.optimizer.sequoia import deep_search
from planner.plan import GREEDY_RULE
from planner.profile import Profile, Sampling
from planner.schema import write_atomically
from planner.tree import Tree
from profiler import ScoringHead, Settings, discard_pieces, measure_profile
from profiler.curves import CostGrid, CostSweeps
from profiler.traces import TRACERS
from runtime.embedded import load_prompts
from runtime.models import LanguageModel
from runtime.policies import StaticTree
from runtime.randomness import seeded_source
from runtime.session import Session
from runtime.verifiers import VERIFIERS

from .marks import replace_marked
from .truth import Case, Ratio, decoded, log_error

SHAPES = ("", "25M", "100M")
TEMPERATURES = (0.0, 0.6, 1.0)
CONTEXT = 128
GRID_RULES = ("rrsw", "lookahead", "topk")
GRID_SIZES = (4, 8, 12, 16, 32, 64)
GRID_DEPTHS = (2, 4, 24)
GRID_CHAINS = (1, 2, 3, 4, 6)
GRID_LIMITS = Limits(max_nodes=13, max_depth=3)
KEPT = 4
FIRST, SECOND, THIRD = 32, 128, 128
"""Tokens per prompt with which the grid is thinned, the winner picked, and the two compared."""


@dataclass(frozen=True)
class Choice:
    """A tree and the verifier that walks it."""

    verifier: str
    tree: Tree

    @classmethod
    def alone(cls) -> Choice:
        """The target alone, where no verifier has anything to say."""
        return cls(GRID_RULES[0], Tree([-1]))

    def to_json(self) -> dict[str, Any]:
        return {"verifier": self.verifier, "parents": self.tree.parents.tolist()}

    @classmethod
    def of_json(cls, content: dict[str, Any]) -> Choice:
        return cls(content["verifier"], Tree(content["parents"]))

    @property
    def words(self) -> str:
        if self.tree.num_nodes == 1:
            return "none"
        return f"{self.verifier}, {self.tree.num_nodes} nodes, depth {self.tree.depth}"


@dataclass(frozen=True)
class Row:
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
    """Standard error of it, from the prompts; step times are quartiles of interleaved repeats."""
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


def table(rows: Sequence[Row]) -> str:
    """All rows, in Markdown."""
    return "\n".join([HEADER, *(row.markdown() for row in rows)])


def rows_of_json(content: list[dict[str, Any]]) -> list[Row]:
    """The rows of a saved run."""
    return [Row(**row) for row in content]


@dataclass(frozen=True)
class Timed:
    """One pair at one shape and temperature: what was chosen, promised and timed."""

    shape: str
    temperature: float
    chosen: Choice
    promised: float
    """Speedup."""
    step_ms: dict[Choice, float]

    def to_json(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "temperature": self.temperature,
            "chosen": self.chosen.to_json(),
            "promised": self.promised,
            "step_ms": [[choice.to_json(), ms] for choice, ms in self.step_ms.items()],
        }

    @classmethod
    def of_json(cls, content: dict[str, Any]) -> Timed:
        step_ms = {Choice.of_json(choice): ms for choice, ms in content["step_ms"]}
        chosen = Choice.of_json(content["chosen"])
        return cls(content["shape"], content["temperature"], chosen, content["promised"], step_ms)


def timed(pair: str, shapes: Sequence[str], repeats: int, num_tokens: int) -> list[Timed]:
    """Profiles, choices and step times of one pair at several shapes; nothing is decoded."""
    name = next(each for each, place in EMBEDDED.items() if place == (pair, 1))
    draft = named(name)
    facts = facts_of(named("embedded/target"), draft, repeats, num_tokens)
    grids = {temperature: grid(facts, temperature) for temperature in TEMPERATURES}
    done = []
    for shape in shapes:
        target = named(f"embedded/target@{shape}" if shape else "embedded/target")
        profile = at_shape(facts, target, draft, repeats) if shape else facts
        for temperature in TEMPERATURES:
            plan = solve(profile, temperature=temperature, solver="fixed")
            assert plan.predicted is not None
            rule = GREEDY_RULE if temperature == 0 else plan.verifier
            chosen = Choice(rule, plan.tree) if plan.speculates else Choice.alone()
            choices = list(dict.fromkeys([chosen, *grids[temperature]]))
            step_ms = step_times(target, draft, choices, temperature, repeats)
            done.append(Timed(shape, temperature, chosen, plan.predicted.speedup.value, step_ms))
    return done


def times_of(pair: str, arguments: argparse.Namespace) -> list[Timed]:
    """`timed`, kept beside the output, so that a run continues with the times it has."""
    shapes = arguments.shape or list(SHAPES)
    kept = times_file(arguments.output, pair)
    if kept is not None and kept.exists():
        return [Timed.of_json(each) for each in json.loads(kept.read_text())]
    done = timed(pair, shapes, arguments.repeats, arguments.num_tokens)
    if kept is not None:
        write_atomically(kept, json.dumps([each.to_json() for each in done]) + "\n")
    return done


def times_file(output: Path | None, pair: str) -> Path | None:
    return None if output is None else output.parent / f".{output.name}.{pair}.times"


def named(name: str) -> LanguageModel:
    return load_named(name, device="cpu", dtype="float32", attention="sdpa")


def facts_of(
    target: LanguageModel,
    draft: LanguageModel,
    repeats: int,
    num_tokens: int,
    heads: Mapping[Sampling, ScoringHead] | None = None,
) -> Profile:
    settings = Settings(
        samplings=tuple(Sampling(temperature=temperature) for temperature in TEMPERATURES),
        contexts=(CONTEXT,), repeats=repeats, num_tokens=num_tokens,
    )  # fmt: skip
    return measure_profile(target, draft, load_prompts("profile"), settings, heads=heads)


def at_shape(
    facts: Profile,
    target: LanguageModel,
    draft: LanguageModel,
    repeats: int,
    heads: Mapping[Sampling, ScoringHead] | None = None,
) -> Profile:
    """The acceptance of `facts`, which the shape shares, with costs measured on the shape."""
    sweeps = CostSweeps(
        target, draft, text(), CONTEXT, CostGrid.up_to(64, target.vocab_size),
        Sampling(temperature=1.0), seed=0,
        verifiers=["rrsw", *(rule for rule in TRACERS if rule != "rrsw")],
        heads={each.file.sha256: each.head.scores for each in (heads or {}).values()},
    )  # fmt: skip
    sweeps.warm_up()
    title = f"costs of {target.info.name}"
    costs = sweeps.costs([sweeps.sweep() for _ in tqdm(range(repeats), desc=title)])
    return facts.model_copy(update={"costs": [costs], "target": target.info})


def text() -> list[int]:
    return [token for prompt in load_prompts("evaluation") for token in prompt]


def grid(profile: Profile, temperature: float) -> list[Choice]:
    """Plans that somebody might have set by hand, and trees of many sizes and depths."""
    choices = [Choice.alone()]
    costs = step_costs(profile)
    for entry in profile.acceptance:
        rule = GREEDY_RULE if temperature == 0 else entry.verifier
        if entry.sampling.temperature != temperature:
            continue
        if entry.verifier == "chain":
            choices += [Choice(rule, Tree(list(range(-1, n)))) for n in GRID_CHAINS]
        if entry.verifier not in (GRID_RULES if temperature else [GREEDY_RULE]):
            continue
        evidence = recorded(profile, entry)
        for size, depth in product(GRID_SIZES, GRID_DEPTHS):
            tree = deep_search(evidence.law, size, depth)
            if tree is not None and (temperature == 0 or depth == max(GRID_DEPTHS)):
                choices.append(Choice(rule, tree))
        if entry.verifier == GRID_RULES[0] or temperature == 0:
            law = evidence.law.limited(4)
            for solver in ("kary", "independent"):
                trees = SOLVERS[solver].propose(Estimates(law, costs), GRID_LIMITS)
                choices += [Choice(rule, tree) for tree in trees]
    return list(dict.fromkeys(choices))


def step_times(
    target: LanguageModel,
    draft: LanguageModel,
    choices: Sequence[Choice],
    temperature: float,
    repeats: int,
) -> dict[Choice, float]:
    """Milliseconds of a step of each, in turns: lower quartiles (see `planner.optimizer.cost`)."""
    session = Session(
        target, draft, verifier=VERIFIERS["rrsw"], sampling=Sampling(temperature=temperature),
        rng=seeded_source(0, target.device),
    )  # fmt: skip
    session.prefill(text()[:CONTEXT])
    times: dict[Choice, list[float]] = {choice: [] for choice in choices}
    order = np.random.default_rng(0)
    title = f"steps of {target.info.name}, T={temperature:g}"
    for repeat in tqdm(range(repeats + 1), desc=title):
        for place in order.permutation(len(choices)):
            choice = choices[place]
            session.use(VERIFIERS[choice.verifier])
            step = session.step(StaticTree(choice.tree))
            session.rewind(CONTEXT)
            if repeat:  # the first round is for warming up
                times[choice].append(step.total_ms)
    return {choice: float(np.percentile(each, 25)) for choice, each in times.items()}


class Contest:
    """Decodes choices of one pair and temperature, each setting once."""

    def __init__(
        self, pool: ProcessPoolExecutor, pair: str, temperature: float, output: Path | None
    ) -> None:
        self._pool, self._pair, self._temperature = pool, pair, temperature
        self._output = output

    def tokens(self, choices: Sequence[Choice], num_tokens: int, seed: int) -> dict[Choice, Ratio]:
        """Tokens per step of each over the evaluation prompts."""
        running = [
            self._pool.submit(
                decoded,
                Case(self._pair, self._temperature, choice.verifier, choice.tree.num_nodes),
                choice.tree.parents.tolist(),
                num_tokens,
                1,
                seed=seed,
                output=self._output,
                retrace=False,
            )
            for choice in choices
        ]
        title = f"{self._pair}, T={self._temperature:g}, {num_tokens} tokens a prompt"
        done = [each.result().measured for each in tqdm(running, desc=title)]
        return dict(zip(choices, done, strict=True))


def rows_of(
    pair: str,
    shapes: Sequence[Timed],
    pool: ProcessPoolExecutor,
    output: Path | None,
) -> list[Row]:
    """All shapes of one pair at one temperature."""
    (temperature,) = {each.temperature for each in shapes}
    contest = Contest(pool, pair, temperature, output)
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
    third = contest.tokens(finalists, THIRD, seed=401) if temperature else second
    rows = []
    for each, mine, other in zip(shapes, chosen, best, strict=True):
        times = each.step_ms
        alone = times[Choice.alone()]
        speeds = {choice: third[choice].value / times[choice] for choice in (mine, other)}
        rows.append(
            Row(
                pair, each.shape, temperature, mine.words, each.promised, speeds[mine] * alone,
                other.words, speeds[other] * alone, speeds[other] / speeds[mine] - 1,
                log_error(third[other].influence - third[mine].influence), len(times),
            )
        )  # fmt: skip
    return rows


def ranked(tokens: dict[Choice, Ratio], step_ms: dict[Choice, float]) -> list[Choice]:
    """The fastest first."""
    there = [choice for choice in tokens if choice in step_ms]
    return sorted(there, key=lambda choice: -tokens[choice].value / step_ms[choice])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--readme", type=Path, help="put the table between this file's marks")
    parser.add_argument("--pair", choices=["distilled", "plain"], action="append")
    parser.add_argument("--shape", choices=SHAPES, action="append", help="'' is as it is")
    parser.add_argument("--repeats", type=int, default=12, help="of every time")
    parser.add_argument("--num-tokens", type=int, default=128, help="profiled per prompt")
    parser.add_argument("--jobs", type=int, default=2, help="processes that decode")
    parser.add_argument(
        "--times-only", action="store_true",
        help="stop before decoding; the same command without it goes on from there",
    )  # fmt: skip
    arguments = parser.parse_args()
    pairs = arguments.pair or ["distilled", "plain"]
    times = {pair: times_of(pair, arguments) for pair in pairs}
    if arguments.times_only:
        return
    rows: list[Row] = []
    print(HEADER)
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        for pair, temperature in product(pairs, TEMPERATURES):
            shapes = [each for each in times[pair] if each.temperature == temperature]
            for row in rows_of(pair, shapes, pool, arguments.output):
                print(row.markdown(), flush=True)
                rows.append(row)
            save(rows, arguments.output, arguments.readme)
    within = sum(row.regret <= 0.03 for row in rows)
    worst = max(row.regret for row in rows)
    print(f"\n{within} of {len(rows)} within 3 %, worst {worst:+.1%}", file=sys.stderr)
    if arguments.output:
        discard_pieces(arguments.output)
        for kept in (times_file(arguments.output, pair) for pair in pairs):
            if kept is not None:
                kept.unlink(missing_ok=True)


def save(rows: Sequence[Row], output: Path | None, readme: Path | None) -> None:
    """What was measured so far."""
    if output:
        write_atomically(output, json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if readme:
        replace_marked(readme, "regret", table(rows))


if __name__ == "__main__":
    main()
