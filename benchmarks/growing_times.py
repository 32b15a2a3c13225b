"""Entrants of the contest of growing and fixed trees, and how long their steps take."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from planner.documents.document import write_atomically
from planner.documents.head_card import HeadFile
from planner.documents.profile import Profile
from planner.documents.sampling import Sampling
from planner.optimizer.choice import Question, rank_candidates
from planner.optimizer.grading import Candidate
from planner.optimizer.solvers.specdecpp import SCORES
from planner.plans.plan import Plan, Predicted
from planner.policies import Drafting, DynamicDrafting, ThresholdDrafting, TreeDrafting
from planner.verifiers import GREEDY_VERIFIER
from profiler import ScoringHead, discard_pieces
from profiler.head_making import HeadSettings, make_head
from runtime import Decoder
from runtime.embedded import load_prompts
from runtime.heads import file_sha256, load_head, save_head
from runtime.language_model import LanguageModel
from runtime.pair import Pair

from .race import Lap, Race
from .regret_times import (
    OFTEN,
    TEMPERATURES,
    Profiling,
    draft_of,
    one_thread,
    profiles_of,
    target_of,
)
from .truth import log_error

THRESHOLDS = (0.2, 0.4, 0.6, 0.8, 0.95)
THEIRS = DynamicDrafting(max_depth=20, num_tokens=20, schedule="constant", confidence=0.4)
"""Hugging Face's assisted generation as it comes."""


@dataclass(frozen=True)
class Entrant:
    """One way of drafting in the contest."""

    name: str
    plan: Plan
    tuned: bool = False
    """One of a grid, of which only the one that suits the profiling prompts best is shown?"""


@dataclass(frozen=True)
class TimedEntrant:
    """An entrant with the time of its steps, at one shape and temperature."""

    shape: str
    temperature: float
    entrant: Entrant
    step_ms: float
    passes: float
    """Draft passes of a step there."""
    nodes: float
    """Verified in a step there, root included."""
    pass_ms: float
    """What a draft pass more adds to a step."""
    node_ms: float
    """What a node more adds."""
    autoregressive_ms: float
    """Of a token of the target alone, in the same run."""
    influence: tuple[float, ...]
    """By how much each prompt moves ln(step_ms), its draft passes and nodes being what they are."""
    autoregressive_influence: tuple[float, ...]

    def step_with(self, passes: float, nodes: float) -> float:
        """Milliseconds of a step on other texts, where it takes so many draft passes and nodes."""
        more = self.pass_ms * (passes - self.passes) + self.node_ms * (nodes - self.nodes)
        return self.step_ms + more

    @property
    def error(self) -> float:
        """Standard error of the logarithm of the ratio of the two times, over prompts."""
        return log_error(np.subtract(self.influence, self.autoregressive_influence))

    def to_json(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "temperature": self.temperature,
            "name": self.entrant.name,
            "plan": self.entrant.plan.model_dump(mode="json"),
            "tuned": self.entrant.tuned,
            "step_ms": self.step_ms,
            "passes": self.passes,
            "nodes": self.nodes,
            "pass_ms": self.pass_ms,
            "node_ms": self.node_ms,
            "autoregressive_ms": self.autoregressive_ms,
            "influence": self.influence,
            "autoregressive_influence": self.autoregressive_influence,
        }

    @classmethod
    def of_json(cls, content: dict[str, Any]) -> TimedEntrant:
        plan = Plan.parse(content.pop("plan"), "times kept")
        entrant = Entrant(content.pop("name"), plan, content.pop("tuned"))
        for name in ("influence", "autoregressive_influence"):
            content[name] = tuple(content[name])
        return cls(entrant=entrant, **content)


@dataclass(frozen=True)
class Effort:
    """How much is measured for the times."""

    profiling: Profiling
    num_prompts: int
    """For the step times; more on shapes that are timed more often."""
    num_tokens: int
    """Decoded a prompt."""
    num_rounds: int
    """Times that each of them is."""
    jobs: int
    """Processes that solve."""


def times_of(
    pair: str, shapes: Sequence[str], temperatures: Sequence[float], effort: Effort, folder: Path
) -> list[TimedEntrant]:
    """All entrants of one pair, timed.

    folder  heads, profiles and times are kept there: called again, it continues with what it has
    """
    kept = folder / f"{pair}.times"
    if kept.exists():
        return [TimedEntrant.of_json(each) for each in json.loads(kept.read_text())]
    draft, small = draft_of(pair), target_of("")
    heads = {
        Sampling(temperature=temperature): head_of_pair(pair, small, draft, temperature, folder)
        for temperature in TEMPERATURES
    }
    targets = {shape: target_of(shape) for shape in shapes}
    places = profiles_of(pair, shapes, effort.profiling, folder, heads)
    contests = list(product(shapes, temperatures))
    with ProcessPoolExecutor(effort.jobs, mp_context=get_context("spawn")) as pool:
        asked = [(places[shape], temperature) for shape, temperature in contests]
        found = list(pool.map(entrants, *zip(*asked, strict=True)))
    with one_thread():
        races = [
            race_of((targets[shape], draft), shape, temperature, each, effort, folder)
            for (shape, temperature), each in zip(contests, found, strict=True)
        ]
        for _ in range(effort.num_rounds):
            for index in tqdm(range(effort.num_prompts), desc=f"steps, {pair}"):
                for race in races:
                    race.turn(index)
    done = [each for race in races for each in race.timed()]
    write_atomically(kept, json.dumps([each.to_json() for each in done]) + "\n")
    return done


