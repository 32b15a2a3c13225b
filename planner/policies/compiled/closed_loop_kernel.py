"""The compiled beliefs and choices of `runtime.closed_loop`, whose docstring says what they are.

All of it is one call: right after a model's pass, with nothing of it left in the caches, some forty
calls of numpy took a twentieth of a small model's step, and one of this still a hundredth; so short
steps of one setting are taken in together.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np

from ...compiling import compiled
from ...documents.estimate import hope
from ..chain_policy import MOST_CHANCE, emitted
from .uncounted import uncounted

FIRST, SURPRISED = (0.15, 0.3, 0.1), (0.5, 1.0, 0.1)
"""Standard deviations of f, g and each r_s at first, where things are likely as planned; and what
is added where something has moved."""
DRIFT = (0.03, 0.01, 0.001)
"""Likewise of their change in a step."""
KEPT = (1.0, 1 - 1 / 2000, 1 - 1 / 100)
"""The share of f, g and every r_s that a step leaves: what nobody looks at returns to the plan."""
PACE_MS = 2.0
"""A plain step of so many milliseconds, or more, has all of `DRIFT`, `KEPT` and `BUDGET`.  What
moves a machine goes by the clock, so a shorter one has as much less of the first two.  Where a look
takes c ms, one in every w ms costs a share c / w, and a change goes unseen for w / 2: the sum is
least for a w that goes with the root of c, and a share that does so, too.  So looks get the root of
that much of `BUDGET`."""
TOGETHER = 0.8
"""Correlation of f and g, at first and in a step: what slows the one down slows the other."""
SHARES = (0.0, 0.5, 0.15)
"""Possible changes of f, g and each r_s where a step's time changed, as shares of that change."""
SCATTER = 0.15
"""The deviation of a step's logarithmic time, at first; then it is followed for each setting."""
LEAST_SCATTER = 1e-4
OUTLIER, MOVED = 3.0, 3
"""Standard deviations from which a step counts the less, the further off it is; and so many of them
in a row, to the same side, that something has moved."""
HORIZON, LOOKS, BUDGET, CREDIT = 100.0, 2, 0.005, 3.0
"""Steps that knowledge is of use for; how many make a look's worth; the share of time spent on
looking; what may be spent at once, and what a draft's reading may count for, in steps."""
CHANCES, CHANCES_DRIFT, CHANCE_KEPT = (0.12, 0.06), 0.02, 1 - 1 / 1000
"""Standard deviations of log c and of each log w_s at first, the latter's also in the long run; of
the change of log c in a step; the share of every log w_s that a step leaves."""
UNEVEN = 1.5
"""The variance of a step's accepted tokens over their mean."""
LEAST, MOST = 0.05, 2.0
"""Bounds of c."""
MISSED = 8
"""Tokens that the draft has not read, from which the step that has it read them is not timed, and
another one is taken to look at; likewise after a setting's very first, which finds nothing warm."""
BLOCK_MS, BLOCK = 16.0, 64
"""Steps of the setting that seems the best are taken in once they have lasted so long, or are so
many: they share what that takes, and a change is seen as much later."""

LOG_MS, FURTHER, CHANCE, LENGTH = range(4)
"""Rows of `Beliefs.planned`: log e_s, 1 - e_0 / e_s, and the chain that emits as much."""
EMITTED, BY_CHANCE, NOISE, STEPS = range(4)
"""Rows of `Beliefs.settings`: tokens of a step, as believed; by how much their logarithm changes
with that of the chance; the variance of a step's logarithmic time; steps so far."""
CREDITED, LOOKED, OFF, UNREAD, WHICH, TEXTS, PACE = range(7)
"""Places of `Beliefs.numbers`: milliseconds that may be spent on looks, and that were; steps in a
row that were off, to which side; tokens that the draft has not read; the next step's setting; texts
that share a step, at least; a plain step's milliseconds in `PACE_MS`, at most 1."""

_hope, _emitted = compiled(hope), compiled(emitted)


