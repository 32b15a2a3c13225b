"""Times of an engine, as pieces of a profile: its own passes, and the steps that it really takes.

A chain of k tokens is decoded in turns with no chain at all, on the same prompts.  So the step's
time is known as a multiple of the target alone, which bears most of what the machine does
meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import numpy as np

from planner.documents.document import PlannerError
from planner.documents.sampling import Sampling
from planner.policies import ConfidentDrafting
from profiler.journal import Piece

from .program import Answer, PassTimes, Program, Running

LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Chains that are decoded; those between them are taken to need as much besides their passes."""
NEVER = 0.99
"""A confidence that a draft has hardly ever."""
TIMED_TOKENS = 64
"""Tokens of a text that is timed, at least."""
STEPS = 8
"""Steps of full length in every text, at least: those at its end are shorter."""
COUNTED_SECONDS = 60.0
"""How long further prompts are decoded for nothing but the counts of a chain's steps."""
READ, PLAIN_STEPS = 8, 8
"""Tokens of a prompt that are read before a single step, and steps without a draft beside it."""
SECONDS, LEAST = (10.0, 30.0), (1, 3)
"""How long prompts are decoded for a chain's times, and how many at least: of chains that end
early, which are timed in several starts, and of others.  A large target would take hours."""


def longest_text(most_tokens: int) -> int:
    """Tokens decoded behind a prompt to time chains of up to so many, at most."""
    return max(TIMED_TOKENS, STEPS * most_tokens)


@dataclass(frozen=True)
class Turns:
    """The prompts that an engine is timed with, and how.

    prompts     token ids, decoded in turns by all that is compared
    num_tokens  of every continuation
    requests    of each prompt that decode together: being equal, they take their steps together
    """

    prompts: Sequence[Sequence[int]]
    sampling: Sampling
    num_tokens: int
    seed: int
    requests: int = 1

    @property
    def context(self) -> int:
        """Tokens in the cache on average."""
        return int(np.mean([len(prompt) for prompt in self.prompts])) + self.num_tokens // 2

    def warm(self, running: Mapping[str, Running]) -> None:
        """Have each decode a text that is not counted: the first behind a start takes up to a
        tenth longer, since passes of its sizes come for the first time."""
        for each in running.values():
            ask = partial(each.decode, self.prompts[-1], self.sampling, self.requests)
            ask(num_tokens=self.num_tokens, seed=self.seed)

    def decoded(
        self, running: Mapping[str, Running], numbers: Sequence[int] | None = None
    ) -> dict[str, list[Answer]]:
        """Every prompt, or those of these `numbers`, by every one that runs, in an order of its own
        for each prompt."""
        names = list(running)
        found: dict[str, list[Answer]] = {name: [] for name in names}
        for number in range(len(self.prompts)) if numbers is None else numbers:
            for place in np.random.default_rng([self.seed, number]).permutation(len(names)):
                name, prompt = names[place], self.prompts[number]
                ask = partial(running[name].decode, prompt, self.sampling, self.requests)
                answer = ask(num_tokens=self.num_tokens, seed=self.seed + number)
                found[name].append(answer)
        return found


def lengths(engine: Program, *, every: bool = False) -> list[int]:
    """Lengths of the chains that are timed: every one that is allowed, or a few."""
    if engine.own_lengths:
        return list(engine.own_lengths)
    most = engine.facts.most_tokens
    some = range(1, most) if every else [each for each in LENGTHS if each < most]
    return [*some, most]


def time_passes(engine: Program, turns: Turns, repeats: int) -> Piece:
    """Milliseconds "target" and "draft", float64 [repeats, most_tokens + 1], by tokens of each
    request in a pass; nothing where the engine has no benchmark."""
    sizes = [turns.requests * n for n in range(1, engine.facts.most_tokens + 2)]
    passes = engine.passes(sizes, context=turns.context, repeats=repeats)
    if passes is None:
        return {"target": np.zeros((0, 0)), "draft": np.zeros((0, 0))}
    return {
        name: np.array([times[size] for size in sizes]).T
        for name, times in zip(PassTimes._fields, passes, strict=True)
    }


