"""Costs of an engine's steps, made of what was timed (`timing`).

Steps with a draft are known as multiples of those without.  Where the engine has a benchmark of its
own, that says how the time is made up: `verify` is the target's pass over k + 1 tokens, `draft` one
of the draft over one token, `overhead` all the rest.  Where chains can end early, what the engine
is told that they may have is looked at, too: it may change what all steps take (`Early`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from planner.documents.engine import EngineFacts
from planner.documents.sampling import Sampling
from planner.documents.times import NO_PART_MS, Costs, Curve, GrowingTimes
from planner.verifiers import GREEDY_VERIFIER
from profiler.journal import Piece

LEAST_SHARE, MOST_SHARE = 0.7, 1.1
"""Share of a step without a draft that its pass takes; the rest is sampling and the answer."""


class Early(NamedTuple):
    """Chains that end early, by the most tokens that they may have, for each of several starts;
    nothing where chains do not, or where no benchmark times passes."""

    unbegun: Sequence[Mapping[int, Piece]] = ()
    """Chains that are not begun (`time_steps`)."""
    ended: Sequence[Mapping[int, Piece]] = ()
    """Others (`time_ended`)."""


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


def start_errors(starts: Sequence[Mapping[int, Piece]], sizes: Sequence[int]) -> list[float]:
    """Differences between a start of the engine and the mean of those that were timed: for each
    sampling the standard deviation of the logarithm of a step over one without a draft.

    starts  see `time_steps`, by length, of the same prompts' kind, `sizes` in all of them
    """
    ratios = _log_ratios(starts, sizes)
    means = np.array([[each.mean(axis=1) for each in row] for row in ratios])
    within = np.array(
        [[each.var(axis=1) / max(each.shape[1] - 1, 1) for each in row] for row in ratios]
    )
    between = means.var(axis=1, ddof=1) - within.mean(axis=1)  # [sizes, samplings]
    variance = np.maximum(between.mean(axis=0), 0.0) * (1 + 1 / len(starts))
    return [float(each) for each in np.sqrt(variance).round(5)]


def _log_ratios(
    starts: Sequence[Mapping[int, Piece]], sizes: Sequence[int]
) -> list[list[np.ndarray]]:
    """Logarithms of the steps over those without a draft, for each size those of every start."""
    return [
        [np.log(steps[size]["drafted"] / steps[size]["plain"]) for steps in starts]
        for size in sizes
    ]


def evened(starts: Sequence[Mapping[int, Piece]], sizes: Sequence[int]) -> list[dict[int, Piece]]:
    """The starts of chains of `sizes`, as if plain decoding had been equally fast in all of them;
    their steps are drawn to a straight line in their length, as far as they lie off it by chance.

    starts  see `time_steps`, by length, `sizes` in all of them
    """
    ratios = _log_ratios(starts, sizes)
    logs = np.array([[each.mean(axis=1) for each in row] for row in ratios])
    plain = np.log([[steps[size]["plain"].mean(axis=1) for steps in starts] for size in sizes])
    factors = []  # [samplings, sizes, starts]
    for alone, drafted in zip(np.moveaxis(plain, 2, 0), np.moveaxis(logs, 2, 0), strict=True):
        more = _at_one_speed(alone, drafted)
        level = _without_chance(sizes, drafted + more, degree=1)
        factors.append(np.exp(more) * level[:, None])
    return [
        {
            size: steps[size] | {"drafted": steps[size]["drafted"] * factor[:, None]}
            for size, factor in zip(sizes, of_start, strict=True)
        }
        for steps, of_start in zip(starts, np.transpose(factors, (2, 1, 0)), strict=True)
    ]


def _at_one_speed(plain: np.ndarray, drafted: np.ndarray) -> np.ndarray:
    """The change of `drafted` that makes it as if plain decoding had been equally fast.

    plain    logarithms of a step without a draft, float64 [sizes, starts]
    drafted  of a step with one over that

    Plain decoding reads all weights for one token: whoever else uses the memory slows that more
    than a pass over several, and a chain takes fewer plain steps.  How many fewer, is seen between
    starts of one length: from none, where both slow down alike, to all that plain decoding lost.
    """
    apart, behind = (each - each.mean(axis=1, keepdims=True) for each in (plain, drafted))
    moved = float((apart * apart).sum())
    slope = min(0.0, max(-1.0, float((apart * behind).sum()) / moved)) if moved else 0.0
    return np.asarray(slope * (np.median(plain) - plain))


def engine_costs(
    facts: EngineFacts,
    context: int,
    samplings: Sequence[Sampling],
    passes: Piece,
    steps: Mapping[int, Piece],
    *,
    early: Early,
) -> list[Costs]:
    """The profile's entries, one for each sampling.

    context  tokens in the cache, on average
    passes   see `time_passes`
    steps    see `time_steps`, by length
    early    chains that end before they have that length
    """

    def of(place: int, pieces: Mapping[int, Piece]) -> dict[int, Piece]:
        return {
            length: {name: rows[place] for name, rows in piece.items()}
            for length, piece in pieces.items()
        }

    return [
        _costs(
            facts,
            context,
            sampling,
            passes,
            of(place, steps),
            early._replace(unbegun=[of(place, start) for start in early.unbegun]),
        )
        for place, sampling in enumerate(samplings)
    ]


def _costs(
    facts: EngineFacts,
    context: int,
    sampling: Sampling,
    passes: Piece,
    steps: Mapping[int, Piece],
    early: Early,
) -> Costs:
    usual = float(np.median(np.concatenate([piece["plain"] for piece in steps.values()])))
    lone = None
    if early.unbegun:
        lone, first = lone_steps(early.unbegun, usual)
        steps = {0: first, **steps}
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
            _passed(usually[0], length, tokens) + count * usually[1]
            for length, tokens, count in zip(steps, long, num_passes, strict=True)
        ]
        # a benchmark that met a slower machine: no step takes less than its passes
        shares = np.array(_medians(drafted)) / _medians(passed)
        level = min(1.0, float(shares.min()))
        verify, once = _curve(counts, list((level * target).T)), level * once
        rest = [step - level * known for step, known in zip(drafted, passed, strict=True)]
        # what every further token costs besides is taken to belong to its draft pass, as far as
        # every step leaves it
        slope = float(np.polyfit(_medians(num_passes), _medians(rest), 1)[0])
        most = float(np.min(np.array(_medians(rest)) / _medians(num_passes)))
        further = max(0.0, min(slope, most))
        once = once + further
        rest = [ms - count * further for ms, count in zip(rest, num_passes, strict=True)]
    else:  # nobody says how a step is made up: all of it stands under its number of nodes
        verify = _curve([1, *sizes], [alone, *drafted])
        once, rest = np.full((1, 1), NO_PART_MS), [np.full(1, NO_PART_MS) for _ in sizes]
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
        unbegun=lone,
        ended=ended_steps(early.ended, usual) if early.ended else {},
        target_step=_curve([1], [alone]),
        draft_step=draft,
    )


def lone_steps(starts: Sequence[Mapping[int, Piece]], usual: float) -> tuple[Curve, Piece]:
    """Steps of chains that are not begun, by the length that they may have, and those of the first
    length as a piece.

    All lengths are drawn to their mean, as far as they differ by chance.
    """
    counts = list(starts[0])
    logs = np.array([[each.mean() for each in row] for row in _log_ratios(starts, counts)])
    level = _without_chance(counts, logs, degree=0)
    pieces = [
        {name: np.concatenate([start[n][name] for start in starts]) for name in starts[0][n]}
        for n in counts
    ]
    pieces = [
        piece | {"drafted": piece["drafted"] * factor}
        for piece, factor in zip(pieces, level, strict=True)
    ]
    paced = [_at_one_pace(piece["plain"], piece["drafted"], usual)[1] for piece in pieces]
    return _curve(counts, paced), pieces[0]


def ended_steps(starts: Sequence[Mapping[int, Piece]], usual: float) -> dict[int, Curve]:
    """Steps of chains that end early, and of one that does not, by number of nodes, for each of the
    most tokens that they may have.

    Those of one length are drawn to their mean, as far as they differ by chance.
    """
    limits = list(starts[0])
    paced: dict[int, list[np.ndarray]] = {most: [] for most in limits}
    for place in range(len(limits)):
        allowed = limits[place:]
        alone = [[start[most]["plain"] for start in starts] for most in allowed]
        taken = [[start[most]["drafted"][place] for start in starts] for most in allowed]
        logs = np.array(
            [
                [np.log(step / plain).mean() for step, plain in zip(*both, strict=True)]
                for both in zip(taken, alone, strict=True)
            ]
        )
        level = _without_chance(allowed, logs, degree=0)
        for most, plain, steps, factor in zip(allowed, alone, taken, level, strict=True):
            both = np.concatenate(plain), factor * np.concatenate(steps)
            paced[most].append(_at_one_pace(*both, usual)[1])
    return {
        most: _curve([length + 1 for length in limits if length <= most], rows)
        for most, rows in paced.items()
    }


def _without_chance(counts: Sequence[int], logs: np.ndarray, degree: int) -> np.ndarray:
    """Factors of each length's steps, float64 [counts], that take away what is likely chance.

    logs    float64 [counts, starts], of a step over one without a draft
    degree  of the polynomial in the length, to which a length's mean over the starts is drawn

    It is drawn by the share of the variance around that polynomial which starts of one length have,
    too: what one start did by chance is no length's doing.  Otherwise the fastest of several would
    be so partly by luck, and promise too much.
    """
    means = logs.mean(axis=1)
    degree = min(degree, len(counts) - 1)
    off = np.polyval(np.polyfit(counts, means, degree), counts) - means
    num_starts, free = logs.shape[1], len(counts) - 1 - degree
    if num_starts < 2 or free < 1:
        return np.ones(len(counts))
    apart = float(off @ off) / free
    by_chance = float(logs.var(axis=1, ddof=1).mean()) / num_starts
    share = by_chance / apart if apart > by_chance else 1.0
    return np.asarray(np.exp(share * off))


def _at_one_pace(
    plain: np.ndarray, drafted: np.ndarray, usual: float
) -> tuple[np.ndarray, np.ndarray]:
    """Both, float64 [prompts], as if plain decoding always took `usual`.

    What slows a turn down slows both alike: each bears half of it, their ratio nothing.
    """
    pace = np.sqrt(plain / np.median(plain) * drafted / np.median(drafted))
    pace *= np.median(plain) / usual
    return plain / pace, drafted / pace


def _passed(times: np.ndarray, length: int, tokens: np.ndarray) -> np.ndarray:
    """Milliseconds of the target's pass in a step, on average over a text, float64 [prompts].

    times   float64 [tokens], of passes over 1, 2, ... tokens, which need not rise evenly
    length  of the chains, but for those at the text's end, which are taken to be of every shorter
            length equally often
    tokens  float64 [prompts], drafted by a step on average
    """
    if not length:
        return np.full(len(tokens), times[0])
    shorter = np.clip(2 * (length - tokens) / (length + 1), 0.0, 1.0)  # they lack half of it
    return np.asarray((1 - shorter) * times[length] + shorter * times[:length].mean())


def _medians(repeated: Sequence[np.ndarray]) -> list[float]:
    return [float(np.median(each)) for each in repeated]


def _curve(counts: Sequence[int], repeated: Sequence[np.ndarray]) -> Curve:
    """Quartiles of the times that were repeated at each of `counts`, float64 [repeats] each.

    Means have narrower quartiles than what they are of: all are given as they were measured, or
    one count's error would be smaller than another's by nothing but that.
    """
    quartiles = np.array([np.quantile(each, [0.25, 0.5, 0.75]) for each in repeated]).T
    low, median, high = np.maximum(quartiles, NO_PART_MS).round(5)
    return Curve(
        counts=list(counts),
        median_ms=median.tolist(),
        low_ms=low.tolist(),
        high_ms=high.tolist(),
        repeats=min(map(len, repeated)),
    )
