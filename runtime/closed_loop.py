"""The closed loop: which of a plan's settings is the fastest as things are now?

A plan's table says of every setting s what a step takes, e_s, and emits, T_s, where it was
profiled.  Decoding follows how far the present is from that:

    ms of a step of s  =  e_s (1 + f + r_s)         tokens of it  =  T_s(c)

f, which all settings share, moves freely (another process, another clock); r_s, a setting's own, is
small and moves slowly (the table was wrong; what slows many tokens need not slow one).  Both are
followed by one Kalman filter, so that a step of one setting tells something of all.  c multiplies
the chance that a drafted token is accepted; a chain of it that emits T_s gives T_s(c).

The next step is the setting's with the most tokens per millisecond, or a look at another one, which
costs what it is believed to be slower, and is worth what it may turn out to be faster,

    E max(0, gain)  =  sigma phi(mu / sigma) + mu Phi(mu / sigma),     gain ~ N(mu, sigma^2),

for `HORIZON` steps.  The longer nobody looked, the larger sigma.  Looking takes `BUDGET` of the
time in the long run, at most.

Decisions depend on the past alone, so that the text's distribution is the target's whatever they
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import erfc, exp, pi, sqrt

import numpy as np

from planner.plans.report import Followed
from planner.plans.settings import PlanSetting

SHARED_FIRST, SHARED_DRIFT = 0.5, 0.03
"""Standard deviations of f: at first, and of its change in a step."""
OWN_FIRST, OWN_DRIFT, OWN_SHARE = 0.25, 0.003, 0.5
"""Likewise of each r_s; and what it may have changed by where f did, as a share of that."""
SCATTER = 0.15
"""Of a step's time, at first; then it is followed for each setting."""
LEAST_SCATTER = 1e-4
OUTLIER = 3.0
"""Standard deviations from which a step counts the less, the further off it is."""
HORIZON, BUDGET, CREDIT = 100.0, 0.005, 3.0
"""Steps that knowledge is of use for; the share of time spent on looking; what may be spent at
once, in steps."""
MEMORY = 100.0
"""Steps that c remembers."""
CHANCES = 64.0
"""Steps that c = 1 counts for at first."""
LEAST, MOST = 0.05, 2.0
"""Of c; and the least of 1 + f + r_s."""


MISSED = 8
"""Tokens that the draft has not read, from which the step that has it read them is not timed, and
another one is taken to look at."""


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
        self._planned_ms = [setting.step_ms for setting in settings]
        self._mean = np.zeros(number + 1)
        self._spread = np.diag([SHARED_FIRST**2, *[OWN_FIRST**2] * number])
        self._drift = np.diag([SHARED_DRIFT**2, *[OWN_DRIFT**2] * number])
        self._own = np.arange(1, number + 1), np.arange(1, number + 1)
        self._scatter = [SCATTER**2] * number
        self._accepted = self._expected = CHANCES * max(settings[0].tokens_per_step - 1, 0.1)
        self._chance = 1.0
        self._credit = CREDIT * self._planned_ms[0]
        self._which, self._missed, self._again = 0, 0, False
        self.steps = [0] * number
        """Steps so far, by setting."""
        self.looked_ms = 0.0
        """Time so far that looks at other settings were believed to cost."""

    @property
    def factor(self) -> float:
        """A step's time now over the planned one, for the setting of the last step."""
        return self._level(self._which)

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
        self._again = drafts and missed >= MISSED
        self._missed = 0 if drafts else missed + num_tokens
        most = CREDIT * self._planned_ms[0] * self._level(0)
        self._credit = min(self._credit + BUDGET * ms, most)
        if not self._again:
            self._follow_time(which, ms / self._planned_ms[which])
        self._follow_chance(which, num_tokens)

    def _chosen(self) -> int:
        rates = [
            setting.tokens_at(self._chance) / (ms * self._level(which))
            for which, (setting, ms) in enumerate(
                zip(self._settings, self._planned_ms, strict=True)
            )
        ]
        best = max(range(len(rates)), key=rates.__getitem__)
        own, chosen, worth, price = self._spread[1:, 1:], best, 0.0, 0.0
        for other, rate in enumerate(rates):
            if other == best:
                continue
            mean = rate / rates[best] - 1
            variance = own[other, other] + own[best, best] - 2 * own[other, best]
            cost = -mean * (2 if self._missed >= MISSED else 1)
            gain = HORIZON * hope(mean, rate / rates[best] * sqrt(variance)) - cost
            spent = cost * self._planned_ms[other] * self._level(other)
            if gain > worth and spent <= self._credit:
                chosen, worth, price = other, gain, spent
        self._credit -= price
        self.looked_ms += price
        return chosen

    def _follow_time(self, which: int, level: float) -> None:
        """level  the step's time over the planned one"""
        spread, believed = self._spread, self._level(which)
        spread += self._drift
        column = spread[0] + spread[1 + which]
        known = float(column[0] + column[1 + which])
        miss, total = level - believed, known + self._scatter[which] * believed**2
        if miss**2 > OUTLIER**2 * total:
            total = abs(miss) * sqrt(total) / OUTLIER + known
        else:
            scatter = max(miss**2 - known, 0.0) / believed**2
            self._scatter[which] += (max(scatter, LEAST_SCATTER) - self._scatter[which]) / 32
        moved = column * (miss / total)
        self._mean += moved
        spread -= np.outer(column, column) / total
        spread[self._own] += (OWN_SHARE * float(moved[0])) ** 2

    def _follow_chance(self, which: int, num_tokens: int) -> None:
        setting = self._settings[which]
        if setting.speculates:
            kept = 1 - 1 / MEMORY
            self._accepted = kept * self._accepted + num_tokens - 1
            self._expected = kept * self._expected + setting.tokens_at(self._chance) - 1
            chance = self._chance * (self._accepted / self._expected) ** (1 / MEMORY)
            self._chance = min(max(chance, LEAST), MOST)

    def _level(self, which: int) -> float:
        """A step's time as it is believed to be, over the planned one."""
        return max(float(self._mean[0] + self._mean[1 + which]) + 1, LEAST)


def hope(mean: float, spread: float) -> float:
    """E max(0, x) of a normal x."""
    if spread <= 0:
        return max(mean, 0.0)
    z = mean / spread
    return spread * exp(-z * z / 2) / sqrt(2 * pi) + mean * erfc(-z / sqrt(2)) / 2