def time_steps(
    engine: Program, length: int, *, turns: Turns, samplings: Sequence[Sampling], begun: bool = True
) -> Piece:
    """Chains of `length` in turns with none, both started for it: milliseconds a step of either
    ("plain", "drafted"), tokens drafted by a step ("length"), which are fewer at a text's end, and
    "tokens" emitted in "steps": float64 [samplings, prompts] each, of as many prompts as there is
    time for.

    begun  False: chains that may have `length` tokens, and are hardly ever begun, since the draft
           is hardly ever so sure
    """
    drafting = ConfidentDrafting(max_depth=length, confidence=0.0 if begun else NEVER)
    most = length if begun else 0
    enough = replace(turns, num_tokens=max(turns.num_tokens, STEPS * most))
    names = ("plain", "drafted", "length", "tokens", "steps")
    columns: dict[str, list[list[float]]] = {name: [] for name in names}
    with (
        engine.running(None, turns.requests) as plain,
        engine.running(drafting, turns.requests) as running,
    ):
        both = {"plain": plain, "drafted": running}
        enough.warm(both)
        for number in _in_time(turns, SECONDS[begun], LEAST[begun]):
            found = [replace(enough, sampling=each).decoded(both, [number]) for each in samplings]
            for name in both:
                columns[name].append([each[name][0].ms / each[name][0].num_steps for each in found])
            ran = [each["drafted"][0] for each in found]
            columns["length"].append([each.num_drafted / each.num_steps or most for each in ran])
            columns["tokens"].append([each.num_timed for each in ran])
            columns["steps"].append([each.num_steps for each in ran])
    return {name: np.array(each).T for name, each in columns.items()}


def count_steps(
    engine: Program, length: int, *, turns: Turns, samplings: Sequence[Sampling]
) -> Piece:
    """Chains of `length` alone: the "tokens" and "steps" of `time_steps`, of as many prompts as
    there is time for."""
    drafting = ConfidentDrafting(max_depth=length, confidence=0.0)
    enough = replace(turns, num_tokens=max(turns.num_tokens, STEPS * length))
    rows: list[list[tuple[int, int]]] = []
    with engine.running(drafting) as running:
        for number in _in_time(turns, COUNTED_SECONDS, 1):
            found = [
                replace(enough, sampling=each).decoded({"": running}, [number])[""][0]
                for each in samplings
            ]
            rows.append([(each.num_timed, each.num_steps) for each in found])
    tokens, steps = np.array(rows, np.float64).transpose(2, 1, 0)
    return {"tokens": tokens, "steps": steps}


def time_ended(engine: Program, most: int, *, turns: Turns) -> Piece:
    """Single steps of chains that may have `most` tokens and have fewer, and of one that has them:
    milliseconds "drafted", float64 [chains, prompts], by length (`lengths`), and of steps without
    a draft in turns with them ("plain", float64 [prompts]).

    A chain ends early, as the text does: of k + 2 tokens, one comes with the prompt, and a step
    that drafts k, all of which are accepted, writes the others.  Only some last tokens of the
    prompts are read, since their reading is not timed.

    Raises PlannerError where it takes several steps.
    """
    some = [each for each in lengths(engine) if each <= most]
    drafting = ConfidentDrafting(max_depth=most, confidence=0.0)
    short = replace(
        turns,
        prompts=[prompt[-READ:] for prompt in turns.prompts],
        sampling=Sampling(temperature=0.0),
        num_tokens=PLAIN_STEPS + 1,
    )
    rows: list[list[float]] = []
    with (
        engine.running(None, turns.requests) as plain,
        engine.accepting(drafting, turns.requests) as running,
    ):
        short.warm({"plain": plain, "drafted": running})
        for number in _in_time(short, SECONDS[False], LEAST[False]):
            (alone,) = short.decoded({"": plain}, [number])[""]
            row = [alone.ms / alone.num_steps]
            for length in some:
                one = replace(short, num_tokens=length + 2)
                (found,) = one.decoded({"": running}, [number])[""]
                if found.num_steps != turns.requests:
                    raise PlannerError(
                        f"engine: got {found.num_steps} steps for {length} drafted tokens that are "
                        "all accepted, expected one; its synthetic acceptance is another"
                    )
                row.append(found.ms / found.num_steps)
            rows.append(row)
    columns = np.array(rows).T
    return {"plain": columns[0], "drafted": columns[1:]}


def _in_time(turns: Turns, seconds: float, least: int) -> Iterator[int]:
    """Numbers of the prompts, until so many seconds are over; the first `least` anyway."""
    end = perf_counter() + seconds
    for number in range(len(turns.prompts)):
        if number >= least and perf_counter() > end:
            return
        yield number


def joined(starts: Sequence[Mapping[int, Piece]], sizes: Sequence[int]) -> dict[int, Piece]:
    """Pieces of `time_steps` for the lengths `sizes`, all starts' prompts one behind another."""
    return {
        size: {
            name: np.concatenate([steps[size][name] for steps in starts], axis=1)
            for name in starts[0][size]
        }
        for size in sizes
    }
