"""The whole measurement, piece by piece, resumable, into one profile.

Half of the times are taken at first and half at last, with everything else between them: see
`CostRounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from planner.documents.document import PlannerError
from planner.documents.head_card import HeadFile
from planner.documents.profile import Acceptance, Profile, Replay
from planner.documents.sampling import Sampling
from planner.documents.version import WRITTEN_BY
from runtime.heads import AcceptanceHead
from runtime.machine import describe_execution, describe_machine
from runtime.pair import Pair
from runtime.written import Written

from .acceptance import Tracing, acceptance_entries, measure_acceptance, texts_of
from .code import measured_by
from .journal import Journal, Piece
from .optimum import optimal_entries
from .profile_settings import Extent, Settings, fitted
from .progress_bar import Progress
from .replay.record import Recording, record_replays, replay_entry, replayed_verifiers
from .times.cost_grid import CostGrid
from .times.growing import chain_sizes, powers_of_two
from .times.sweeps import NUM_SMALL, SMALL_SIZES, CostRounds, CostSweeps

SWEEP_MS, GREEDY_MS, SAMPLED_MS, TREE_MS = 31, 1, 2, 4
"""What a sweep takes for each node of the largest tree, tracing for each position of the texts, and
recording for each tree: only the bar goes by it."""


@dataclass(frozen=True)
class ScoringHead:
    """An acceptance head, ready to score, and the file that it was read from."""

    head: AcceptanceHead
    file: HeadFile


def measure_profile(
    pair: Pair,
    prompts: Sequence[Sequence[int]],
    settings: Settings,
    *,
    heads: Mapping[Sampling, ScoringHead] | None = None,
    output: str | Path | None = None,
    report_line: Callable[[str], None] = lambda line: None,
) -> Profile:
    """Measure a pair of models on this machine.

    prompts  token ids; the target continues each to measure acceptance, and their tokens fill the
             caches when times are measured
    heads    by the sampling that they were trained for, one of the settings': they score the trees
             that are recorded under it, and their draft passes are timed
    output   where the profile is going to be written: finished pieces are kept beside it, and an
             interrupted measurement with the same settings continues there; once the profile is
             safely written, call `discard_pieces(output)`

    Progress goes to stderr.  Raises PlannerError for prompts that are empty, too long or outside
    the vocabulary, and for settings that were named and are beyond the models.

        profile = measure_profile(
            Pair(target, draft), prompts, Settings(samplings=(Sampling(temperature=0.6),))
        )
        profile.save("profile.json")
    """
    heads = dict(heads or {})
    if not prompts or not settings.samplings or settings.contexts == ():
        raise PlannerError("prompts, temperatures, contexts: expected at least one of each")
    extent = fitted(settings, pair, max(map(len, prompts)))
    _check_prompts(prompts, pair, extent.num_tokens)
    _check_heads(heads, settings.samplings, pair)
    identity = _identity(pair, prompts, settings, extent, heads)
    journal = Journal(output, identity, measured_by())
    if journal.resumption:
        report_line(journal.resumption)
    return Measurement(pair, prompts, settings, extent, heads, journal).profile()


@dataclass(frozen=True)
class Measurement:
    """One measurement: of which models, on which prompts, how much, and what of it is done.

    prompts  token ids, checked
    extent   the settings' numbers, fitted to the models
    heads    by the sampling that they were trained for
    """

    pair: Pair
    prompts: Sequence[Sequence[int]]
    settings: Settings
    extent: Extent
    heads: Mapping[Sampling, ScoringHead]
    journal: Journal

    def profile(self) -> Profile:
        """Everything, in an order that lets no slow spell of the machine meet all times."""
        samplings = self.settings.samplings
        with Progress(self.work(), self.journal) as progress:
            rounds, half = CostRounds(self.sweeps(), self.journal), self.extent.repeats // 2
            sweeps = iter(self._sweep_names())
            progress.doing("times")
            rounds.take(range(half), lambda: progress.done(next(sweeps)))
            acceptance = {each: self.acceptance(each, progress) for each in samplings}
            trees = {each: self.trees(each, acceptance[each], progress) for each in samplings}
            progress.doing("times")
            rounds.take(range(half, self.extent.repeats), lambda: progress.done(next(sweeps)))
        entries, arrays = self._acceptance_entries(acceptance)
        replays, recorded = self._replay_entries(trees)
        profile = Profile(
            written_by=WRITTEN_BY,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            machine=describe_machine(self.pair.target.device),
            execution=describe_execution(self.pair.target),
            target=self.pair.target.info,
            draft=self.pair.draft.info,
            costs=list(rounds.costs().values()),
            acceptance=entries,
            optimal=[
                entry
                for sampling, piece in acceptance.items()
                for entry in optimal_entries(piece, sampling)
            ],
            replays=replays,
        )
        return profile.with_arrays(arrays | recorded, "profile.safetensors")

    def work(self) -> dict[str, int]:
        """The milliseconds that each piece takes, by name, with the embedded models on two cores.

        Elsewhere the pieces' times are in proportion to these, more or less.
        """
        extent = self.extent
        work = dict.fromkeys(self._sweep_names(), SWEEP_MS * extent.max_nodes)
        for sampling in self.settings.samplings:
            traced = GREEDY_MS if sampling.is_greedy else SAMPLED_MS
            num_prompts = len(self.prompts)
            work[self._name("acceptance", sampling)] = traced * num_prompts * extent.num_tokens
            num_prompts = min(extent.num_replayed, num_prompts)
            for verifier in self._recorded_verifiers(sampling):
                trees = TREE_MS * num_prompts * extent.num_tokens
                work[self._name("replays", sampling, verifier)] = trees
        return work

    def sweeps(self) -> dict[str, CostSweeps]:
        """The sweeps over all that is timed, by context."""
        grid = CostGrid.up_to(self.extent.max_nodes, self.pair.vocab_size)
        joined = np.array([token for prompt in self.prompts for token in prompt])
        return {
            str(context): CostSweeps(
                self.pair,
                np.resize(joined, context).tolist(),
                grid,
                self.settings.samplings[-1],
                seed=self.settings.seed,
                heads={each.file.sha256: each.head.scores for each in self.heads.values()},
            )
            for context in self.extent.contexts
        }

    def acceptance(self, sampling: Sampling, progress: Progress) -> Piece:
        """The piece that `measure_acceptance` takes."""
        tracing = Tracing(self.extent.num_ranks, self.settings.seed)
        name = self._name("acceptance", sampling)
        progress.doing(f"acceptance {sampling}")
        piece = self.journal.piece(
            name,
            lambda: measure_acceptance(
                self.pair, self.prompts, sampling, tracing, num_tokens=self.extent.num_tokens
            ),
        )
        progress.done(name)
        return piece

    def trees(self, sampling: Sampling, acceptance: Piece, progress: Progress) -> dict[str, Piece]:
        """The trees recorded along the first texts that `acceptance` holds, by verifier."""
        texts = [Written(*each) for each in zip(self.prompts, texts_of(acceptance), strict=True)][
            : self.extent.num_replayed
        ]
        head = self.heads[sampling].head if sampling in self.heads else None
        found = {}
        for verifier in self._recorded_verifiers(sampling):
            recording = Recording(verifier, self.settings.width, self.settings.seed, head)
            name = self._name("replays", sampling, verifier)
            progress.doing(f"trees {sampling} {verifier}")
            found[verifier] = self.journal.piece(
                name,
                lambda recording=recording: record_replays(  # type: ignore[misc]
                    self.pair, texts, sampling, recording
                ),
            )
            progress.done(name)
        return found

    def _sweep_names(self) -> list[str]:
        """Names of the sweeps' pieces, in the order in which they are taken."""
        rounds = range(self.extent.repeats)
        return [f"times-{each}-{number}" for number in rounds for each in self.extent.contexts]

    def _name(self, kind: str, sampling: Sampling, *verifier: str) -> str:
        """The name of a piece under one sampling."""
        place = self.settings.samplings.index(sampling)
        return "-".join((kind, str(place), *verifier))

    def _recorded_verifiers(self, sampling: Sampling) -> tuple[str, ...]:
        return replayed_verifiers(sampling) if self.extent.num_replayed else ()

    def _acceptance_entries(
        self, pieces: Mapping[Sampling, Piece]
    ) -> tuple[list[Acceptance], Piece]:
        entries: list[Acceptance] = []
        arrays: Piece = {}
        for sampling, piece in pieces.items():
            found, named = acceptance_entries(piece, sampling)
            entries += found
            arrays |= named
        return entries, arrays

    def _replay_entries(
        self, pieces: Mapping[Sampling, Mapping[str, Piece]]
    ) -> tuple[list[Replay], Piece]:
        entries: list[Replay] = []
        arrays: Piece = {}
        for sampling, recorded in pieces.items():
            file = self.heads[sampling].file if sampling in self.heads else None
            for verifier, piece in recorded.items():
                width = self.settings.width
                entry, named = replay_entry(piece, sampling, verifier, width, file)
                entries.append(entry)
                arrays |= named
        return entries, arrays


