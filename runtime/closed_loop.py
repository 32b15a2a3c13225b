"""The closed loop: which of a plan's settings is the fastest as things are now?

A plan's table says of every setting s what a step takes, e_s, and emits, T_s, where it was
profiled; e_0 is a step without a draft.  Decoding follows how far the present is from that:

    log ms of a step of s  =  log e_s + f + (1 - e_0 / e_s) g + r_s        tokens of it  =  T_s(c)

f and g, which all settings share, move freely (another process, another clock): f slows every step,
g what drafting and many tokens take beyond one, which suffers more where others want the cores.
r_s, a setting's own, is small and moves slowly (the table was wrong).  All are followed by one
Kalman filter, so that a step of one setting tells something of all; three steps in a row that are
further off, to the same side, than it holds possible make it as uncertain again as at first.  c
multiplies the chance that a drafted token is accepted; a chain of it that emits T_s gives T_s(c).

The next step is the setting's with the most tokens per millisecond, or a look at another one, which
costs what it is believed to be slower, and is worth what it may turn out to be faster,

    E max(0, gain)  =  sigma phi(mu / sigma) + mu Phi(mu / sigma),     log gain ~ N(mu, sigma^2),

for `HORIZON` steps.  sigma is how far `LOOKS` steps of it may move that belief: it grows while
nobody looks, and is small where they would tell little, as of a setting that is well known.
Looking takes `BUDGET` of the time in the long run, at most.

Decisions depend on the past alone, so that the text's distribution is the target's whatever they
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log, sqrt

import numpy as np

from planner.documents.estimate import hope
from planner.plans.report import Followed
from planner.plans.settings import PlanSetting

FIRST = (0.5, 1.0, 0.1)
"""Standard deviations of f, g and each r_s at first."""
DRIFT = (0.03, 0.03, 0.001)
"""Likewise of their change in a step."""
TOGETHER = 0.8
"""Correlation of f and g, at first and in a step: what slows the one down slows the other."""
OWN_SHARE = 0.15
"""What each r_s may have changed by where f and g changed a step's time, as a share of that."""
SCATTER = 0.15
"""Of a step's time, at first; then it is followed for each setting."""
LEAST_SCATTER = 1e-4
OUTLIER, MOVED = 3.0, 3
"""Standard deviations from which a step counts the less, the further off it is; and so many of them
in a row, to the same side, that something has moved."""
HORIZON, LOOKS, BUDGET, CREDIT = 100.0, 3, 0.005, 3.0
"""Steps that knowledge is of use for; how many make a look's worth; the share of time spent on
looking; what may be spent at once, in steps."""
MEMORY = 200.0
"""Steps that c remembers."""
CHANCES = 64.0
"""Steps that c = 1 counts for at first."""
LEAST, MOST = 0.05, 2.0
"""Of c."""
SAME = 0.005
"""A change of c that changes nothing."""
MISSED = 8
"""Tokens that the draft has not read, from which the step that has it read them is not timed, and
another one is taken to look at; likewise after a setting's very first, which finds nothing warm."""


