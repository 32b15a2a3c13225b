"""Entrants of the contest of growing and fixed trees, and how long their steps take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from tqdm import tqdm

from planner.documents.head_card import HeadFile
from planner.documents.profile import Profile
from planner.documents.sampling import Sampling
from planner.optimizer.choice import Question, rank_candidates
from planner.optimizer.grading import Candidate
from planner.optimizer.solvers.specdecpp import SCORES
from planner.plans.plan import Plan
from planner.policies import Drafting, DynamicDrafting, ThresholdDrafting, TreeDrafting
from planner.verifiers import GREEDY_VERIFIER
from profiler import ScoringHead, discard_pieces
from profiler.head_making import HeadSettings, make_head
from runtime.embedded import load_prompts
from runtime.heads import file_sha256, load_head, save_head
from runtime.pair import Pair

from .contests import OFTEN, TEMPERATURES, Profiling, draft_of, one_thread, profiles_of, target_of
from .decoding import decoder_of, log_error
from .outputs import processes
from .race import Lap, Race

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
    lap: Lap
    alone: Lap
    """The target alone, in the same run."""

    @property
    def error(self) -> float:
        """Standard error of the logarithm of the ratio of the two times, over prompts."""
        return log_error(self.lap.influence - self.alone.influence)


@dataclass(frozen=True)
class Effort:
    """How much is measured for the times."""

    profiling: Profiling
    num_prompts: int
    """Decoded for the step times; more on shapes that are timed more often."""
    num_tokens: int
    """Decoded a prompt."""
    num_rounds: int
    """Times that each of them is."""
    jobs: int
    """Processes that solve."""


def times_of(
    pair: str, shapes: Sequence[str], temperatures: Sequence[float], effort: Effort, folder: Path
) -> list[TimedEntrant]:
    """All entrants of one pair, timed; heads and profiles are kept in `folder`."""
    heads = {
        Sampling(temperature=temperature): head_of_pair(pair, temperature, folder)
        for temperature in TEMPERATURES
    }
    places = profiles_of(pair, shapes, effort.profiling, folder, heads)
    contests = list(product(shapes, temperatures))
    with processes(effort.jobs) as pool:
        running = [pool.submit(entrants, places[shape], t) for shape, t in contests]
        found = [each.result() for each in running]
    with one_thread():
        races = [
            race_of(pair, shape, [entrant.plan for entrant in each], effort, folder)
            for (shape, _), each in zip(contests, found, strict=True)
        ]
        for _ in range(effort.num_rounds):
            for turn in tqdm(range(effort.num_prompts), desc=f"steps, {pair}"):
                for (shape, _), race in zip(contests, races, strict=True):
                    often = OFTEN.get(shape, 1)
                    for index in range(turn * often, (turn + 1) * often):
                        race.decode(index)
    done = []
    for contest, each, race in zip(contests, found, races, strict=True):
        *laps, alone = race.laps()
        done += [
            TimedEntrant(*contest, entrant, lap, alone)
            for entrant, lap in zip(each, laps, strict=True)
        ]
    return done


def race_of(pair: str, shape: str, plans: Sequence[Plan], effort: Effort, folder: Path) -> Race:
    """The race of these plans, and of the target alone, which comes last, at its start."""
    alone = TreeDrafting(parents=[-1])
    last = Plan(drafting=alone, verifier=plans[0].verifier, sampling=plans[0].sampling)
    target, draft = target_of(shape), draft_of(pair)
    decoders = [decoder_of(plan, target, draft, folder) for plan in (*plans, last)]
    prompts = load_prompts("evaluation")[: effort.num_prompts * OFTEN.get(shape, 1)]
    return Race(decoders, prompts, effort.num_tokens)


def head_of_pair(pair: str, temperature: float, folder: Path) -> ScoringHead:
    """A head trained on the profiling prompts, with all settings as they come."""
    path, draft = folder / f"{pair}-{temperature:g}.safetensors", draft_of(pair)
    sampling = Sampling(temperature=temperature)
    if not path.exists():
        models, prompts = Pair(target_of(), draft), load_prompts("profile")
        head, card = make_head(models, prompts, HeadSettings(sampling), output=path)
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
"""Settings that the planner decides everything about: which candidates compete for a name."""


def best_of(ranking: Sequence[Candidate], name: str) -> Candidate | None:
    """The fastest that competes for a name of `SOLVED`; None where the planner has none."""
    competing = (each for each in ranking if each.speculates and SOLVED[name](each.drafting))
    return next(competing, None)


def entrants(profile: Path, temperature: float) -> list[Entrant]:
    """Everything that takes part at one temperature."""
    sampling = Sampling(temperature=temperature)
    facts = Profile.load(profile)
    ranking = rank_candidates(facts, Question(sampling=facts.sampling_at(temperature)))
    found = []
    for name in SOLVED:
        best = best_of(ranking, name)
        if best is not None:
            plan = Plan(
                drafting=best.drafting, verifier=best.verifier, sampling=sampling,
                predicted=best.predicted,
            )  # fmt: skip
            found.append(Entrant(name, plan))
    verifier = "rrsw" if temperature else GREEDY_VERIFIER
    limits = {"num_nodes": 64, "max_depth": 20, "max_children": 8}
    for value in THRESHOLDS:
        drafting = ThresholdDrafting(threshold=value, **limits)
        plan = Plan(drafting=drafting, verifier=verifier, sampling=sampling)
        found.append(Entrant("dyspec, threshold, best of a grid", plan, tuned=True))
    theirs = Plan(drafting=THEIRS, verifier="chain", sampling=sampling)
    return [*found, Entrant("assisted, as it comes", theirs)]
