"""The whole measurement, piece by piece, resumable, into one profile.

Half of the times are taken at first and half at last, with everything else between them: see
`CostRounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from tqdm import tqdm

from planner.documents.document import PlannerError
from planner.documents.head_card import HeadFile
from planner.documents.optimal_acceptance import OptimalAcceptance
from planner.documents.profile import Acceptance, Profile, Replay
from planner.documents.sampling import Sampling
from planner.documents.surroundings import DISTURBED, Surroundings
from planner.documents.times import Costs
from planner.documents.version import WRITTEN_BY
from runtime.heads import AcceptanceHead
from runtime.machine import describe_execution, describe_machine
from runtime.pair import Pair
from runtime.written import Written

from .acceptance import Tracing, acceptance_entries, measure_acceptance, texts_of
from .disturbance import BESIDE, Beside, watched
from .journal import Journal, Piece, identity_of, measured_by
from .optimum import optimal_entries
from .profile_settings import Extent, Settings, fitted
from .recording import Recording, record_replays, replay_entry, replayed_verifiers
from .target_texts import check_prompts
from .times.batches import grid_at
from .times.cost_grid import CostGrid, chain_sizes, powers_of_two
from .times.sweeps import IN_A_ROW, NUM_SMALL, SMALL_SIZES, CostRounds, CostSweeps, plain_steps

SWEEP_MS, GREEDY_MS, SAMPLED_MS, TREE_MS = 31, 1, 2, 4
"""Milliseconds that a sweep takes for each node of the largest tree, tracing for each position of
the texts, and recording for each tree, with the embedded models on two cores: only the bar goes by
them."""
SLOW_MS, SLOW_SHARE = 200.0, 4
"""A step of the target alone that takes longer is slow; and of so many sweeps one is made then, if
nobody asks for a number.  All of them over all sizes would be hours, and little disturbs so long a
step: its time is mostly that of reading the target's weights."""
MOST_AGAIN = 0.25
"""The part of the time that timed pieces have taken so far which disturbed ones may take again."""
BAR = "{desc}{percentage:3.0f}%|{bar}| {elapsed} so far, {remaining} left"


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
    check_prompts(prompts, pair, extent.num_tokens)
    _check_heads(heads, settings.samplings, pair)
    identity = identity_of(pair, prompts) | {
        "grid": asdict(CostGrid.up_to(extent.max_nodes, pair.vocab_size)),
        "repeated": [SMALL_SIZES, NUM_SMALL, IN_A_ROW],
        "growing": [powers_of_two(extent.max_nodes), chain_sizes(extent.max_nodes)],
        "heads": {str(sampling): each.file.sha256 for sampling, each in heads.items()},
        "samplings": [sampling.model_dump() for sampling in settings.samplings],
        "extent": asdict(extent),
        "width": asdict(settings.width),
        "seed": settings.seed,
    }
    journal = Journal(output, identity, measured_by(), report_line)
    alone = _Measurement(pair, prompts, settings, extent, heads, journal).plain_steps()
    slow = float(np.median(alone)) > SLOW_MS
    if slow and settings.repeats is None:
        extent = replace(extent, repeats=max(2, extent.repeats // SLOW_SHARE))
    if slow:
        report_line(
            f"a step of the target takes {np.median(alone):.0f} ms: fewer sizes are timed, "
            f"{extent.repeats} times each"
        )
    return _Measurement(pair, prompts, settings, extent, heads, journal, slow=slow).profile()


@dataclass(frozen=True)
class _Timed:
    """A place where times are taken; `beside_drawn`: greedily, while others are of drawn tokens."""

    batch_size: int
    context: int
    sampling: Sampling
    beside_drawn: bool

    @property
    def name(self) -> str:
        place = f"{self.context}" if self.batch_size == 1 else f"{self.batch_size}x{self.context}"
        return f"{place}-greedy" if self.beside_drawn else place


@dataclass(frozen=True)
class _Measurement:
    """Everything asked for, `extent` of it fitted to the models, and the pieces that are done."""

    pair: Pair
    prompts: Sequence[Sequence[int]]
    settings: Settings
    extent: Extent
    heads: Mapping[Sampling, ScoringHead]
    journal: Journal
    slow: bool = False
    """Do the target's steps take longer than `SLOW_MS`?"""

    def plain_steps(self) -> np.ndarray:
        """Milliseconds of some of the target's steps alone, float64, measured now or before."""
        timed = self._timed()[0]
        measure = partial(
            plain_steps, self.pair.target, self._text(timed.context), timed.sampling,
            seed=self.settings.seed,
        )  # fmt: skip
        return self.journal.piece("target-alone", measure)["step_ms"]

    def profile(self) -> Profile:
        """Everything, in an order that lets no slow spell of the machine meet all times."""
        samplings, repeats = self.settings.samplings, self.extent.repeats
        acceptance: dict[Sampling, Piece] = {}
        trees: dict[tuple[Sampling, str], Piece] = {}
        with Progress(self._work(), self.journal) as progress:
            rounds = CostRounds(self._sweeps(), progress.timed)
            rounds.take(range(repeats // 2))
            for sampling in samplings:
                measure = partial(self._acceptance, sampling)
                acceptance[sampling] = progress.piece(f"acceptance-{sampling}", measure)
            for sampling, verifier in self._recorded():
                record = partial(self._trees, sampling, verifier, acceptance[sampling])
                name = f"trees-{sampling}-{verifier}"
                trees[sampling, verifier] = progress.piece(name, record)
            rounds.take(range(repeats // 2, repeats))
        entries: list[Acceptance] = []
        optimal: list[OptimalAcceptance] = []
        replays: list[Replay] = []
        arrays: Piece = {}
        for sampling, piece in acceptance.items():
            found, named = acceptance_entries(piece, sampling)
            entries += found
            arrays |= named
            optimal += optimal_entries(piece, sampling)
        for (sampling, verifier), piece in trees.items():
            file = self.heads[sampling].file if sampling in self.heads else None
            replay, named = replay_entry(piece, sampling, verifier, self.settings.width, file)
            replays.append(replay)
            arrays |= named
        profile = Profile(
            written_by=WRITTEN_BY,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            machine=describe_machine(self.pair.target.device),
            execution=describe_execution(self.pair.target),
            target=self.pair.target.info,
            draft=self.pair.draft.info,
            costs=self._costs(rounds),
            surroundings=progress.surroundings,
            acceptance=entries,
            optimal=optimal,
            replays=replays,
        )
        return profile.with_arrays(arrays, "profile.safetensors")

    def _work(self) -> dict[str, int]:
        """Milliseconds that each piece takes with the embedded models: its share elsewhere."""
        extent, num_prompts = self.extent, len(self.prompts)
        work = {}
        for timed, number in product(self._timed(), range(extent.repeats)):
            work[f"times-{timed.name}-{number}"] = SWEEP_MS * extent.max_nodes
        for sampling in self.settings.samplings:
            traced = GREEDY_MS if sampling.is_greedy else SAMPLED_MS
            work[f"acceptance-{sampling}"] = traced * num_prompts * extent.num_tokens
        for sampling, verifier in self._recorded():
            num_trees = min(extent.num_replayed, num_prompts) * extent.num_tokens
            work[f"trees-{sampling}-{verifier}"] = TREE_MS * num_trees
        return work

    def _sweeps(self) -> dict[str, CostSweeps]:
        """The sweeps over all that is timed, by name."""
        vocab_size, slow = self.pair.vocab_size, self.slow
        return {
            timed.name: CostSweeps(
                self.pair,
                self._text(timed.context),
                grid_at(timed.batch_size, self.extent.max_nodes, vocab_size, slow=slow),
                timed.sampling,
                seed=self.settings.seed,
                heads={
                    each.file.sha256: each.head.scores
                    for sampling, each in self.heads.items()
                    if sampling.is_greedy == timed.sampling.is_greedy
                },
            )
            for timed in self._timed()
        }

    def _text(self, context: int) -> list[int]:
        """The tokens of the prompts, as many as that."""
        joined = np.array([token for prompt in self.prompts for token in prompt])
        text: list[int] = np.resize(joined, context).tolist()
        return text

    def _timed(self) -> list[_Timed]:
        """All that times are taken at.  Steps that draw no token have less to do, those that do
        about as much at any temperature: so the last sampling of either kind stands for it."""
        kinds = {each.is_greedy: each for each in self.settings.samplings}
        sizes = sorted({1, *self.settings.batch_sizes})
        return [
            _Timed(size, context, kinds[greedy], greedy and len(kinds) > 1)
            for greedy, size, context in product(sorted(kinds), sizes, self.extent.contexts)
        ]

    def _costs(self, rounds: CostRounds) -> list[Costs]:
        found = rounds.costs()
        own = {each.name: each.sampling for each in self._timed() if each.beside_drawn}
        return [
            costs.model_copy(update={"sampling": own.get(name)}) for name, costs in found.items()
        ]

    def _acceptance(self, sampling: Sampling) -> Piece:
        tracing = Tracing(self.extent.num_ranks, self.settings.seed)
        return measure_acceptance(
            self.pair, self.prompts, sampling, tracing, num_tokens=self.extent.num_tokens
        )

    def _trees(self, sampling: Sampling, verifier: str, acceptance: Piece) -> Piece:
        """The trees recorded along the first texts that `acceptance` holds."""
        texts = [Written(*each) for each in zip(self.prompts, texts_of(acceptance), strict=True)]
        head = self.heads[sampling].head if sampling in self.heads else None
        recording = Recording(verifier, self.settings.width, self.settings.seed, head)
        return record_replays(self.pair, texts[: self.extent.num_replayed], sampling, recording)

    def _recorded(self) -> list[tuple[Sampling, str]]:
        """The samplings and verifiers that trees are recorded under."""
        samplings = self.settings.samplings if self.extent.num_replayed else ()
        recorded = partial(replayed_verifiers, whole_paths=self.extent.whole_paths)
        return [(each, verifier) for each in samplings for verifier in recorded(each)]


class Progress(tqdm):
    """A bar that every piece moves by its work, those that the journal holds at first."""

    def __init__(self, work: Mapping[str, int], journal: Journal) -> None:
        self._journal = journal
        self._left: dict[str, int] = {}
        self.surroundings: list[Surroundings] = []
        self._seconds = self._again = 0.0
        super().__init__(total=0, bar_format=BAR, desc="profile")
        self.expect(work)

    def expect(self, work: Mapping[str, int]) -> None:
        """Pieces that are still to come, and the work of each."""
        left = {name: each for name, each in work.items() if not self._journal.holds(name)}
        self._left |= left
        self.total += sum(work.values())
        done = sum(work.values()) - sum(left.values())
        self.initial += done
        self.update(done)

    def piece(self, name: str, measure: Callable[[], Piece]) -> Piece:
        """The piece `name`, taken now or before."""
        self.set_description(name)
        piece = self._journal.piece(name, measure)
        self.update(self._left.pop(name, 0))
        return piece

    def timed(self, name: str, measure: Callable[[], Piece]) -> Piece:
        """The piece `name`, which holds times: what ran beside it is noted in `surroundings`."""
        piece = self.piece(name, partial(self._quiet, measure))
        beside = Beside(*map(float, piece.pop(BESIDE)))
        self.surroundings.append(
            Surroundings(
                piece=name,
                seconds=round(beside.seconds, 3),
                others=round(beside.others, 3),
                clock_mhz=round(beside.clock_mhz),
                again=bool(beside.again),
            )
        )
        return piece

    def _quiet(self, measure: Callable[[], Piece]) -> Piece:
        """The piece; where it was disturbed, the better of two, as long as `MOST_AGAIN` allows."""
        piece = watched(measure)
        seconds, others, *_ = piece[BESIDE]
        self._seconds += seconds
        if others <= DISTURBED or self._again + seconds > MOST_AGAIN * self._seconds:
            return piece
        self._again += seconds
        better = min(piece, watched(measure), key=lambda each: float(each[BESIDE][1]))
        better[BESIDE][-1] = 1
        return better


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
