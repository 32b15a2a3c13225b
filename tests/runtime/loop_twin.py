"""The closed loop in matrices, as its docstring says it: the slow twin of the compiled one."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log, sqrt

import numpy as np

from planner.documents.estimate import hope
from planner.plans.settings import PlanSetting
from planner.policies.compiled.closed_loop_kernel import (
    BUDGET,
    CHANCES,
    CREDIT,
    DRIFT,
    FIRST,
    HORIZON,
    KEPT,
    LEAST,
    LEAST_SCATTER,
    LOOKS,
    MEMORY,
    MISSED,
    MOST,
    MOVED,
    OUTLIER,
    SAME,
    SCATTER,
    SHARES,
    SURPRISED,
    TOGETHER,
)


class TwinLoop:
    """The same beliefs and choices as `runtime.closed_loop.ClosedLoop`."""

    def __init__(self, settings: Sequence[PlanSetting]) -> None:
        number = len(settings)
        self._settings = list(settings)
        self._planned_ms = np.array([setting.step_ms for setting in settings])
        further = 1 - self._planned_ms.min() / self._planned_ms
        self._rows = np.column_stack([np.ones(number), further, np.eye(number)])
        """A setting's row: what f, g and every r count for in its step's time."""
        self._mean = np.zeros(number + 2)
        self._spread, self._surprised, self._drift = (
            _covariance(each, number) for each in (FIRST, SURPRISED, DRIFT)
        )
        self._shares = _covariance(SHARES, number)
        self._kept = np.array([*KEPT[:2], *[KEPT[2]] * number])
        self._keeping = np.outer(self._kept, self._kept)
        self._off = 0
        self._scatter = [SCATTER**2] * number
        self._chance = 1.0
        self._weight = CHANCES * max(settings[0].tokens_per_step - 1, 0.1)
        self._rate_at(self._chance)
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
        rates = np.log(self._emitted / self._planned_ms) - self._rows @ self._mean
        best = int(rates.argmax())
        shared = self._rows @ self._spread @ self._rows.T
        known = shared.diagonal()
        seen = np.sqrt(known + np.array(self._scatter) / LOOKS)
        told = np.hypot(np.abs(known - shared[best]) / seen, self._told_of_chance(best)).tolist()
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

    def _told_of_chance(self, best: int) -> np.ndarray:
        """float64 [settings]: how far `LOOKS` steps of each may move its rate beside the best one's
        by what they tell of c."""
        drafted = LOOKS * np.maximum(self._emitted - 1, 0.0)
        learned = np.sqrt(drafted / (self._weight * (self._weight + drafted)))
        return learned * np.abs(self._by_chance - self._by_chance[best])

    def _follow_time(self, which: int, longer: float) -> None:
        """longer  the logarithm of the step's time over the planned one"""
        row, spread = self._rows[which], self._spread
        spread *= self._keeping
        spread += self._drift
        self._mean *= self._kept
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
                spread += self._surprised
                column, known, total = self._gain(which)
        moved = column * (miss / total)
        self._mean += moved
        spread -= np.outer(column, column) / total
        spread += self._shares * float(row[:2] @ moved[:2]) ** 2

    def _gain(self, which: int) -> tuple[np.ndarray, float, float]:
        """The covariance of all that is followed with a step's time, and the variance of
        that time, without the step's own scatter and with it."""
        column = self._spread @ self._rows[which]
        known = float(self._rows[which] @ column)
        return column, known, known + self._scatter[which]

    def _follow_chance(self, which: int, num_tokens: int) -> None:
        """The evidence for c weighs as much as so many accepted tokens; it is forgotten, and soon
        known anew, also while nothing is drafted."""
        self._weight = (1 - 1 / MEMORY) * self._weight
        if not self._settings[which].speculates:
            return
        expected = self._settings[which].tokens_at(self._chance) - 1
        self._weight += expected
        chance = self._chance * exp((num_tokens - 1 - expected) / self._weight)
        self._chance = min(max(chance, LEAST), MOST)
        if abs(self._chance / self._rated_chance - 1) > SAME:
            self._rate_at(self._chance)

    def _rate_at(self, chance: float) -> None:
        self._rated_chance = chance
        tokens, more = (
            np.log([each.tokens_at(c) for each in self._settings]) for c in (chance, 1.1 * chance)
        )
        self._emitted, self._by_chance = np.exp(tokens), (more - tokens) / log(1.1)

    def _believed_ms(self, which: int) -> float:
        return float(self._planned_ms[which]) * exp(self._rows[which] @ self._mean)


def _covariance(deviations: Sequence[float], number: int) -> np.ndarray:
    """float64 [number + 2, number + 2]: of f, g and so many r_s."""
    shared, further, own = deviations
    made = np.diag([shared**2, further**2, *[own**2] * number])
    made[0, 1] = made[1, 0] = TOGETHER * shared * further
    return made
