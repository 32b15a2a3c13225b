"""Who takes part in the contest of growing and fixed trees, and how long do their steps take?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from planner.cli.models import EMBEDDED
from planner.drafting import Drafting, DynamicDrafting, HeadFile, ThresholdDrafting, TreeDrafting
from planner.optimizer import rank_candidates
from planner.optimizer.grading import Candidate
from planner.optimizer.specdecpp import SCORES
from planner.plan import GREEDY_RULE, Plan, Predicted
from planner.profile import Profile, Sampling
from planner.schema import write_atomically
from profiler import ScoringHead, discard_pieces
from profiler.heads import HeadSettings, make_head
from runtime import Decoder
from runtime.embedded import load_prompts
from runtime.heads import file_sha256, load_head, save_head
from runtime.models import LanguageModel

from .regret import TEMPERATURES, at_shape, facts_of, named
from .truth import log_error

THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.2)
THEIRS = DynamicDrafting(max_depth=20, num_tokens=20, schedule="constant", confidence=0.4)
"""Hugging Face's assisted generation as it comes."""


@dataclass(frozen=True)
class Entrant:
    """One way of drafting in the contest."""

    name: str
    plan: Plan
    tuned: bool = False
    """One of a grid, of which only the best measured one is shown?"""


@dataclass(frozen=True)
class Timed:
    """An entrant with the time of its steps, at one shape and temperature."""

    shape: str
    temperature: float
    entrant: Entrant
    step_ms: float
    autoregressive_ms: float
    """Of a token of the target alone, in the same run."""
    error: float
    """Standard error of the logarithm of their ratio, over prompts."""

    def to_json(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "temperature": self.temperature,
            "name": self.entrant.name,
            "plan": self.entrant.plan.model_dump(mode="json"),
            "tuned": self.entrant.tuned,
            "step_ms": self.step_ms,
            "autoregressive_ms": self.autoregressive_ms,
            "error": self.error,
        }

    @classmethod
    def of_json(cls, content: dict[str, Any]) -> Timed:
        plan = Plan.parse(content.pop("plan"), "times kept")
        entrant = Entrant(content.pop("name"), plan, content.pop("tuned"))
        return cls(entrant=entrant, **content)


@dataclass(frozen=True)
class Effort:
    """What is measured for the times."""

    repeats: int
    """Of every profiled time."""
    num_profiled: int
    """Tokens a prompt."""
    num_prompts: int
    num_tokens: int
    """Decoded for the step times."""


def times_of(
    pair: str, shapes: Sequence[str], temperatures: Sequence[float], effort: Effort, folder: Path
) -> list[Timed]:
    """All entrants of one pair, timed.

    folder  heads and times are kept there: called again, it continues with what it has
    """
    kept = folder / f"{pair}.times"
    if kept.exists():
        return [Timed.of_json(each) for each in json.loads(kept.read_text())]
    draft = named(next(each for each, place in EMBEDDED.items() if place == (pair, 1)))
    small = named("embedded/target")
    heads = {
        Sampling(temperature=temperature): head_of_pair(pair, small, draft, temperature, folder)
        for temperature in TEMPERATURES
    }
    facts = facts_of(small, draft, effort.repeats, effort.num_profiled, heads)
    done = []
    for shape in shapes:
        target = named(f"embedded/target@{shape}") if shape else small
        profile = at_shape(facts, target, draft, effort.repeats, heads) if shape else facts
        for temperature in temperatures:
            found = entrants(profile, temperature)
            done += timed(target, draft, shape, temperature, found, effort, folder)
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
        head, card = make_head(target, draft, prompts, HeadSettings(sampling), output=path)
        save_head(head, card, path)
        discard_pieces(path)
    file = HeadFile(file=path.name, sha256=file_sha256(path))
    return ScoringHead(load_head(path, draft.info, sampling), file)


def entrants(profile: Profile, temperature: float) -> list[Entrant]:
    """Everything that takes part at one temperature."""
    sampling = Sampling(temperature=temperature)

    def plan(verifier: str, drafting: Drafting, predicted: Predicted | None = None) -> Plan:
        return Plan(drafting=drafting, verifier=verifier, sampling=sampling, predicted=predicted)

    def best(solver: str, kind: str, *scores: str) -> Candidate | None:
        return next(
            (
                candidate
                for candidate in rank_candidates(profile, solver=solver, temperature=temperature)
                if candidate.speculates and candidate.drafting.kind == kind
                and (not scores or getattr(candidate.drafting, "score", "") in scores)
            ),
            None,
        )  # fmt: skip

    chosen = {
        "best fixed tree": best("fixed", "tree"),
        "best chain": best("chain", "tree"),
        "dyspec, greedy": best("dyspec", "dyspec-greedy"),
        "dyspec, threshold": best("dyspec", "dyspec-threshold"),
        "specdecpp, trained head": best("specdecpp", "stopping", "head"),
        "specdecpp, no head": best("specdecpp", "stopping", *SCORES),
        "assisted": best("assisted", "dynamic"),
        "price": best("price", "price"),
    }
    found = [
        Entrant(name, plan(candidate.verifier, candidate.drafting, candidate.predicted))
        for name, candidate in chosen.items()
        if candidate is not None
    ]
    rule = "rrsw" if temperature else GREEDY_RULE
    found += [
        Entrant(
            "dyspec, threshold, best of a grid",
            plan(
                rule,
                ThresholdDrafting(threshold=value, num_nodes=64, max_depth=20, max_children=8),
            ),
            tuned=True,
        )
        for value in THRESHOLDS
    ]
    found.append(Entrant("assisted, as it comes", plan("chain", THEIRS)))
    return found


def timed(
    target: LanguageModel,
    draft: LanguageModel,
    shape: str,
    temperature: float,
    found: Sequence[Entrant],
    effort: Effort,
    folder: Path,
) -> list[Timed]:
    """Decode every prompt with every entrant, in an order of its own."""
    alone = Plan(
        drafting=TreeDrafting(parents=[-1]), verifier=found[0].plan.verifier,
        sampling=Sampling(temperature=temperature),
    )  # fmt: skip
    decoders = [
        decoder_of(plan, target, draft, folder) for plan in (*(e.plan for e in found), alone)
    ]
    shape_of_times = (len(decoders), effort.num_prompts)
    steps, ms = np.zeros(shape_of_times), np.zeros(shape_of_times)
    order = np.random.default_rng(0)
    prompts = load_prompts("evaluation")
    for each in decoders:
        each.generate(prompts[-1], max_new_tokens=16)  # compiles and warms up
    title = f"steps of {target.info.name}, T={temperature:g}"
    for index, prompt in enumerate(tqdm(prompts[: effort.num_prompts], desc=title)):
        for place in order.permutation(len(decoders)):
            decoder = decoders[place]
            report = decoder.generate(prompt, max_new_tokens=effort.num_tokens, seed=index).report
            steps[place, index] = report.measured.num_steps
            ms[place, index] = report.continuations[0].decode_ms
    means = ms.sum(axis=1) / steps.sum(axis=1)
    influence = ms / ms.sum(axis=1)[:, None] - steps / steps.sum(axis=1)[:, None]
    return [
        Timed(
            shape, temperature, entrant, means[place], means[-1],
            log_error(influence[place] - influence[-1]),
        )
        for place, entrant in enumerate(found)
    ]  # fmt: skip


def decoder_of(plan: Plan, target: LanguageModel, draft: LanguageModel, folder: Path) -> Decoder:
    """The plan's decoder; its head lies in `folder`."""
    path = folder / "plan.json"
    plan.save(path)
    return Decoder.from_plan(path, target, draft, timed=False)