class Beliefs(NamedTuple):
    """The beliefs about K settings, and about how the present differs from the plan."""

    planned: np.ndarray
    """float64 [4, K]"""
    settings: np.ndarray
    """float64 [4, K]"""
    numbers: np.ndarray
    """float64 [7]"""
    mean: np.ndarray
    """float64 [K + 2]: f, g and every r_s"""
    spread: np.ndarray
    """float64 [K + 2, K + 2]: their covariance"""
    chances: np.ndarray
    """float64 [K + 1]: log c and every log w_s"""
    doubt: np.ndarray
    """float64 [K + 1, K + 1]: their covariance"""
    column: np.ndarray
    """float64 [K + 2]: room for what a step's time, or tokens, share with each of either"""


def new_beliefs(
    step_ms: np.ndarray, chances: np.ndarray, lengths: np.ndarray, num_texts: int
) -> Beliefs:
    """The beliefs before the first step, whose setting is chosen.

    step_ms          float64 [K]  as planned, the plan's own first
    chances, lengths  float64 [K]  the chain that emits as much as each; 0 where nothing is drafted
    num_texts        that share a step, at least
    """
    number = len(step_ms)
    made = Beliefs(
        np.array([np.log(step_ms), 1 - step_ms.min() / step_ms, chances, lengths]),
        np.zeros((4, number)),
        np.zeros(7),
        np.zeros(number + 2),
        np.zeros((number + 2, number + 2)),
        np.zeros(number + 1),
        np.diag([CHANCES[0] ** 2, *[CHANCES[1] ** 2] * number]),
        np.zeros(number + 2),
    )
    made.settings[NOISE] = SCATTER**2
    made.numbers[CREDITED], made.numbers[TEXTS] = CREDIT * step_ms[0], num_texts
    made.numbers[PACE] = min(1.0, step_ms.min() / PACE_MS)
    begin(tuple(made))
    return made


@compiled
def begin(beliefs):  # type: ignore[no-untyped-def]
    """Fill in what follows from the plan, and choose the first step's setting."""
    whole = Beliefs(*beliefs)
    _widen(whole.spread, FIRST, 1.0)
    _rate(whole)
    _choose(whole)


@compiled
def advance(beliefs, noted):  # type: ignore[no-untyped-def]
    """Take in what steps of the chosen setting emitted and how long they took, and choose the next
    one's.

    beliefs  plain tuple of the fields of `Beliefs`
    noted    float64 [steps, 2]: tokens (a text's, on average) and milliseconds of each

    Returns the next step's setting, this one's time over the planned one, as believed, c, and
    whether the next one is the best: neither a look, nor this one again because it is not known.
    """
    whole = Beliefs(*beliefs)
    which = int(whole.numbers[WHICH])
    again = False
    for place in range(len(noted)):
        again = _take_in(whole, which, noted[place, 0], noted[place, 1])
    _rate(whole)
    later = exp(_later(whole, which))
    best = not again and _choose(whole)
    return int(whole.numbers[WHICH]), later, exp(whole.chances[0]), best


@uncounted
def _take_in(beliefs: Beliefs, which: int, num_tokens: float, ms: float) -> bool:
    """Move the beliefs by one step; whether it told nothing of its setting's time."""
    numbers, settings = beliefs.numbers, beliefs.settings
    settings[STEPS, which] += 1
    drafts = beliefs.planned[LENGTH, which] > 0
    reads = drafts and numbers[UNREAD] >= MISSED
    again = settings[STEPS, which] == 1 or reads
    numbers[UNREAD] = 0.0 if drafts else numbers[UNREAD] + num_tokens
    most = CREDIT * _believed_ms(beliefs, 0)
    numbers[CREDITED] = min(numbers[CREDITED] + BUDGET * sqrt(numbers[PACE]) * ms, most)
    if again:
        believed = _believed_ms(beliefs, which)
        _charge(beliefs, min(ms - believed, (CREDIT if reads else 1.0) * believed))
    else:
        _follow_time(beliefs, which, log(ms) - beliefs.planned[LOG_MS, which])
    _follow_chance(beliefs, which, num_tokens)
    return again


