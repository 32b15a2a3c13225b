"""The whole measurement, piece by piece, resumable, into one profile.

Half of the times are taken at first and half at last, with everything else between them: see
`CostRounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from tqdm import tqdm

from planner.documents.document import PlannerError
from planner.documents.head_card import HeadFile
from planner.documents.profile import Acceptance, Profile, Replay
from planner.documents.sampling import Sampling
from planner.documents.times import Costs
from planner.verifiers import VERIFIERS
from runtime.heads import AcceptanceHead
from runtime.language_model import LanguageModel
from runtime.machine import describe_execution, describe_machine

from .acceptance import acceptance_entries, measure_acceptance, texts_of
from .journal import Journal, Piece
from .optimum import optimal_entries
from .replay.record import (
    Width,
    record_replays,
    replay_entry,
    replayed_verifiers,
)
from .times.growing import chain_sizes, powers_of_two
from .times.sweeps import (
    NUM_SMALL,
    SMALL_SIZES,
    CostGrid,
    CostRounds,
    CostSweeps,
)

TIMED_VERIFIERS = ("rrsw", *(name for name in VERIFIERS if name != "rrsw"))
"""The rule that everything is timed with, and the others, of which only the walks are, at a few
sizes."""


@dataclass(frozen=True)
class ScoringHead:
    """An acceptance head, ready to score, and the file that it was read from."""

    head: AcceptanceHead
    file: HeadFile


@dataclass(frozen=True)
class Settings:
    """What to measure."""

    samplings: tuple[Sampling, ...]
    contexts: tuple[int, ...] = (128, 512)
    max_nodes: int = 64
    num_tokens: int = 128
    num_ranks: int = 16
    repeats: int = 20
    seed: int = 0
    num_replayed: int = 64
    """Prompts, the first so many, at whose positions whole trees are recorded; 0: none."""
    width: Width = field(default_factory=Width)
    """Of these trees."""


def measure_profile(
    target: LanguageModel,
    draft: LanguageModel,
    prompts: Sequence[Sequence[int]],
    settings: Settings,
    *,
    heads: Mapping[Sampling, ScoringHead] | None = None,
    output: str | Path | None = None,
    report_line: Callable[[str], None] = lambda line: None,
) -> Profile:
    """Measure `target` and `draft` on this machine.

    prompts  token ids; the target continues each to measure acceptance, and their tokens fill the
             caches when times are measured
    heads    by the sampling that they were trained for, one of the settings': they score the trees
             that are recorded under it, and their draft passes are timed
    output   where the profile is going to be written: finished pieces are kept beside it, and an
             interrupted measurement with the same settings continues there; once the profile is
             safely written, call `discard_pieces(output)`

    Progress goes to stderr.  Raises PlannerError for models that do not share a vocabulary,
    prompts that are empty, too long or outside it, and settings beyond the models' positions.
    """
    heads = dict(heads or {})
    _check(target, draft, prompts, settings, heads)
    journal = Journal(output, _identity(target, draft, prompts, settings, heads))
    if journal.num_pieces:
        report_line(f"continuing an interrupted measurement: {journal.num_pieces} pieces are done")
    num_pieces = len(settings.contexts) * settings.repeats + len(settings.samplings)
    num_pieces += sum(len(_replayed(sampling, settings)) for sampling in settings.samplings)
    with tqdm(total=num_pieces, unit="piece", desc="profile") as progress:
        rounds = CostRounds(_sweeps(target, draft, prompts, settings, heads), journal)
        progress.set_description("times")
        rounds.take(range(settings.repeats // 2), progress.update)
        pieces: list[Piece] = []
        for sampling in settings.samplings:
            progress.set_description(f"acceptance {sampling}")
            pieces.append(
                journal.piece(
                    f"acceptance-{len(pieces)}",
                    lambda sampling=sampling: measure_acceptance(  # type: ignore[misc]
                        target,
                        draft,
                        prompts,
                        sampling,
                        num_tokens=settings.num_tokens,
                        num_ranks=settings.num_ranks,
                        seed=settings.seed,
                    ),
                )
            )
            progress.update()
        replays = [
            _measure_replays(
                target, draft, prompts, sampling, piece, settings, heads, journal, progress
            )
            for sampling, piece in zip(settings.samplings, pieces, strict=True)
        ]
        progress.set_description("times")
        rounds.take(range(settings.repeats // 2, settings.repeats), progress.update)
    costs = list(rounds.costs().values())
    return _assemble(target, draft, costs, pieces, replays, settings, heads)


def _sweeps(
    target: LanguageModel,
    draft: LanguageModel,
    prompts: Sequence[Sequence[int]],
    settings: Settings,
    heads: Mapping[Sampling, ScoringHead],
) -> dict[str, CostSweeps]:
    """By context."""
    return {
        str(context): CostSweeps(
            target,
            draft,
            _text_of_length(prompts, context),
            context,
            CostGrid.up_to(settings.max_nodes, target.vocab_size),
            settings.samplings[-1],
            verifiers=TIMED_VERIFIERS,
            seed=settings.seed,
            heads={each.file.sha256: each.head.scores for each in heads.values()},
        )
        for context in settings.contexts
    }


def _measure_replays(
    target: LanguageModel,
    draft: LanguageModel,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    acceptance: Piece,
    settings: Settings,
    heads: Mapping[Sampling, ScoringHead],
    journal: Journal,
    progress: tqdm,
) -> dict[str, Piece]:
    """By verifier, on the first of the texts that `acceptance` was measured on."""
    texts = texts_of(acceptance)[: settings.num_replayed]
    place = settings.samplings.index(sampling)
    found = {}
    for verifier in _replayed(sampling, settings):
        progress.set_description(f"trees {sampling} {verifier}")
        found[verifier] = journal.piece(
            f"replays-{place}-{verifier}",
            lambda verifier=verifier: record_replays(  # type: ignore[misc]
                target,
                draft,
                prompts[: settings.num_replayed],
                texts,
                sampling,
                verifier,
                width=settings.width,
                seed=settings.seed,
                head=heads[sampling].head if sampling in heads else None,
            ),
        )
        progress.update()
    return found


def _replayed(sampling: Sampling, settings: Settings) -> tuple[str, ...]:
    return replayed_verifiers(sampling) if settings.num_replayed else ()


def _assemble(
    target: LanguageModel,
    draft: LanguageModel,
    costs: list[Costs],
    pieces: list[Piece],
    replays: list[dict[str, Piece]],
    settings: Settings,
    heads: Mapping[Sampling, ScoringHead],
) -> Profile:
    entries: list[Acceptance] = []
    trees: list[Replay] = []
    arrays: Piece = {}
    for sampling, piece, recorded in zip(settings.samplings, pieces, replays, strict=True):
        of_sampling, named = acceptance_entries(piece, sampling)
        entries += of_sampling
        arrays |= named
        for verifier, replay in recorded.items():
            file = heads[sampling].file if sampling in heads else None
            entry, named = replay_entry(replay, sampling, verifier, settings.width, file)
            trees.append(entry)
            arrays |= named
    profile = Profile(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=describe_machine(target.device),
        execution=describe_execution(target),
        target=target.info,
        draft=draft.info,
        costs=costs,
        acceptance=entries,
        optimal=[
            entry
            for sampling, piece in zip(settings.samplings, pieces, strict=True)
            for entry in optimal_entries(piece, sampling)
        ],
        replays=trees,
    )
    return profile.with_arrays(arrays, "profile.safetensors")


def _text_of_length(prompts: Sequence[Sequence[int]], length: int) -> list[int]:
    """Prompt tokens one after the other, over and over, until there are `length`."""
    joined = [token for prompt in prompts for token in prompt]
    return list(np.resize(np.array(joined), length).tolist())


def _identity(
    target: LanguageModel,
    draft: LanguageModel,
    prompts: Sequence[Sequence[int]],
    settings: Settings,
    heads: Mapping[Sampling, ScoringHead],
) -> dict[str, object]:
    """Everything that a piece depends on."""
    return {
        "rules": list(VERIFIERS),
        "grid": asdict(CostGrid.up_to(settings.max_nodes, target.vocab_size)),
        "repeated": [SMALL_SIZES, NUM_SMALL],
        "growing": [powers_of_two(settings.max_nodes), chain_sizes(settings.max_nodes)],
        "target": target.info.model_dump(),
        "draft": draft.info.model_dump(),
        "machine": describe_machine(target.device).model_dump(),
        "execution": describe_execution(target).model_dump(),
        "prompts": [list(prompt) for prompt in prompts],
        "heads": {str(sampling): each.file.sha256 for sampling, each in heads.items()},
        "settings": asdict(settings)
        | {"samplings": [sampling.model_dump() for sampling in settings.samplings]},
    }


def _check(
    target: LanguageModel,
    draft: LanguageModel,
    prompts: Sequence[Sequence[int]],
    settings: Settings,
    heads: Mapping[Sampling, ScoringHead],
) -> None:
    if target.vocab_size != draft.vocab_size:
        raise PlannerError(
            f"draft: got {draft.info.name} with a vocabulary of {draft.vocab_size}, expected "
            f"{target.vocab_size} as {target.info.name} has; choose models of one family"
        )
    if not prompts or not settings.samplings or not settings.contexts:
        raise PlannerError("prompts, temperatures, contexts: expected at least one of each")
    positions = min(target.max_positions, draft.max_positions)
    for index, prompt in enumerate(prompts):
        if not prompt or min(prompt) < 0 or max(prompt) >= target.vocab_size:
            raise PlannerError(
                f"prompts.{index}: got no tokens or some outside the vocabulary, expected ids from "
                f"0 to {target.vocab_size - 1}"
            )
        if len(prompt) + settings.num_tokens > positions:
            raise PlannerError(
                f"prompts.{index}: got {len(prompt)} tokens to be continued by "
                f"{settings.num_tokens}, expected at most {positions} positions in all; "
                "shorten the prompt or the continuation"
            )
    if settings.max_nodes < 2 or settings.repeats < 2:
        raise PlannerError("max_nodes and repeats: expected at least 2 each")
    deepest = CostGrid.up_to(settings.max_nodes, target.vocab_size).depth
    for context in settings.contexts:
        if context + deepest > positions:
            raise PlannerError(
                f"context: got {context}, expected at most {positions - deepest}: the models serve "
                f"{positions} positions and the trees timed are {deepest} levels deep"
            )
    for sampling in heads:
        if sampling not in settings.samplings:
            there = ", ".join(map(str, settings.samplings))
            raise PlannerError(
                f"head: got one trained for {sampling}, expected one for {there}, as is measured; "
                "measure at its own settings too, or train one for these with planner train-head"
            )
    if settings.num_ranks > target.vocab_size:
        raise PlannerError(
            f"num_ranks: got {settings.num_ranks}, expected at most the vocabulary, "
            f"{target.vocab_size}"
        )
