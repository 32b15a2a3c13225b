"""Costs of an engine's steps: its own passes, and the steps that it really takes.

A chain of k tokens is decoded in turns with no chain at all, on the same prompts.  So the step's
time is known as a multiple of the target alone, whatever the machine does meanwhile.  Where the
engine has a benchmark of its own, that says how the time is made up: `verify` is the target's pass
over k + 1 tokens, `draft` one of the draft over one token, `overhead` all the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.documents.engine import EngineFacts
from planner.documents.sampling import Sampling
from planner.documents.times import Costs, Curve, GrowingTimes
from planner.policies import ConfidentDrafting
from planner.verifiers import GREEDY_VERIFIER
from profiler.journal import Piece

from .program import Answer, PassTimes, Program, Running

LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Chains that are decoded; those between them are taken to need as much besides their passes."""
LEAST_MS = 1e-4
NEVER = 0.99
"""A confidence that a draft has hardly ever."""
LEAST_SHARE, MOST_SHARE = 0.7, 1.1
"""Share of a step without a draft that its pass takes; the rest is sampling and the answer."""
STEPS = 8
"""Steps of full length in every text, at least: those at its end are shorter."""


@dataclass(frozen=True)
class Turns:
    """The prompts that an engine is timed with, and how.

    prompts     token ids, decoded in turns by all that is compared
    num_tokens  of every continuation
    """

    prompts: Sequence[Sequence[int]]
    sampling: Sampling
    num_tokens: int
    seed: int

    @property
    def context(self) -> int:
        """Tokens in the cache on average."""
        return int(np.mean([len(prompt) for prompt in self.prompts])) + self.num_tokens // 2

    def decoded(self, running: Mapping[str, Running]) -> dict[str, list[Answer]]:
        """Every prompt by every one that runs, in an order of its own for each prompt."""
        rng = np.random.default_rng(self.seed)
        names = list(running)
        found: dict[str, list[Answer]] = {name: [] for name in names}
        for number, prompt in enumerate(self.prompts):
            for place in rng.permutation(len(names)):
                name = names[place]
                answer = running[name].decode(
                    prompt, self.sampling, num_tokens=self.num_tokens, seed=self.seed + number
                )
                found[name].append(answer)
        return found


def lengths(facts: EngineFacts, *, every: bool) -> list[int]:
    """Lengths of the chains that are timed: every one that is allowed, or a few; from 0 where
    chains can end before they begin."""
    most = facts.most_tokens
    some = range(1, most) if every else [each for each in LENGTHS if each < most]
    return [*([0] if "confident" in facts.solvers else []), *some, most]


def time_passes(engine: Program, turns: Turns, repeats: int) -> Piece:
    """Milliseconds "target" and "draft", float64 [repeats, most_tokens + 1], by tokens in a pass;
    nothing where the engine has no benchmark."""
    sizes = range(1, engine.facts.most_tokens + 2)
    passes = engine.passes(sizes, context=turns.context, repeats=repeats)
    if passes is None:
        return {"target": np.zeros((0, 0)), "draft": np.zeros((0, 0))}
    return {
        name: np.array([times[size] for size in sizes]).T
        for name, times in zip(PassTimes._fields, passes, strict=True)
    }


def time_steps(
    engine: Program, plain: Running, length: int, *, turns: Turns, samplings: Sequence[Sampling]
) -> Piece:
    """Chains of `length` in turns with none: milliseconds a step of either ("plain", "drafted"),
    and tokens drafted by a step ("length"), which are fewer at a text's end: float64 [samplings,
    prompts] each.

    length  0: chains that are hardly ever begun, since the draft is hardly ever so sure
    """
    drafting = ConfidentDrafting(max_depth=max(length, 1), confidence=0.0 if length else NEVER)
    enough = replace(turns, num_tokens=max(turns.num_tokens, STEPS * length))
    rows: dict[str, list[list[float]]] = {"plain": [], "drafted": [], "length": []}
    with engine.running(drafting) as running:
        for sampling in samplings:
            found = replace(enough, sampling=sampling).decoded({"plain": plain, "drafted": running})
            for name, answers in found.items():
                rows[name].append([each.ms / each.num_steps for each in answers])
            drafted = [each.num_drafted / each.num_steps for each in found["drafted"]]
            rows["length"].append([each or length for each in drafted])
    return {name: np.array(each) for name, each in rows.items()}


def joined(some: Mapping[int, Piece], more: Mapping[int, Piece]) -> dict[int, Piece]:
    """Pieces of `time_steps` for the lengths of `more`: those prompts behind those of `some`."""
    return {
        length: {
            name: np.concatenate([some[length][name], rows], axis=1) for name, rows in piece.items()
        }
        for length, piece in more.items()
    }