def head_of_pair(
    pair: str, target: LanguageModel, draft: LanguageModel, temperature: float, folder: Path
) -> ScoringHead:
    """A head trained on the profiling prompts, with all settings as they come."""
    path = folder / f"{pair}-{temperature:g}.safetensors"
    sampling = Sampling(temperature=temperature)
    if not path.exists():
        prompts = load_prompts("profile")
        head, card = make_head(Pair(target, draft), prompts, HeadSettings(sampling), output=path)
        save_head(head, card, path)
        discard_pieces(path)
    file = HeadFile(file=path.name, sha256=file_sha256(path))
    return ScoringHead(load_head(path, draft.info, sampling), file)


SOLVED: dict[str, Callable[[Drafting], bool]] = {
    "best fixed tree": lambda drafting: drafting.kind == "tree",
    "best chain": lambda drafting: drafting.kind == "tree" and drafting.most_children == 1,
    "dyspec, greedy": lambda drafting: drafting.kind == "dyspec-greedy",
    "dyspec, threshold": lambda drafting: drafting.kind == "dyspec-threshold",
    "specdecpp, trained head": lambda drafting: (
        drafting.kind == "stopping" and drafting.score == "head"
    ),
    "specdecpp, no head": lambda drafting: drafting.kind == "stopping" and drafting.score in SCORES,
    "assisted": lambda drafting: drafting.kind == "dynamic",
    "price": lambda drafting: drafting.kind == "price",
}
"""What the planner decides everything about: which candidates compete for a name."""


def best_of(ranking: Sequence[Candidate], name: str) -> Candidate | None:
    """The fastest that competes for a name of `SOLVED`; None where the planner has none."""
    competing = (each for each in ranking if each.speculates and SOLVED[name](each.drafting))
    return next(competing, None)


def entrants(profile: Path, temperature: float) -> list[Entrant]:
    """Everything that takes part at one temperature."""
    sampling = Sampling(temperature=temperature)

    def plan(verifier: str, drafting: Drafting, predicted: Predicted | None = None) -> Plan:
        return Plan(drafting=drafting, verifier=verifier, sampling=sampling, predicted=predicted)

    facts = Profile.load(profile)
    ranking = rank_candidates(facts, Question(sampling=facts.sampling_at(temperature)))
    chosen = {name: best_of(ranking, name) for name in SOLVED}
    found = [
        Entrant(name, plan(candidate.verifier, candidate.drafting, candidate.predicted))
        for name, candidate in chosen.items()
        if candidate is not None
    ]
    verifier = "rrsw" if temperature else GREEDY_VERIFIER
    found += [
        Entrant(
            "dyspec, threshold, best of a grid",
            plan(
                verifier,
                ThresholdDrafting(threshold=value, num_nodes=64, max_depth=20, max_children=8),
            ),
            tuned=True,
        )
        for value in THRESHOLDS
    ]
    found.append(Entrant("assisted, as it comes", plan("chain", THEIRS)))
    return found


@dataclass(frozen=True)
class EntrantRace:
    """All entrants at one shape and temperature, and the target alone, which comes last."""

    shape: str
    temperature: float
    found: Sequence[Entrant]
    race: Race
    often: int
    """Prompts in a turn."""

    def turn(self, number: int) -> None:
        """The next prompt, or the next few."""
        for index in range(number * self.often, (number + 1) * self.often):
            self.race.decode(index)

    def timed(self) -> list[TimedEntrant]:
        """Mean times of a step."""
        *laps, alone = self.race.laps()
        alone_ms = float(alone.ms.sum() / alone.steps.sum())
        return [
            TimedEntrant(
                self.shape, self.temperature, entrant, float(lap.ms.sum() / lap.steps.sum()),
                float(lap.passes.sum() / lap.steps.sum()), float(lap.nodes.sum() / lap.steps.sum()),
                lap.pass_ms, lap.node_ms, alone_ms, influence_of(lap), influence_of(alone),
            )
            for entrant, lap in zip(self.found, laps, strict=True)
        ]  # fmt: skip


def influence_of(lap: Lap) -> tuple[float, ...]:
    """Shares by which prompts move ln(mean time of a step), their passes and nodes left out."""
    rest = lap.ms - lap.pass_ms * lap.passes - lap.node_ms * lap.nodes
    moved = rest - lap.steps * rest.sum() / lap.steps.sum()
    return tuple((moved / lap.ms.sum()).tolist())


def race_of(
    models: tuple[LanguageModel, LanguageModel],
    shape: str,
    temperature: float,
    found: Sequence[Entrant],
    effort: Effort,
    folder: Path,
) -> EntrantRace:
    """The race of these entrants, decoding by `models` (target, draft), at its start."""
    often = OFTEN.get(shape, 1)
    alone = Plan(
        drafting=TreeDrafting(parents=[-1]), verifier=found[0].plan.verifier,
        sampling=Sampling(temperature=temperature),
    )  # fmt: skip
    plans = [*(each.plan for each in found), alone]
    decoders = [decoder_of(plan, *models, folder) for plan in plans]
    prompts = load_prompts("evaluation")[: effort.num_prompts * often]
    race = Race(decoders, prompts, effort.num_tokens)
    return EntrantRace(shape, temperature, found, race, often)


def decoder_of(plan: Plan, target: LanguageModel, draft: LanguageModel, folder: Path) -> Decoder:
    """The plan's decoder; its head lies in `folder`."""
    path = folder / f"{plan.fingerprint()[:16]}.json"  # one each: other processes save theirs
    plan.save(path)
    return Decoder.from_plan(path, target, draft, timed=False)
