"""A profile of an engine: its own times, and the acceptance of what it drafts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import torch

from planner.documents.document import PlannerError
from planner.documents.engine import EngineFacts
from planner.documents.profile import Acceptance, Profile, Replay
from planner.documents.sampling import Sampling
from planner.documents.version import WRITTEN_BY
from planner.verifiers import verifier_at
from profiler.acceptance import Tracing, acceptance_entries, measure_acceptance, texts_of
from profiler.journal import Journal, Piece, identity_of, measured_by
from profiler.measure import Progress
from profiler.profile_settings import Settings, fitted
from profiler.recording import Recording, Width, record_replays, replay_entry
from profiler.target_texts import check_prompts
from runtime.machine import describe_execution, describe_machine
from runtime.pair import Pair
from runtime.written import Written, logits_behind

from .engine_costs import Turns, engine_costs, lengths, time_passes, time_steps, two_clocks
from .program import Program, Running

NUM_TIMED, TIMED_TOKENS = 12, 64
"""Prompts that the engine decodes for its times, and the length of their continuations."""
PASS_REPEATS = 30
NUM_COMPARED, COMPARED_TOKENS, LEAST_SAME = 4, 16, 0.5
"""Prompts and tokens by which the engine's target is compared with the pair's, and the share of
these that have to be the same."""


def measure_engine_profile(
    pair: Pair,
    prompts: Sequence[Sequence[int]],
    settings: Settings,
    *,
    engine: Program,
    output: str | Path | None = None,
    report_line: Callable[[str], None] = lambda line: None,
) -> Profile:
    """Measure an engine on this machine, and the acceptance of `pair` under its way of drafting.

    See `measure_profile`.  Raises PlannerError also where the engine fails.
    """
    if not prompts or not settings.samplings:
        raise PlannerError("prompts, temperatures: expected at least one of each")
    if set(settings.batch_sizes) != {1}:
        raise PlannerError(
            f"batch_size: got {', '.join(map(str, settings.batch_sizes))}, expected 1 alone: "
            "engines are timed one request at a time"
        )
    extent, facts = fitted(settings, pair, max(map(len, prompts))), engine.facts
    check_prompts(prompts, pair, extent.num_tokens)
    if facts.greedy_only and not all(each.is_greedy for each in settings.samplings):
        raise PlannerError(
            f"temperature: got {max(each.temperature for each in settings.samplings):g}, expected "
            f"0 alone: where {facts.name} samples with a draft, its text does not follow the "
            "target's distribution; give --temperature 0"
        )
    identity = identity_of(pair, prompts) | {
        "engine": facts.model_dump(),
        "samplings": [each.model_dump() for each in settings.samplings],
        "extent": asdict(extent),
        "seed": settings.seed,
    }
    journal = Journal(output, identity, measured_by(), report_line)
    turns = Turns(prompts[:NUM_TIMED], settings.samplings[-1], TIMED_TOKENS, settings.seed)
    width = Width(facts.most_tokens + 1, 1)
    traced: dict[Sampling, Piece] = {}
    trees: dict[Sampling, Piece] = {}
    with Progress(_work(settings, facts), journal) as progress:
        for sampling in settings.samplings:
            tracing = Tracing(1, settings.seed, (facts.verifier,))
            trace = partial(measure_acceptance, num_tokens=extent.num_tokens)
            traced[sampling] = progress.piece(
                f"acceptance-{sampling}", partial(trace, pair, prompts, sampling, tracing)
            )
            texts = [
                Written(*each) for each in zip(prompts, texts_of(traced[sampling]), strict=True)
            ]
            verifier = verifier_at(facts.verifier, sampling).name
            recording = Recording(verifier, width, settings.seed, of_draft=facts.confidence_of)
            trees[sampling] = progress.piece(
                f"trees-{sampling}", partial(record_replays, pair, texts, sampling, recording)
            )
        with engine.running(None) as plain:
            check_models(plain, pair, prompts[:NUM_COMPARED], facts)
        passes = progress.timed("passes", partial(time_passes, engine, turns, PASS_REPEATS))
        sizes = lengths(facts, every=not passes["target"].size)
        with engine.running(None) as plain:
            timed = partial(time_steps, engine, plain, turns=turns, samplings=settings.samplings)
            steps = {
                length: progress.timed(f"steps-{length}", partial(timed, length))
                for length in sizes
            }
    if line := two_clocks(passes, steps):
        report_line(line)
    acceptance: list[Acceptance] = []
    replays: list[Replay] = []
    arrays: Piece = {}
    for sampling, piece in traced.items():
        entries, named = acceptance_entries(piece, sampling)
        verifier = verifier_at(facts.verifier, sampling).name
        entry, kept = replay_entry(trees[sampling], sampling, verifier, width)
        acceptance += [each for each in entries if each.verifier == facts.verifier]
        replays.append(entry)
        arrays |= named | kept
    return Profile(
        written_by=WRITTEN_BY,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=describe_machine(pair.target.device),
        execution=describe_execution(pair.target),
        target=pair.target.info,
        draft=pair.draft.info,
        engine=facts,
        costs=engine_costs(facts, turns.context, settings.samplings, passes, steps),
        surroundings=progress.surroundings,
        acceptance=acceptance,
        replays=replays,
    ).with_arrays(arrays, "profile.safetensors")


def check_models(
    running: Running, pair: Pair, prompts: Sequence[Sequence[int]], facts: EngineFacts
) -> None:
    """Raise PlannerError unless the engine's target writes what the pair's does.

    Along greedy texts of the engine the target is asked which token it takes to be the likeliest;
    narrow types of weights differ here and there, other models nearly everywhere.
    """
    same = total = 0
    for prompt in prompts:
        text = running.decode(
            prompt, Sampling(temperature=0.0), num_tokens=COMPARED_TOKENS, seed=0
        ).tokens
        known = [token for token in text if token < pair.vocab_size]
        likeliest = logits_behind(pair.target, Written(prompt, known)).argmax(-1)
        same += int((likeliest.cpu() == torch.tensor(known)).sum())
        total += len(text)
    if same < LEAST_SAME * total:
        raise PlannerError(
            f"engine-target: got {facts.target}, whose greedy text is that of "
            f"{pair.target.info.name} at {same} of {total} tokens, expected the same model; give "
            "--target and --engine-target of one model"
        )


def _work(settings: Settings, facts: EngineFacts) -> dict[str, int]:
    """Shares of the time that the pieces take, more or less."""
    work = {"passes": 10} | {f"steps-{each}": 5 for each in lengths(facts, every=True)}
    for sampling in settings.samplings:
        work |= {f"acceptance-{sampling}": 5, f"trees-{sampling}": 20}
    return work
