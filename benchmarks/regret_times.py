"""Plans that the regret benchmark compares, and how long their steps take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import PlainSerializer, PlainValidator
from tqdm import tqdm

from planner.documents.profile import Profile
from planner.documents.sampling import Sampling
from planner.documents.tree import Tree
from planner.estimates.evidence import recorded
from planner.estimates.step_costs import step_costs
from planner.optimizer import solve
from planner.optimizer.problem import Limits, Problem
from planner.optimizer.solvers import SOLVERS
from planner.plans.plan import Plan, TreeDrafting
from planner.policies.fixed import FixedTree
from planner.trees.frontier import deep_search
from planner.verifiers import GREEDY_VERIFIER, VERIFIERS, verifier_at
from runtime.language_model import LanguageModel
from runtime.randomness import seeded_source
from runtime.session import Session

from .contests import (
    CONTEXT,
    OFTEN,
    TEMPERATURES,
    Profiling,
    draft_of,
    facts_of,
    one_thread,
    profiles_of,
    target_of,
    timed_text,
)

GRID_VERIFIERS = ("rrsw", "lookahead", "topk")
GRID_SIZES = (4, 8, 12, 16, 32, 64)
GRID_DEPTHS = (2, 4, 24)
GRID_CHAINS = (1, 2, 3, 4, 6)
GRID_LIMITS = Limits(max_nodes=13, max_depth=3)


@dataclass(frozen=True)
class TreeChoice:
    """A tree and the verifier that walks it."""

    verifier: str
    tree: Annotated[Tree, PlainValidator(Tree), PlainSerializer(lambda tree: tree.parents.tolist())]

    @classmethod
    def alone(cls) -> TreeChoice:
        """The target alone, where no verifier has anything to say."""
        return cls(GRID_VERIFIERS[0], Tree([-1]))

    @classmethod
    def of_plan(cls, plan: Plan) -> TreeChoice:
        """The choice that a plan with a fixed tree has made."""
        if not plan.speculates:
            return cls.alone()
        return cls(verifier_at(plan.verifier, plan.sampling).name, plan.tree)

    def plan(self, temperature: float) -> Plan:
        """The plan that carries it out."""
        return Plan(
            drafting=TreeDrafting(parents=self.tree.parents.tolist()), verifier=self.verifier,
            sampling=Sampling(temperature=temperature),
        )  # fmt: skip

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
    step_ms: list[tuple[TreeChoice, float]]


def times_of(
    pair: str, shapes: Sequence[str], profiling: Profiling, folder: Path
) -> list[TimedChoices]:
    """Choices and step times of one pair at several shapes; profiles are kept in `folder`."""
    places = profiles_of(pair, shapes, profiling, folder)
    facts = Profile.load(facts_of(pair, profiling, folder))
    grids = {temperature: grid(facts, temperature) for temperature in TEMPERATURES}
    contests = list(product(shapes, TEMPERATURES))
    plans = [
        solve(Profile.load(places[shape]), temperature=temperature, solver="fixed")
        for shape, temperature in contests
    ]
    clocks = []
    for (shape, temperature), plan in zip(contests, plans, strict=True):
        choices = list(dict.fromkeys([TreeChoice.of_plan(plan), *grids[temperature]]))
        models = target_of(shape), draft_of(pair)
        clocks.append(StepClock(models, choices, temperature, often=OFTEN.get(shape, 1)))
    take_turns(clocks, profiling.repeats, f"steps, {pair}")
    done = []
    for (shape, temperature), plan, clock in zip(contests, plans, clocks, strict=True):
        assert plan.predicted is not None
        chosen, promised = TreeChoice.of_plan(plan), plan.predicted.speedup.value
        step_ms = [(choice, lower_quartile(each)) for choice, each in clock.samples.items()]
        done.append(TimedChoices(shape, temperature, chosen, promised, step_ms))
    return done


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
        if entry.verifier not in (GRID_VERIFIERS if temperature else [GREEDY_VERIFIER]):
            continue
        evidence = recorded(profile, entry)
        for size, depth in product(GRID_SIZES, GRID_DEPTHS):
            tree = deep_search(evidence.law, size, depth)
            if tree is not None and (temperature == 0 or depth == max(GRID_DEPTHS)):
                choices.append(TreeChoice(verifier, tree))
        if entry.verifier == GRID_VERIFIERS[0] or temperature == 0:
            law = evidence.law.limited(4)
            for solver in ("kary", "independent"):
                found = SOLVERS[solver].propose(Problem(law, costs, GRID_LIMITS))
                choices += [TreeChoice(verifier, drafting.tree) for drafting in found.values()]
    return list(dict.fromkeys(choices))


class StepClock:
    """Times steps of several choices on one pair, again and again, at one text.

    models   target and draft
    often    steps of each in a turn
    samples  milliseconds by choice, float64 [steps]
    """

    def __init__(
        self,
        models: tuple[LanguageModel, LanguageModel],
        choices: Sequence[TreeChoice],
        temperature: float,
        *,
        often: int = 1,
    ) -> None:
        self.choices = choices
        self._often = often
        self._session = Session(
            *models, verifier=VERIFIERS["rrsw"], sampling=Sampling(temperature=temperature),
            rng=seeded_source(0, models[0].device),
        )  # fmt: skip
        self._session.prefill(timed_text())
        self._order = np.random.default_rng(0)
        self._turns: list[list[float]] = []

    def turn(self) -> None:
        """So many steps of each, every time in an order of its own."""
        for _ in range(self._often):
            ms = [0.0] * len(self.choices)
            for place in self._order.permutation(len(ms)):
                choice = self.choices[place]
                self._session.use(VERIFIERS[choice.verifier])
                ms[place] = self._session.step(FixedTree(choice.tree)).total_ms
                self._session.rewind(CONTEXT)
            self._turns.append(ms)

    @property
    def samples(self) -> dict[TreeChoice, np.ndarray]:
        """The first steps were for warming up."""
        return dict(zip(self.choices, np.array(self._turns[1:]).T, strict=True))


def take_turns(clocks: Sequence[StepClock], repeats: int, title: str) -> None:
    """A turn of each clock after the other, so that a slow spell of the machine, which may last a
    minute, meets all alike; what disturbs nobody for a quarter of the time does not count."""
    with one_thread():
        for _ in tqdm(range(1 + repeats), desc=title):
            for clock in clocks:
                clock.turn()


def lower_quartile(ms: np.ndarray) -> float:
    """The quartile of repeated times; `planner.estimates.step_costs` says why not the median."""
    return float(np.percentile(ms, 25))