@uncounted
def _choose(beliefs: Beliefs) -> bool:
    """Write down the best setting, or the one that is best worth a look; whether it is the best."""
    settings, numbers = beliefs.settings, beliefs.numbers
    number = settings.shape[1]
    best = 0
    for other in range(1, number):
        if _rate_now(beliefs, other) > _rate_now(beliefs, best):
            best = other
    chosen, worth, price = best, 0.0, 0.0
    for other in range(number):
        if other == best:
            continue
        gain = _rate_now(beliefs, other) - _rate_now(beliefs, best)
        untimed = numbers[UNREAD] >= MISSED or settings[STEPS, other] == 0
        cost = (1 - exp(gain)) * (2.0 if untimed else 1.0)
        won = HORIZON / LOOKS * _hope(gain, _told(beliefs, other, best)) - cost
        spent = cost * _believed_ms(beliefs, other)
        if won > worth and spent <= numbers[CREDITED]:
            chosen, worth, price = other, won, spent
    _charge(beliefs, price)
    numbers[WHICH] = chosen
    return bool(chosen == best)


@uncounted
def _charge(beliefs: Beliefs, ms: float) -> None:
    """Note that a look costs so much time."""
    beliefs.numbers[CREDITED] -= ms
    beliefs.numbers[LOOKED] += ms


@uncounted
def _told(beliefs: Beliefs, other: int, best: int) -> float:
    """The distance by which `LOOKS` steps of `other` may move its rate beside the best one's, by
    their times and by their tokens."""
    settings = beliefs.settings
    known, shared = _shared(beliefs, other, other), _shared(beliefs, other, best)
    times = abs(known - shared) / sqrt(known + settings[NOISE, other] / LOOKS)
    slope = settings[BY_CHANCE, other]
    if slope == 0.0:
        return times
    known, shared = _alike(beliefs, other, other), _alike(beliefs, other, best)
    scatter = _uneven(beliefs, other) / (slope * settings[EMITTED, other]) ** 2
    tokens = slope * known - settings[BY_CHANCE, best] * shared
    return sqrt(times * times + tokens * tokens / (known + scatter / LOOKS))


@uncounted
def _alike(beliefs: Beliefs, one: int, other: int) -> float:
    """The covariance of the logarithms of two settings' chances."""
    doubt = beliefs.doubt
    return doubt[0, 0] + doubt[one + 1, 0] + doubt[0, other + 1] + doubt[one + 1, other + 1]


@uncounted
def _uneven(beliefs: Beliefs, which: int) -> float:
    """The variance of a step's tokens."""
    return UNEVEN * (beliefs.settings[EMITTED, which] - 1.0) / beliefs.numbers[TEXTS]


@uncounted
def _shared(beliefs: Beliefs, one: int, other: int) -> float:
    """The covariance of two settings' times."""
    spread = beliefs.spread
    x, y = beliefs.planned[FURTHER, one], beliefs.planned[FURTHER, other]
    i, j = one + 2, other + 2
    of_f = spread[0, 0] + y * spread[0, 1] + spread[0, j]
    of_g = spread[1, 0] + y * spread[1, 1] + spread[1, j]
    return of_f + x * of_g + spread[i, 0] + y * spread[i, 1] + spread[i, j]


@uncounted
def _later(beliefs: Beliefs, which: int) -> float:
    """The logarithm of a step's time over the planned one, as believed."""
    mean = beliefs.mean
    return mean[0] + beliefs.planned[FURTHER, which] * mean[1] + mean[which + 2]


@uncounted
def _rate_now(beliefs: Beliefs, which: int) -> float:
    """The logarithm of its tokens per millisecond."""
    return log(beliefs.settings[EMITTED, which] / _believed_ms(beliefs, which))


@uncounted
def _believed_ms(beliefs: Beliefs, which: int) -> float:
    return exp(beliefs.planned[LOG_MS, which] + _later(beliefs, which))


