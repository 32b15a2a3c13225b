"""Plans that the regret benchmark compares, and how long their steps take."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from planner.cli.models import EMBEDDED, load_named
from planner.documents.document import write_atomically
from planner.documents.profile import Profile
from planner.documents.sampling import Sampling
from planner.documents.tree import Tree
from planner.estimates.evidence import recorded
from planner.estimates.step_costs import step_costs
from planner.optimizer import solve
from planner.optimizer.problem import Limits, Problem
from planner.optimizer.solvers import SOLVERS
from planner.plans.plan import Plan
from planner.policies.fixed import FixedTree
from planner.trees.frontier import deep_search
from planner.verifiers import GREEDY_VERIFIER, VERIFIERS, verifier_at
from profiler import THOROUGH, Pair, ScoringHead, Settings, measure_profile
from profiler.journal import Journal
from profiler.times.cost_grid import CostGrid
from profiler.times.sweeps import CostRounds, CostSweeps
from runtime.embedded import PAIRS, load_prompts
from runtime.language_model import LanguageModel
from runtime.machine import describe_machine
from runtime.randomness import seeded_source
from runtime.session import Session

SHAPES = ("", "25M", "100M")
TEMPERATURES = (0.0, 0.6, 1.0)
CONTEXT = 128
OFTEN = {"": 3}
"""By shape, how often it is timed in every turn, if not once: short steps are the noisy ones."""
SWEEPS = {"": 8, "25M": 2}
"""By shape, how often its costs are swept in every turn, if not once: where a plan gains a few
percent, times have to be known to less."""
GRID_RULES = ("rrsw", "lookahead", "topk")
GRID_SIZES = (4, 8, 12, 16, 32, 64)
GRID_DEPTHS = (2, 4, 24)
GRID_CHAINS = (1, 2, 3, 4, 6)
GRID_LIMITS = Limits(max_nodes=13, max_depth=3)


@dataclass(frozen=True)
class TreeChoice:
    """A tree and the verifier that walks it."""

    verifier: str
    tree: Tree

    @classmethod
    def alone(cls) -> TreeChoice:
        """The target alone, where no verifier has anything to say."""
        return cls(GRID_RULES[0], Tree([-1]))

    def to_json(self) -> dict[str, Any]:
        return {"verifier": self.verifier, "parents": self.tree.parents.tolist()}

    @classmethod
    def of_plan(cls, plan: Plan) -> TreeChoice:
        """The choice that a plan with a fixed tree has made."""
        if not plan.speculates:
            return cls.alone()
        return cls(verifier_at(plan.verifier, plan.sampling).name, plan.tree)

    @classmethod
    def of_json(cls, content: dict[str, Any]) -> TreeChoice:
        return cls(content["verifier"], Tree(content["parents"]))

    @property
    def words(self) -> str:
        if self.tree.num_nodes == 1:
            return "none"
        return f"{self.verifier}, {self.tree.num_nodes} nodes, depth {self.tree.depth}"


@dataclass(frozen=True)
class TimedChoices:
    """One pair at one shape and temperature: what was chosen, promised and timed."""

    shape: str
    temperature: float
    chosen: TreeChoice
    promised: float
    """Speedup."""
    step_ms: dict[TreeChoice, float]

    def to_json(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "temperature": self.temperature,
            "chosen": self.chosen.to_json(),
            "promised": self.promised,
            "step_ms": [[choice.to_json(), ms] for choice, ms in self.step_ms.items()],
        }

    @classmethod
    def of_json(cls, content: dict[str, Any]) -> TimedChoices:
        step_ms = {TreeChoice.of_json(choice): ms for choice, ms in content["step_ms"]}
        chosen = TreeChoice.of_json(content["chosen"])
        return cls(content["shape"], content["temperature"], chosen, content["promised"], step_ms)


def timed(pair: str, shapes: Sequence[str], repeats: int, num_tokens: int) -> list[TimedChoices]:
    """Profiles, choices and step times of one pair at several shapes; nothing is decoded."""
    draft, targets = draft_of(pair), {shape: target_of(shape) for shape in shapes}
    facts = facts_of(target_of(""), draft, num_tokens)
    with one_thread():
        profiles = at_shapes(facts, targets, draft, repeats)
    plans = {
        (shape, temperature): solve(profiles[shape], temperature=temperature, solver="fixed")
        for shape, temperature in product(shapes, TEMPERATURES)
    }
    grids = {temperature: grid(facts, temperature) for temperature in TEMPERATURES}
    clocks = {}
    for (shape, temperature), plan in plans.items():
        choices = list(dict.fromkeys([TreeChoice.of_plan(plan), *grids[temperature]]))
        clocks[shape, temperature] = StepClock(
            targets[shape], draft, choices, temperature, often=OFTEN.get(shape, 1)
        )
    with one_thread():
        take_turns(list(clocks.values()), repeats, f"steps, {pair}")
    done = []
    for (shape, temperature), plan in plans.items():
        assert plan.predicted is not None
        samples = clocks[shape, temperature].samples
        step_ms = {choice: lower_quartile(each) for choice, each in samples.items()}
        speedup = plan.predicted.speedup.value
        done.append(TimedChoices(shape, temperature, TreeChoice.of_plan(plan), speedup, step_ms))
    return done


def times_of(
    pair: str, shapes: Sequence[str], repeats: int, num_tokens: int, output: Path | None
) -> list[TimedChoices]:
    """`timed`, kept beside the output, so that a run continues with the times it has."""
    kept = times_file(output, pair)
    if kept is not None and kept.exists():
        return [TimedChoices.of_json(each) for each in json.loads(kept.read_text())]
    done = timed(pair, shapes, repeats, num_tokens)
    if kept is not None:
        write_atomically(kept, json.dumps([each.to_json() for each in done]) + "\n")
    return done


def times_file(output: Path | None, pair: str) -> Path | None:
    return None if output is None else output.parent / f".{output.name}.{pair}.times"


def add_contests(parser: argparse.ArgumentParser) -> None:
    """`--pair` and `--shape`, of each all or some, for `contests_of`."""
    parser.add_argument("--pair", choices=PAIRS, action="append", help="repeatable")
    parser.add_argument(
        "--shape", choices=SHAPES, action="append", help="'' is as it is; repeatable"
    )


def contests_of(arguments: argparse.Namespace) -> tuple[Sequence[str], Sequence[str]]:
    """Pairs and shapes that were asked for."""
    return arguments.pair or tuple(PAIRS), arguments.shape or SHAPES


@contextmanager
def one_thread() -> Iterator[None]:
    """Times are taken on one core.  On two virtual ones passes over 5 nodes and more were seen to
    take one time for minutes and half as long again for others, as if the two were halves of one
    now and then; passes over 1 and 4 nodes, and all passes on one core, took one time throughout.
    Plans made in one minute would be judged in another.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def target_of(shape: str) -> LanguageModel:
    """The embedded target; '' is as it is."""
    return named(f"embedded/target@{shape}" if shape else "embedded/target")