class ClosedLoop:
    """The beliefs about a plan's settings, and the choice of the next step's.

    settings  at least one, the plan's own first

        loop = ClosedLoop(plan.settings)
        which = loop.choose()                          # decode a step with settings[which]
        loop.note(num_tokens=3, ms=12.5)
    """

    def __init__(self, settings: Sequence[PlanSetting]) -> None:
        number = len(settings)
        self._settings = list(settings)
        self._planned_ms = np.array([setting.step_ms for setting in settings])
        further = 1 - self._planned_ms.min() / self._planned_ms
        self._rows = np.column_stack([np.ones(number), further, np.eye(number)])
        """Of each setting, what f, g and every r count for in its step's time."""
        self._mean = np.zeros(number + 2)
        self._first, self._drift = (_covariance(each, number) for each in (FIRST, DRIFT))
        self._spread = self._first.copy()
        self._own = np.arange(2, number + 2), np.arange(2, number + 2)
        self._off = 0
        self._scatter = [SCATTER**2] * number
        self._accepted = self._expected = CHANCES * max(settings[0].tokens_per_step - 1, 0.1)
        self._chance = 1.0
        self._log_rates = self._rates_at(self._chance)
        self._credit = CREDIT * settings[0].step_ms
        self._which, self._missed, self._again = 0, 0, False
        self.steps = [0] * number
        """Steps so far, by setting."""
        self.looked_ms = 0.0
        """Time so far that looks at other settings were believed to cost."""

    @property
    def factor(self) -> float:
        """A step's time now over the planned one, for the setting of the last step."""
        return exp(self._rows[self._which] @ self._mean)

    @property
    def chance(self) -> float:
        """c: a drafted token's chance of acceptance now over the planned one."""
        return self._chance

    @property
    def followed(self) -> Followed:
        """The part of a report that says what was done."""
        return Followed(
            steps=list(self.steps), factor=self.factor, chance=self.chance, looked_ms=self.looked_ms
        )

    def choose(self) -> int:
        """The setting of the next step, by its place."""
        if not self._again:
            self._which = self._chosen()
        return self._which

    def note(self, num_tokens: int, ms: float) -> None:
        """The step emitted `num_tokens` and took `ms` milliseconds."""
        which = self._which
        self.steps[which] += 1
        drafts, missed = self._settings[which].speculates, self._missed
        self._again = self.steps[which] == 1 or (drafts and missed >= MISSED)
        self._missed = 0 if drafts else missed + num_tokens
        self._credit = min(self._credit + BUDGET * ms, CREDIT * self._believed_ms(0))
        if not self._again:
            self._follow_time(which, log(ms / self._planned_ms[which]))
        self._follow_chance(which, num_tokens)

    def _chosen(self) -> int:
        rates = self._log_rates - self._rows @ self._mean
        best = int(rates.argmax())
        shared = self._rows @ self._spread @ self._rows.T
        known = shared.diagonal()
        seen = np.sqrt(known + np.array(self._scatter) / LOOKS)
        told = (np.abs(known - shared[best]) / seen).tolist()
        chosen, worth, price = best, 0.0, 0.0
        for other, gain in enumerate((rates - rates[best]).tolist()):
            if other == best:
                continue
            untimed = self._missed >= MISSED or not self.steps[other]
            cost = (1 - exp(gain)) * (1 + untimed)
            won = HORIZON / LOOKS * hope(gain, told[other]) - cost
            if won > worth and (spent := cost * self._believed_ms(other)) <= self._credit:
                chosen, worth, price = other, won, spent
        self._credit -= price
        self.looked_ms += price
        return chosen

    def _follow_time(self, which: int, longer: float) -> None:
        """longer  the logarithm of the step's time over the planned one"""
        row, spread = self._rows[which], self._spread
        spread += self._drift
        miss = longer - float(row @ self._mean)
        column, known, total = self._gain(which)
        if miss**2 <= OUTLIER**2 * total:
            self._off = 0
            scatter = max(miss**2 - known, LEAST_SCATTER)
            self._scatter[which] += (scatter - self._scatter[which]) / 32
        else:
            side = 1 if miss > 0 else -1
            self._off = self._off + side if self._off * side > 0 else side
            if abs(self._off) < MOVED:
                total = abs(miss) * sqrt(total) / OUTLIER + known
            else:
                self._off = 0
                spread += self._first
                column, known, total = self._gain(which)
        moved = column * (miss / total)
        self._mean += moved
        spread -= np.outer(column, column) / total
        spread[self._own] += (OWN_SHARE * float(row[:2] @ moved[:2])) ** 2

    def _gain(self, which: int) -> tuple[np.ndarray, float, float]:
        """What all that is followed shares with a step's time (a covariance), and the variance of
        that time, without the step's own scatter and with it."""
        column = self._spread @ self._rows[which]
        known = float(self._rows[which] @ column)
        return column, known, known + self._scatter[which]

    def _follow_chance(self, which: int, num_tokens: int) -> None:
        setting = self._settings[which]
        if not setting.speculates:
            return
        kept = 1 - 1 / MEMORY
        self._accepted = kept * self._accepted + num_tokens - 1
        self._expected = kept * self._expected + setting.tokens_at(self._chance) - 1
        chance = self._chance * (self._accepted / self._expected) ** (1 / MEMORY)
        self._chance = min(max(chance, LEAST), MOST)
        if abs(self._chance / self._rated_chance - 1) > SAME:
            self._log_rates = self._rates_at(self._chance)

    def _rates_at(self, chance: float) -> np.ndarray:
        """float64 [settings]: the logarithm of the tokens per millisecond at that c, as planned."""
        self._rated_chance = chance
        return np.log([each.tokens_at(chance) for each in self._settings] / self._planned_ms)

    def _believed_ms(self, which: int) -> float:
        return float(self._planned_ms[which]) * exp(self._rows[which] @ self._mean)


def _covariance(deviations: Sequence[float], number: int) -> np.ndarray:
    """float64 [number + 2, number + 2]: of f, g and so many r_s."""
    shared, further, own = deviations
    made = np.diag([shared**2, further**2, *[own**2] * number])
    made[0, 1] = made[1, 0] = TOGETHER * shared * further
    return made