def _identity(
    pair: Pair,
    prompts: Sequence[Sequence[int]],
    settings: Settings,
    extent: Extent,
    heads: Mapping[Sampling, ScoringHead],
) -> dict[str, object]:
    """Everything that a piece depends on, but the code."""
    return {
        "grid": asdict(CostGrid.up_to(extent.max_nodes, pair.vocab_size)),
        "repeated": [SMALL_SIZES, NUM_SMALL],
        "growing": [powers_of_two(extent.max_nodes), chain_sizes(extent.max_nodes)],
        "target": pair.target.info.model_dump(),
        "draft": pair.draft.info.model_dump(),
        "machine": describe_machine(pair.target.device).model_dump(),
        "execution": describe_execution(pair.target).model_dump(),
        "prompts": [list(prompt) for prompt in prompts],
        "heads": {str(sampling): each.file.sha256 for sampling, each in heads.items()},
        "samplings": [sampling.model_dump() for sampling in settings.samplings],
        "extent": asdict(extent),
        "width": asdict(settings.width),
        "seed": settings.seed,
    }


def _check_prompts(prompts: Sequence[Sequence[int]], pair: Pair, num_tokens: int) -> None:
    for index, prompt in enumerate(prompts):
        if not prompt or min(prompt) < 0 or max(prompt) >= pair.vocab_size:
            raise PlannerError(
                f"prompts.{index}: got no tokens or some outside the vocabulary, expected ids from "
                f"0 to {pair.vocab_size - 1}"
            )
        if len(prompt) + num_tokens > pair.max_positions:
            raise PlannerError(
                f"prompts.{index}: got {len(prompt)} tokens to be continued by {num_tokens}, "
                f"expected at most {pair.max_positions} positions in all; shorten the prompt or "
                "the continuation"
            )


def _check_heads(
    heads: Mapping[Sampling, ScoringHead], samplings: Sequence[Sampling], pair: Pair
) -> None:
    if heads:
        pair.check_hidden()
    for sampling in heads:
        if sampling not in samplings:
            there = ", ".join(map(str, samplings))
            raise PlannerError(
                f"head: got one trained for {sampling}, expected one for {there}, as is measured; "
                "measure at its own settings too, or train one for these with planner train-head"
            )
