"""A profile of an engine: its own times, and the acceptance of what it drafts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from planner.documents.document import PlannerError
from planner.documents.engine import EngineFacts
from planner.documents.profile import Profile
from planner.documents.sampling import Sampling
from planner.documents.times import Costs
from planner.documents.tree import Tree
from planner.documents.version import WRITTEN_BY
from planner.estimates.evidence import recorded
from planner.estimates.step_costs import step_costs
from planner.export import check_min_p
from planner.verifiers import verifier_at
from profiler.journal import Journal, Piece, measured_by
from profiler.measure import Progress
from profiler.profile_settings import Settings, fitted
from profiler.target_texts import check_prompts
from runtime.pair import Pair

from .acceptance_sources import (
    AcceptanceAsked,
    AcceptanceSource,
    CountedByEngine,
    Found,
    Start,
    Starts,
    TracedPair,
)
from .engine_costs import Early, engine_costs, evened, start_errors, two_clocks
from .program import Program, check_batches
from .timing import (
    TIMED_TOKENS,
    Turns,
    joined,
    lengths,
    longest_text,
    time_ended,
    time_passes,
    time_steps,
)

NUM_TIMED = 12
"""Prompts that one start of the engine decodes for its times, at most."""
PASS_REPEATS = 30
MOST_NODES = 127
"""Nodes of a recorded tree that are expanded, at most (`Replay`)."""
NUM_ENDED = 3
"""Starts of chains that end early: one start is in a quick or a slow state by chance."""
NEAR = 0.1
"""The share by which a chain may seem slower than the fastest, and is timed closer all the same."""


def measure_engine_profile(
    pair: Pair | CountedByEngine,
    prompts: Sequence[Sequence[int]],
    settings: Settings,
    *,
    engine: Program,
    output: str | Path | None = None,
    report_line: Callable[[str], None] = lambda line: None,
) -> Profile:
    """Measure an engine on this machine, and the acceptance of `pair` under its way of drafting.

    pair  the models; where only the engine loads them, acceptance is what it counts

    See `measure_profile`; one request is always timed.  Raises PlannerError also where the engine
    fails.
    """
    if not prompts or not settings.samplings:
        raise PlannerError("prompts, temperatures: expected at least one of each")
    check_batches(engine, settings.batch_sizes)
    extent, facts = fitted(settings, pair, max(map(len, prompts))), engine.facts
    if facts.most_tokens > MOST_NODES - 1:
        raise PlannerError(
            f"max_nodes: got {facts.most_tokens + 1}, expected at most {MOST_NODES} with an "
            "engine, whose chains are recorded to their ends"
        )
    check_prompts(prompts, pair, extent.num_tokens)
    longest, behind = max(map(len, prompts)), longest_text(facts.most_tokens)
    if longest + behind > pair.max_positions:
        raise PlannerError(
            f"prompts: got one of {longest} tokens, expected at most "
            f"{pair.max_positions - behind}: chains of up to {facts.most_tokens} tokens are timed "
            f"over {behind} tokens behind it, and the models serve {pair.max_positions} positions; "
            "give shorter prompts, or a lower --max-nodes"
        )
    for sampling in settings.samplings:
        check_min_p(facts.name, sampling)
    if any(each.draft_temperature for each in settings.samplings):
        raise PlannerError(
            f"draft-temperature: got one, expected none: {facts.name} drafts in its own way"
        )
    if any(each.penalizes for each in settings.samplings):
        raise PlannerError(
            f"repetition-penalty: got one, expected none: under it {facts.name} may draft and "
            "accept otherwise than is measured here"
        )
    if facts.greedy_only and not all(each.is_greedy for each in settings.samplings):
        raise PlannerError(
            f"temperature: got {max(each.temperature for each in settings.samplings):g}, expected "
            f"0 alone: where {facts.name} samples with a draft, its text does not follow the "
            "target's distribution; give --temperature 0"
        )
    source = pair if isinstance(pair, CountedByEngine) else TracedPair(pair)
    identity = source.identity(prompts) | {
        "engine": facts.model_dump(),
        "files": _states(facts),
        "samplings": [each.model_dump() for each in settings.samplings],
        "extent": asdict(extent),
        "seed": settings.seed,
    }
    journal = Journal(output, identity, measured_by(), report_line)
    turns = Turns(prompts, settings.samplings[-1], TIMED_TOKENS, settings.seed)
    work = _work(settings, engine) | source.work(settings.samplings)
    with Progress(work, journal) as progress:
        samplings = settings.samplings
        asked = AcceptanceAsked(prompts, samplings, extent.num_tokens, settings.seed)
        acceptance_of = source.begun(engine, asked, progress)
        alone: Starts = []

        def profile_of(costs: list[Costs], starts: Starts) -> Profile:
            return _profile(source, facts, acceptance_of(alone or starts), costs)

        costs: list[Costs] = []
        for requests in sorted({1, *settings.batch_sizes}):
            many = replace(turns, requests=requests)
            found, starts, line = _chain_costs(engine, many, samplings, progress, profile_of)
            alone = alone or [*starts, *source.further(engine, turns, samplings, starts, progress)]
            costs += found
            if line:
                report_line(line)
    return profile_of(costs, alone).model_copy(update={"surroundings": progress.surroundings})


def _states(facts: EngineFacts) -> list[tuple[str, int, int]]:
    """Sizes and times of change of what the engine loads: a file may be written anew."""
    places = [Path(place) for place in (facts.target, facts.draft) if place]
    files = sorted(file for place in places for file in (place, *place.rglob("*")))
    stats = ((file, file.stat()) for file in files if file.is_file())
    return [(str(file), stat.st_size, stat.st_mtime_ns) for file, stat in stats]


def _chain_costs(
    engine: Program,
    turns: Turns,
    samplings: Sequence[Sampling],
    progress: Progress,
    profile_of: Callable[[list[Costs], Starts], Profile],
) -> tuple[list[Costs], Starts, str]:
    """The costs of `turns.requests` requests that decode together, one entry for each sampling, the
    steps that they are made of, and a line on how two clocks agree.

    They are timed for as long again, every few prompts by engines that were started anew: as long
    as it runs, one is some percent faster or slower than another.  Where only whole steps tell what
    a pass takes, this time is spent on the chains that may be the fastest.
    """
    requests = turns.requests
    suffix, sizes = _suffix(requests), _sizes(engine, requests)
    # servers that run already are other programs, or on another machine: nobody watches there
    piece = progress.piece if engine.own_lengths else progress.timed
    passes = piece(f"passes{suffix}", partial(time_passes, engine, turns, PASS_REPEATS))

    def timed(
        name: str, sizes: Sequence[int], start: int, time: Callable[..., Piece]
    ) -> dict[int, Piece]:
        prompts = [turns.prompts[place] for place in _places(turns, start)]
        each = partial(time, engine, turns=replace(turns, prompts=prompts))
        return {n: piece(f"{name}-{n}{suffix}", partial(each, n)) for n in sizes}

    full = partial(time_steps, samplings=samplings)
    early = Early(
        *(
            [timed(f"{name}-{start}", sizes, start, time) for start in range(_ended_starts(engine))]
            for name, time in (("unbegun", partial(full, begun=False)), ("ended", time_ended))
        )
    )
    costs = partial(engine_costs, engine.facts, turns.context, samplings, passes, early=early)
    steps = timed("steps", sizes, 0, full)
    near = sizes
    if not engine.has_benchmark:
        near = promising(profile_of(costs(steps), [Start(_places(turns, 0), steps)]), sizes)
    again = {f"again-{start}": start for start in range(1, 1 + len(sizes) // len(near))}
    progress.expect({f"{name}-{n}{suffix}": 5 for name in again for n in near})
    starts = [steps, *(timed(name, near, start, full) for name, start in again.items())]
    errors = start_errors(starts, near)
    even = starts if engine.has_benchmark else evened(starts, near)
    steps = steps | joined(even, near)
    found = [
        each.model_copy(update={"batch_size": requests, "start_error": error})
        for each, error in zip(costs(steps), errors, strict=True)
    ]
    counted = [Start(_places(turns, start), each) for start, each in enumerate(starts)]
    return found, counted, two_clocks(passes, steps)


def _places(turns: Turns, start: int) -> list[int]:
    """Numbers of the prompts that a start of the engine is timed with."""
    places = range(NUM_TIMED * start, NUM_TIMED * (start + 1))
    return [place % len(turns.prompts) for place in places]


def _profile(
    source: AcceptanceSource, facts: EngineFacts, found: Found, costs: list[Costs]
) -> Profile:
    """The profile, as far as it is measured."""
    profile = Profile(
        written_by=WRITTEN_BY,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=source.machine,
        execution=source.execution,
        target=source.target,
        draft=source.draft,
        engine=facts,
        costs=costs,
        acceptance=found.acceptance,
        replays=found.replays,
    )
    return profile.with_arrays(found.arrays, "profile.safetensors") if found.arrays else profile


def promising(profile: Profile, sizes: Sequence[int]) -> list[int]:
    """Lengths, of `sizes`, of the chains that may be the fastest at some sampling, as far as the
    profile tells."""
    found: set[int] = set()
    for entry in profile.acceptance:
        evidence = recorded(profile, entry)
        verifier = verifier_at(entry.verifier, entry.sampling).name
        costs = step_costs(profile, verifier=verifier, sampling=entry.sampling)
        speeds = {}
        for length in sizes:
            chain = Tree([-1, *range(length)])
            tokens = evidence.predict(chain).tokens_per_step.value
            speeds[length] = tokens / costs.step(chain).ms
        best = max(speeds.values())
        found |= {length for length, speed in speeds.items() if speed > (1 - NEAR) * best}
    return sorted(found)


def _suffix(requests: int) -> str:
    """The end of the names of pieces that so many requests at once were timed for."""
    return "" if requests == 1 else f"-of-{requests}"


def _sizes(engine: Program, requests: int) -> list[int]:
    """Lengths of the chains that are timed: every one where nothing else tells what passes take."""
    return lengths(engine, every=requests == 1 and not engine.has_benchmark)


def _ended_starts(engine: Program) -> int:
    """Starts in which chains are timed that end early: none where no chain ends by itself."""
    return NUM_ENDED if engine.has_benchmark and "confident" in engine.facts.solvers else 0


def _work(settings: Settings, engine: Program) -> dict[str, int]:
    """Shares of the time that the pieces take, more or less."""
    work: dict[str, int] = {}
    for requests in {1, *settings.batch_sizes}:
        suffix, sizes = _suffix(requests), _sizes(engine, requests)
        work |= {f"passes{suffix}": 10 * requests}
        work |= {f"steps-{n}{suffix}": 5 * requests for n in sizes}
        for start in range(_ended_starts(engine)):
            for name in ("unbegun", "ended"):
                work |= {f"{name}-{start}-{n}{suffix}": 2 * requests for n in sizes}
    return work
