"""The source of an engine's acceptance: the pair's own passes, or what the engine counts itself.

A draft model is the same model everywhere: `TracedPair` traces it along the target's texts.  Heads
and look-ups are the engine's own, and whether a target fits into this process is its affair:
`CountedByEngine` takes the steps that it counted while it was timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import torch

from planner.documents.counted_chains import CountedChains, CountedPrompt
from planner.documents.document import PlannerError
from planner.documents.engine import EngineFacts
from planner.documents.origin import Execution, Machine, ModelInfo
from planner.documents.profile import Acceptance, PromptAcceptance, Replay
from planner.documents.sampling import Sampling
from planner.verifiers import verifier_at
from profiler.acceptance import Tracing, acceptance_entries, measure_acceptance, texts_of
from profiler.journal import Piece, identity_of
from profiler.measure import Progress
from profiler.recording import Recording, Width, record_replays, replay_entry
from runtime.machine import describe_execution, describe_machine
from runtime.pair import Pair
from runtime.written import Written, logits_behind

from .program import Program, Running
from .timing import Turns, count_steps

NUM_COMPARED, COMPARED_TOKENS, LEAST_SAME = 4, 16, 0.5
"""Prompts and tokens by which the engine's target is compared with the pair's, and the share of
these that have to be the same."""


class Start(NamedTuple):
    """Chains of single requests by one start of the engine."""

    places: Sequence[int]
    """Numbers of the prompts that it was to decode, as far as there was time."""
    steps: Mapping[int, Piece]
    """Steps by length (`time_steps`, `count_steps`), a column for each prompt that was decoded."""

    def decoded(self, length: int) -> Sequence[int]:
        """Numbers of the prompts that chains of `length` were decoded behind."""
        return self.places[: self.steps[length]["steps"].shape[1]] if length in self.steps else ()


Starts = Sequence[Start]


class Found(NamedTuple):
    """The acceptance in a profile's terms."""

    acceptance: list[Acceptance]
    replays: list[Replay]
    arrays: Piece


AcceptanceOf = Callable[[Starts], Found]
"""The acceptance that goes with the steps that were counted."""


class AcceptanceAsked(NamedTuple):
    """The circumstances under which acceptance is asked for."""

    prompts: Sequence[Sequence[int]]
    samplings: Sequence[Sampling]
    num_tokens: int
    """The length of a continuation that is traced."""
    seed: int


class AcceptanceSource(Protocol):
    """Two models, and how often drafted tokens are accepted."""

    @property
    def target(self) -> ModelInfo: ...
    @property
    def draft(self) -> ModelInfo: ...
    @property
    def machine(self) -> Machine: ...
    @property
    def execution(self) -> Execution: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def max_positions(self) -> int: ...

    def identity(self, prompts: Sequence[Sequence[int]]) -> dict[str, Any]:
        """All that pieces depend on, as JSON data."""

    def work(self, samplings: Sequence[Sampling]) -> dict[str, int]:
        """Shares of the time that its pieces take, more or less."""

    def begun(self, engine: Program, asked: AcceptanceAsked, progress: Progress) -> AcceptanceOf:
        """All that is measured before the engine is timed; what comes back says the acceptance by
        the steps that were counted.  Raises PlannerError."""

    def further(
        self,
        engine: Program,
        turns: Turns,
        samplings: Sequence[Sampling],
        starts: Starts,
        progress: Progress,
    ) -> Starts:
        """Steps of more prompts than those of `starts`, the last of which has the chains that may
        be the fastest."""


@dataclass(frozen=True)
class TracedPair:
    """A target and a draft model that are loaded here, too."""

    pair: Pair

    @property
    def target(self) -> ModelInfo:
        return self.pair.target.info

    @property
    def draft(self) -> ModelInfo:
        return self.pair.draft.info

    @property
    def machine(self) -> Machine:
        return describe_machine(self.pair.target.device)

    @property
    def execution(self) -> Execution:
        return describe_execution(self.pair.target)

    @property
    def vocab_size(self) -> int:
        return self.pair.vocab_size

    @property
    def max_positions(self) -> int:
        return self.pair.max_positions

    def identity(self, prompts: Sequence[Sequence[int]]) -> dict[str, Any]:
        return identity_of(self.pair, prompts)

    def work(self, samplings: Sequence[Sampling]) -> dict[str, int]:
        names = {"acceptance": 5, "trees": 20}
        return {f"{name}-{each}": n for each in samplings for name, n in names.items()}

    def begun(self, engine: Program, asked: AcceptanceAsked, progress: Progress) -> AcceptanceOf:
        """Also looks whether the engine's target is the pair's."""
        facts = engine.facts
        width = Width(facts.most_tokens + 1, 1)
        found = Found([], [], {})
        for sampling in asked.samplings:
            tracing = Tracing(1, asked.seed, (facts.verifier,))
            trace = partial(measure_acceptance, num_tokens=asked.num_tokens)
            traced = progress.piece(
                f"acceptance-{sampling}",
                partial(trace, self.pair, asked.prompts, sampling, tracing),
            )
            each = zip(asked.prompts, texts_of(traced), strict=True)
            texts = [Written(*text) for text in each]
            verifier = verifier_at(facts.verifier, sampling).name
            recording = Recording(verifier, width, asked.seed, of_draft=facts.confidence_of)
            trees = progress.piece(
                f"trees-{sampling}", partial(record_replays, self.pair, texts, sampling, recording)
            )
            entries, arrays = acceptance_entries(traced, sampling)
            replay, more = replay_entry(trees, sampling, verifier, width)
            found.acceptance.extend(each for each in entries if each.verifier == facts.verifier)
            found.replays.append(replay)
            found.arrays.update(arrays | more)
        with engine.running(None) as plain:
            check_models(plain, self.pair, asked.prompts[:NUM_COMPARED], facts)
        return lambda starts: found

    def further(
        self,
        engine: Program,
        turns: Turns,
        samplings: Sequence[Sampling],
        starts: Starts,
        progress: Progress,
    ) -> Starts:
        """None: the texts are traced."""
        return []