@cache
def draft_of(pair: str) -> LanguageModel:
    """The draft of an embedded pair."""
    return named(next(each for each, place in EMBEDDED.items() if place == (pair, 1)))


def named(name: str) -> LanguageModel:
    return load_named(name, device="cpu", dtype="float32", attention="sdpa")


def facts_of(
    target: LanguageModel,
    draft: LanguageModel,
    num_tokens: int,
    heads: Mapping[Sampling, ScoringHead] | None = None,
    *,
    prompts: str = "profile",
    num_prompts: int = THOROUGH.num_replayed,
) -> Profile:
    """The acceptance of a pair, trees recorded after all prompts; `at_shapes` measures costs."""
    settings = Settings(
        samplings=tuple(Sampling(temperature=temperature) for temperature in TEMPERATURES),
        contexts=(CONTEXT,), repeats=2, num_tokens=num_tokens, num_replayed=num_prompts,
    )  # fmt: skip
    return measure_profile(
        Pair(target, draft), load_prompts(prompts, num_prompts), settings, heads=heads
    )


def at_shapes(
    facts: Profile,
    targets: Mapping[str, LanguageModel],
    draft: LanguageModel,
    repeats: int,
    heads: Mapping[Sampling, ScoringHead] | None = None,
) -> dict[str, Profile]:
    """The acceptance of `facts`, which all shapes share, with costs measured on each, in turns."""
    sweeps = {
        shape: CostSweeps(
            Pair(target, draft), text()[:CONTEXT], CostGrid.up_to(64, target.vocab_size),
            Sampling(temperature=1.0), seed=0,
            heads={each.file.sha256: each.head.scores for each in (heads or {}).values()},
        )
        for shape, target in targets.items()
    }  # fmt: skip
    often = {shape: SWEEPS.get(shape, 1) for shape in sweeps}
    rounds = CostRounds(sweeps, Journal(None, {}).piece, often)
    with tqdm(total=repeats * len(sweeps), desc="costs") as progress:
        rounds.take(range(repeats), progress.update)
    return {
        shape: facts.model_copy(
            update={
                "costs": [costs],
                "target": targets[shape].info,
                "machine": describe_machine(targets[shape].device),
            }
        )
        for shape, costs in rounds.costs().items()
    }