def two_clocks(passes: Piece, steps: Mapping[int, Piece]) -> str:
    """A line on how the benchmark's times and those of the engine's steps agree; empty where there
    is no benchmark.  A step without a draft is a pass over one token and little else."""
    if not passes["target"].size:
        return ""
    once = float(np.median(passes["target"][:, 0]))
    step = float(np.median(np.concatenate([piece["plain"] for piece in steps.values()], axis=1)))
    line = f"one token takes {once:.3g} ms in the benchmark and {step:.3g} ms in a step"
    if LEAST_SHARE <= once / step <= MOST_SHARE:
        return line
    return (
        f"{line}, expected {LEAST_SHARE:.0%} to {MOST_SHARE:.0%} of it: the machine was not "
        "equally fast in both; profile again while nothing else runs"
    )


def engine_costs(
    facts: EngineFacts,
    context: int,
    samplings: Sequence[Sampling],
    passes: Piece,
    steps: Mapping[int, Piece],
) -> list[Costs]:
    """The profile's entries, one for each sampling.

    passes  see `time_passes`
    steps   see `time_steps`, by length
    """
    return [
        _costs(
            facts,
            context,
            sampling,
            passes,
            {
                length: {name: rows[place] for name, rows in piece.items()}
                for length, piece in steps.items()
            },
        )
        for place, sampling in enumerate(samplings)
    ]


def _costs(
    facts: EngineFacts, context: int, sampling: Sampling, passes: Piece, steps: Mapping[int, Piece]
) -> Costs:
    usual = float(np.median(np.concatenate([piece["plain"] for piece in steps.values()])))
    sizes = [length + 1 for length in steps]
    paced = [_at_one_pace(piece["plain"], piece["drafted"], usual) for piece in steps.values()]
    alone = np.concatenate([each for each, _ in paced])
    drafted = [each for _, each in paced]
    target, once = passes["target"], passes["draft"][:, :1]
    if target.size:
        counts = range(1, target.shape[1] + 1)
        long = [piece["length"] for piece in steps.values()]
        num_passes = [np.maximum(each, 1) for each in long]  # a chain not begun has cost one
        usually = np.quantile(target, 0.25, axis=0), np.quantile(once, 0.25)
        passed = [
            np.interp(tokens + 1, counts, usually[0]) + count * usually[1]
            for tokens, count in zip(long, num_passes, strict=True)
        ]
        # a benchmark that met a slower machine: no step takes less than its passes
        shares = np.array(_medians(drafted)) / _medians(passed)
        level = min(1.0, float(shares.min()))
        verify, once = _curve(counts, list((level * target).T)), level * once
        rest = [step - level * known for step, known in zip(drafted, passed, strict=True)]
        # what every further token costs besides is taken to belong to its draft pass
        further = max(0.0, float(np.polyfit(_medians(num_passes), _medians(rest), 1)[0]))
        once = once + further
        rest = [ms - count * further for ms, count in zip(rest, num_passes, strict=True)]
    else:  # nobody says how a step is made up: all of it stands under its number of nodes
        verify = _curve([1, *sizes], [alone, *drafted])
        once, rest = np.full((1, 1), LEAST_MS), [np.full(1, LEAST_MS) for _ in sizes]
    draft, overhead = _curve([1], [once.ravel()]), _curve(sizes, rest)
    return Costs(
        batch_size=1,
        context=context,
        sampling=sampling,
        verify=verify,
        draft_root=draft,
        draft=draft,
        overhead=dict.fromkeys((facts.verifier, GREEDY_VERIFIER), overhead),
        chains=GrowingTimes(draft_root=draft, draft=draft, overhead=overhead),
        target_step=_curve([1], [alone]),
        draft_step=draft,
    )


def _at_one_pace(
    plain: np.ndarray, drafted: np.ndarray, usual: float
) -> tuple[np.ndarray, np.ndarray]:
    """Both, float64 [prompts], as if plain decoding always took `usual`.

    What slows a turn down slows both alike: each bears half of it, their ratio nothing.
    """
    pace = np.sqrt(plain / np.median(plain) * drafted / np.median(drafted))
    pace *= np.median(plain) / usual
    return plain / pace, drafted / pace


def _medians(repeated: Sequence[np.ndarray]) -> list[float]:
    return [float(np.median(each)) for each in repeated]


def _curve(counts: Sequence[int], repeated: Sequence[np.ndarray]) -> Curve:
    """Quartiles of the times that were repeated at each of `counts`, float64 [repeats] each.

    Means have narrower quartiles than what they are of: all are given as they were measured, or
    one count's lower quartile lay below another's by nothing but that.
    """
    quartiles = np.array([np.quantile(each, [0.25, 0.5, 0.75]) for each in repeated]).T
    low, median, high = np.maximum(quartiles, LEAST_MS).round(5)
    return Curve(
        counts=list(counts),
        median_ms=median.tolist(),
        low_ms=low.tolist(),
        high_ms=high.tolist(),
        repeats=min(map(len, repeated)),
    )