@dataclass(frozen=True)
class CountedByEngine:
    """Models that only the engine loads: their names and sizes are known here, no weights."""

    target: ModelInfo
    draft: ModelInfo
    dtype: str = "unknown"

    @cached_property
    def machine(self) -> Machine:
        return describe_machine(torch.device("cuda" if torch.cuda.is_available() else "cpu"))

    @property
    def execution(self) -> Execution:
        return Execution(dtype=self.dtype, attention="the engine's")

    @property
    def vocab_size(self) -> int:
        return self.target.vocab_size

    @property
    def max_positions(self) -> int:
        return self.target.max_positions

    def identity(self, prompts: Sequence[Sequence[int]]) -> dict[str, Any]:
        return {
            "target": self.target.model_dump(),
            "draft": self.draft.model_dump(),
            "machine": self.machine.model_dump(),
            "prompts": [list(prompt) for prompt in prompts],
        }

    def work(self, samplings: Sequence[Sampling]) -> dict[str, int]:
        return {}

    def begun(self, engine: Program, asked: AcceptanceAsked, progress: Progress) -> AcceptanceOf:
        """Nothing is measured apart from the times."""
        return lambda starts: Found(
            [
                counted_entry(engine.facts, place, sampling, starts)
                for place, sampling in enumerate(asked.samplings)
            ],
            replays=[],
            arrays={},
        )

    def further(
        self,
        engine: Program,
        turns: Turns,
        samplings: Sequence[Sampling],
        starts: Starts,
        progress: Progress,
    ) -> Starts:
        """All prompts that were not timed, as far as there is time."""
        lengths = list(starts[-1].steps)
        places = [
            place
            for place in range(len(turns.prompts))
            if not all(any(place in start.decoded(n) for start in starts) for n in lengths)
        ]
        if not places:
            return []
        others = replace(turns, prompts=[turns.prompts[place] for place in places])
        count = partial(count_steps, engine, turns=others, samplings=samplings)
        progress.expect({f"counts-{length}": 3 for length in lengths})
        pieces = {n: progress.piece(f"counts-{n}", partial(count, n)) for n in lengths}
        return [Start(places, pieces)]


def counted_entry(facts: EngineFacts, place: int, sampling: Sampling, starts: Starts) -> Acceptance:
    """The steps that the engine counted at the sampling of this place."""
    texts: dict[int, list[CountedPrompt]] = {}
    for start in starts:
        for length, piece in start.steps.items():
            rows = zip(piece["tokens"][place], piece["steps"][place], strict=True)
            texts.setdefault(length, []).extend(
                CountedPrompt(prompt=prompt, tokens=int(tokens), steps=int(steps))
                for prompt, (tokens, steps) in zip(start.places, rows, strict=False)
            )
    chains = [
        CountedChains(length=length, prompts=of_length)
        for length, of_length in sorted(texts.items())
    ]
    return Acceptance(
        sampling=sampling,
        verifier=facts.verifier,
        num_ranks=1,
        prompts=_by_prompt(chains[0]),
        counted=chains,
    )


def _by_prompt(short: CountedChains) -> list[PromptAcceptance]:
    """Acceptance by the shortest chains, per drafted token, all texts of a prompt together."""
    found = []
    for prompt in dict.fromkeys(each.prompt for each in short.prompts):
        texts = [each for each in short.prompts if each.prompt == prompt]
        steps = sum(each.steps for each in texts)
        rate = (sum(each.tokens for each in texts) / steps - 1) / short.length
        found.append(PromptAcceptance(num_positions=steps, acceptance=[min(1.0, rate)]))
    return found


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