@uncounted
def _follow_time(beliefs: Beliefs, which: int, longer: float) -> None:
    """longer  the logarithm of the step's time over the planned one"""
    mean, spread, column = beliefs.mean, beliefs.spread, beliefs.column
    size, x = len(mean), beliefs.planned[FURTHER, which]
    pace = beliefs.numbers[PACE]
    kept = (KEPT[0], KEPT[1] ** pace, KEPT[2] ** pace)
    for i in range(size):
        mean[i] *= kept[min(i, 2)]
        for j in range(size):
            spread[i, j] *= kept[min(i, 2)] * kept[min(j, 2)]
    _widen(spread, DRIFT, pace)
    miss = longer - _later(beliefs, which)
    known = _shared(beliefs, which, which)
    total = known + beliefs.settings[NOISE, which]
    if miss * miss <= OUTLIER * OUTLIER * total:
        beliefs.numbers[OFF] = 0.0
        noise = max(miss * miss - known, LEAST_SCATTER)
        beliefs.settings[NOISE, which] += (noise - beliefs.settings[NOISE, which]) / 32
    else:
        side = 1.0 if miss > 0 else -1.0
        off = beliefs.numbers[OFF]
        off = off + side if off * side > 0 else side
        if abs(off) < MOVED:
            total = abs(miss) * sqrt(total) / OUTLIER + known
        else:
            off = 0.0
            _widen(spread, SURPRISED, 1.0)
            total = _shared(beliefs, which, which) + beliefs.settings[NOISE, which]
        beliefs.numbers[OFF] = off
    for i in range(size):
        column[i] = spread[i, 0] + x * spread[i, 1] + spread[i, which + 2]
    _learn(mean, spread, column, miss, total)
    moved = (column[0] + x * column[1]) * miss / total
    _widen(spread, SHARES, moved * moved)


@uncounted
def _widen(spread: np.ndarray, deviations: tuple[float, float, float], times: float) -> None:
    """Add so many times the covariance of independent r_s, and of f and g that move together."""
    shared, further, own = deviations
    spread[0, 0] += times * shared * shared
    spread[1, 1] += times * further * further
    spread[0, 1] += times * TOGETHER * shared * further
    spread[1, 0] += times * TOGETHER * shared * further
    for i in range(2, len(spread)):
        spread[i, i] += times * own * own


@uncounted
def _follow_chance(beliefs: Beliefs, which: int, num_tokens: float) -> None:
    """Take in how many tokens came out."""
    chances, doubt, column = beliefs.chances, beliefs.doubt, beliefs.column
    settings, size = beliefs.settings, len(chances)
    doubt[0, 0] += CHANCES_DRIFT * CHANCES_DRIFT
    for i in range(1, size):
        chances[i] *= CHANCE_KEPT
        doubt[i, 0] *= CHANCE_KEPT
        doubt[0, i] *= CHANCE_KEPT
        for j in range(1, size):
            doubt[i, j] *= CHANCE_KEPT * CHANCE_KEPT
        doubt[i, i] += (1 - CHANCE_KEPT * CHANCE_KEPT) * CHANCES[1] * CHANCES[1]
    slope = settings[EMITTED, which] * settings[BY_CHANCE, which]
    if slope == 0.0:
        chances[0] *= KEPT[1]
    else:
        for i in range(size):
            column[i] = slope * (doubt[i, 0] + doubt[i, which + 1])
        total = slope * (column[0] + column[which + 1]) + _uneven(beliefs, which)
        _learn(chances, doubt, column, num_tokens - settings[EMITTED, which], total)
        chances[0] = min(max(chances[0], log(LEAST)), log(MOST))
        _rate_one(beliefs, which)


@uncounted
def _learn(
    mean: np.ndarray, spread: np.ndarray, column: np.ndarray, miss: float, total: float
) -> None:
    """Move the beliefs by something that was seen.

    column  its covariances with all that is believed
    miss    by how much it is more than was believed
    total   its variance, that of the belief and its own
    """
    size = len(mean)
    for i in range(size):
        mean[i] += column[i] * miss / total
        for j in range(size):
            spread[i, j] -= column[i] * column[j] / total


@uncounted
def _rate(beliefs: Beliefs) -> None:
    """Fill in what every setting emits now."""
    for which in range(beliefs.settings.shape[1]):
        _rate_one(beliefs, which)


@uncounted
def _rate_one(beliefs: Beliefs, which: int) -> None:
    """Fill in what one setting emits now."""
    c = exp(beliefs.chances[0] + beliefs.chances[which + 1])
    chance = min(c * beliefs.planned[CHANCE, which], MOST_CHANCE)
    length = beliefs.planned[LENGTH, which]
    tokens, fewer = _emitted(chance, length), _emitted(chance / 1.1, length)
    beliefs.settings[EMITTED, which] = tokens
    beliefs.settings[BY_CHANCE, which] = log(tokens / fewer) / log(1.1)
