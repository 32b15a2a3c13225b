"""The embedded pairs, shapes and temperatures that are compared, and their profiles."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from tqdm import tqdm

from planner.cli.models import EMBEDDED, load_named
from planner.documents.profile import Profile
from planner.documents.sampling import Sampling
from planner.documents.times import Costs
from profiler import THOROUGH, Pair, ScoringHead, Settings, measure_profile
from profiler.journal import Journal
from profiler.times.cost_grid import CostGrid
from profiler.times.sweeps import CostRounds, CostSweeps
from runtime.embedded import PAIRS, load_prompts
from runtime.language_model import LanguageModel
from runtime.machine import describe_machine

SHAPES = ("", "25M", "100M")
"""Sizes that the target is inflated to; "" is as it is."""
TEMPERATURES = (0.0, 0.6, 1.0)
CONTEXT = 128
OFTEN = {"": 3}
"""Timings of a shape in every turn, if not one: short steps are the noisy ones."""
SWEEPS = {"": 4, "25M": 2}
"""Sweeps of a shape's costs in every turn, if not one: where a plan gains a few percent, times have
to be known to less."""

Heads = Mapping[Sampling, ScoringHead]


def add_contests(parser: argparse.ArgumentParser) -> None:
    """`--pair` and `--shape`, of each all or some, for `contests_of`."""
    parser.add_argument("--pair", choices=PAIRS, action="append", help="repeatable")
    parser.add_argument(
        "--shape", choices=SHAPES, action="append", help="'' is as it is; repeatable"
    )


def contests_of(arguments: argparse.Namespace) -> tuple[Sequence[str], Sequence[str]]:
    """Pairs and shapes that were asked for."""
    return arguments.pair or tuple(PAIRS), arguments.shape or SHAPES


@cache
def target_of(
    shape: str = "", weights: str = "float32", folder: Path | None = None
) -> LanguageModel:
    """The embedded target, or the one that `folder` holds."""
    if folder is not None:
        return _loaded(str(folder))
    return _loaded(f"embedded/target@{shape}" if shape else "embedded/target", weights)


@cache
def draft_of(pair: str) -> LanguageModel:
    """The draft of an embedded pair."""
    return _loaded(next(name for name, place in EMBEDDED.items() if place == (pair, 1)))


def _loaded(name: str, weights: str = "float32") -> LanguageModel:
    return load_named(name, device="cpu", dtype=weights, attention="sdpa")


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


def profiled(
    pair: Pair, path: Path, prompts: Sequence[Sequence[int]], settings: Settings
) -> Profile:
    """The profile at `path`, measured now if it is not there; interrupted, it goes on."""
    if not path.exists():
        measure_profile(pair, prompts, settings, output=path).save(path)
    return Profile.load(path)


def samplings_at(temperatures: Sequence[float]) -> tuple[Sampling, ...]:
    """Plain sampling at each of them."""
    return tuple(Sampling(temperature=each) for each in temperatures)


@dataclass(frozen=True)
class Profiling:
    """How much is measured for a profile."""

    repeats: int
    """Times that every cost is measured."""
    num_tokens: int
    """Length of the text behind every prompt."""
    num_prompts: int = THOROUGH.num_replayed


def facts_of(
    pair: str,
    profiling: Profiling,
    folder: Path,
    heads: Heads | None = None,
    *,
    prompts: str = "profile",
) -> Path:
    """The file of a pair's acceptance, trees recorded after all prompts; measured where there is
    none in `folder`."""
    place = folder / f"{pair}-{prompts}.json"
    if not place.exists():
        settings = Settings(
            samplings=samplings_at(TEMPERATURES),
            contexts=(CONTEXT,), repeats=2, num_tokens=profiling.num_tokens,
            num_replayed=profiling.num_prompts,
        )  # fmt: skip
        texts = load_prompts(prompts, profiling.num_prompts)
        measure_profile(Pair(target_of(), draft_of(pair)), texts, settings, heads=heads).save(place)
    return place


def profiles_of(
    pair: str, shapes: Sequence[str], profiling: Profiling, folder: Path, heads: Heads | None = None
) -> dict[str, Path]:
    """Files of a pair's profiles by shape: the acceptance of `facts_of`, which all share, with the
    costs of each; measured where they are not in `folder` yet."""
    places = {shape: folder / f"{pair}-{shape or 'as-it-is'}.json" for shape in shapes}
    if not all(place.exists() for place in places.values()):
        facts = Profile.load(facts_of(pair, profiling, folder, heads))
        with one_thread():
            costs = _costs(pair, shapes, profiling.repeats, heads or {})
        for shape, place in places.items():
            target = target_of(shape)
            machine = describe_machine(target.device)
            of_shape = {"costs": costs[shape], "target": target.info, "machine": machine}
            facts.model_copy(update=of_shape).save(place)
    return places


def _costs(pair: str, shapes: Sequence[str], repeats: int, heads: Heads) -> dict[str, list[Costs]]:
    """The costs of every shape, swept in turns: of steps that draw tokens and of greedy ones, as in
    anyone's profile."""
    drawn, greedy = Sampling(temperature=1.0), Sampling(temperature=0.0)
    names = {(shape, kind): f"{shape}/{kind}" for shape in shapes for kind in (drawn, greedy)}
    sweeps = {
        name: CostSweeps(
            Pair(target_of(shape), draft_of(pair)), timed_text(),
            CostGrid.up_to(64, target_of(shape).vocab_size), kind, seed=0,
            heads={
                each.file.sha256: each.head.scores
                for sampling, each in heads.items()
                if sampling.is_greedy == kind.is_greedy
            },
        )
        for (shape, kind), name in names.items()
    }  # fmt: skip
    often = {name: SWEEPS.get(shape, 1) for (shape, _), name in names.items()}
    rounds = CostRounds(sweeps, Journal(None, {}).piece, often)
    with tqdm(total=repeats * len(sweeps), desc="costs") as progress:
        rounds.take(range(repeats), progress.update)
    found = rounds.costs()
    of_greedy = {"sampling": greedy}
    return {
        shape: [
            found[names[shape, drawn]],
            found[names[shape, greedy]].model_copy(update=of_greedy),
        ]
        for shape in shapes
    }


def timed_text() -> list[int]:
    """The text behind which steps are timed, `CONTEXT` tokens."""
    return [token for prompt in load_prompts("evaluation") for token in prompt][:CONTEXT]