@dataclass(frozen=True)
class Profiling:
    """How much is measured for a profile."""

    repeats: int
    """Times that every cost is measured."""
    num_tokens: int
    """Length of the text behind every prompt."""
    num_prompts: int = THOROUGH.num_replayed


def profiles_of(
    pair: str,
    shapes: Sequence[str],
    profiling: Profiling,
    folder: Path,
    heads: Mapping[Sampling, ScoringHead] | None = None,
) -> dict[str, Path]:
    """Files of a pair's profiles in `folder`, by shape; measured where they are not there yet."""
    places = {shape: folder / f"{pair}-{shape or 'as-it-is'}.json" for shape in shapes}
    if not all(place.exists() for place in places.values()):
        draft, targets = draft_of(pair), {shape: target_of(shape) for shape in shapes}
        facts = kept_facts(
            folder / f"{pair}-facts.json",
            lambda: facts_of(
                target_of(""), draft, profiling.num_tokens, heads, num_prompts=profiling.num_prompts
            ),
        )
        with one_thread():
            profiles = at_shapes(facts, targets, draft, profiling.repeats, heads)
        for shape, profile in profiles.items():
            profile.save(places[shape])
    return places


def kept_facts(place: Path, measured: Callable[[], Profile]) -> Profile:
    """The profile at `place`; measured and saved there if there is none yet."""
    if not place.exists():
        measured().save(place)
    return Profile.load(place)


def text() -> list[int]:
    return [token for prompt in load_prompts("evaluation") for token in prompt]


def grid(profile: Profile, temperature: float) -> list[TreeChoice]:
    """Plans that somebody might have set by hand, and trees of many sizes and depths."""
    choices = [TreeChoice.alone()]
    costs = step_costs(profile)
    for entry in profile.acceptance:
        if entry.sampling.temperature != temperature:
            continue
        verifier = verifier_at(entry.verifier, entry.sampling).name
        if entry.verifier == "chain":
            choices += [TreeChoice(verifier, Tree(list(range(-1, n)))) for n in GRID_CHAINS]
        if entry.verifier not in (GRID_RULES if temperature else [GREEDY_VERIFIER]):
            continue
        evidence = recorded(profile, entry)
        for size, depth in product(GRID_SIZES, GRID_DEPTHS):
            tree = deep_search(evidence.law, size, depth)
            if tree is not None and (temperature == 0 or depth == max(GRID_DEPTHS)):
                choices.append(TreeChoice(verifier, tree))
        if entry.verifier == GRID_RULES[0] or temperature == 0:
            law = evidence.law.limited(4)
            for solver in ("kary", "independent"):
                found = SOLVERS[solver].propose(Problem(law, costs, GRID_LIMITS))
                choices += [TreeChoice(verifier, drafting.tree) for drafting in found.values()]
    return list(dict.fromkeys(choices))


class StepClock:
    """Times steps of several choices on one pair, again and again, at one text.

    often    steps of each in a turn
    samples  milliseconds by choice, float64 [steps]
    """

    def __init__(
        self,
        target: LanguageModel,
        draft: LanguageModel,
        choices: Sequence[TreeChoice],
        temperature: float,
        *,
        often: int = 1,
    ) -> None:
        self.choices = choices
        self._often = often
        self._session = Session(
            target, draft, verifier=VERIFIERS["rrsw"], sampling=Sampling(temperature=temperature),
            rng=seeded_source(0, target.device),
        )  # fmt: skip
        self._session.prefill(text()[:CONTEXT])
        self._order = np.random.default_rng(0)
        self._turns: list[list[float]] = []

    def turn(self) -> None:
        """So many steps of each."""
        for _ in range(self._often):
            self._turns.append(self._once())

    def _once(self) -> list[float]:
        """One of each, in an order of its own."""
        ms = [0.0] * len(self.choices)
        for place in self._order.permutation(len(ms)):
            choice = self.choices[place]
            self._session.use(VERIFIERS[choice.verifier])
            ms[place] = self._session.step(FixedTree(choice.tree)).total_ms
            self._session.rewind(CONTEXT)
        return ms

    @property
    def samples(self) -> dict[TreeChoice, np.ndarray]:
        """The first steps were for warming up."""
        return dict(zip(self.choices, np.array(self._turns[1:]).T, strict=True))


def take_turns(clocks: Sequence[StepClock], repeats: int, title: str) -> None:
    """A turn of each clock after the other, so that a slow spell of the machine, which may last a
    minute, meets all alike; what disturbs nobody for a quarter of the time does not count."""
    for _ in tqdm(range(1 + repeats), desc=title):
        for clock in clocks:
            clock.turn()


def lower_quartile(ms: np.ndarray) -> float:
    """The quartile of repeated times; `planner.estimates.step_costs` says why not the median."""
    return float(np.percentile(ms, 25))
