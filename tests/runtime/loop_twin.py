"""The closed loop in matrices, as its docstring says it: the slow twin of the compiled one."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log, sqrt

import numpy as np

from planner.documents.estimate import hope
from planner.plans.settings import PlanSetting
from planner.policies.chain_policy import MOST_CHANCE, emitted
from planner.policies.compiled.closed_loop_kernel import (
    BLOCK,
    BLOCK_MS,
    BUDGET,
    CHANCE_KEPT,
    CHANCES,
    CHANCES_DRIFT,
    CREDIT,
    DRIFT,
    FIRST,
    HORIZON,
    KEPT,
    LEAST,
    LEAST_SCATTER,
    LOOKS,
    MISSED,
    MOST,
    MOVED,
    OUTLIER,
    PACE_MS,
    SCATTER,
    SHARES,
    SURPRISED,
    TOGETHER,
    UNEVEN,
)


class TwinLoop:
    """The same beliefs and choices as `runtime.closed_loop.ClosedLoop`."""

    def __init__(self, settings: Sequence[PlanSetting], num_texts: int = 1) -> None:
        number = len(settings)
        self._settings, self._num_texts = list(settings), num_texts
        self._planned_ms = np.array([setting.step_ms for setting in settings])
        further = 1 - self._planned_ms.min() / self._planned_ms
        self._rows = np.column_stack([np.ones(number), further, np.eye(number)])
        """A setting's row: what f, g and every r count for in its step's time."""
        self._mean = np.zeros(number + 2)
        self._spread, self._surprised, self._drift = (
            _covariance(each, number) for each in (FIRST, SURPRISED, DRIFT)
        )
        self._shares = _covariance(SHARES, number)
        pace = min(1.0, float(self._planned_ms.min()) / PACE_MS)
        self._drift *= pace
        self._budget = BUDGET * sqrt(pace)
        self._kept = np.array([*KEPT[:2], *[KEPT[2]] * number]) ** pace
        self._keeping = np.outer(self._kept, self._kept)
        self._off = 0
        self._scatter = [SCATTER**2] * number
        self._chance_rows = np.column_stack([np.ones(number), np.eye(number)])
        """A setting's row: what log c and every log w count for in its chance."""
        self._chances = np.zeros(number + 1)
        self._own = np.diag([0.0, *[CHANCES[1] ** 2] * number])
        self._doubt = self._own + np.diag([CHANCES[0] ** 2, *[0.0] * number])
        self._chance_kept = np.array([1.0, *[CHANCE_KEPT] * number])
        self._rate()
        self._credit = CREDIT * settings[0].step_ms
        self._which, self._missed, self._again = 0, 0, False
        self._noted: list[tuple[float, float]] = []
        self._looks = False
        self.steps = [0] * number
        """Steps so far, by setting."""
        self.looked_ms = 0.0
        """Time so far that looks at other settings cost, as far as is known."""
        self.factor = 1.0
        """A step's time now over the planned one, for the setting of the last step."""

    @property
    def chance(self) -> float:
        """c: a drafted token's chance of acceptance now over the planned one."""
        return exp(self._chances[0])

    def choose(self) -> int:
        """The setting of the next step, by its place."""
        if not self._noted and not self._again:
            self._which = self._chosen()
        return self._which

    def note(self, num_tokens: float, ms: float) -> None:
        """The step emitted `num_tokens` and took `ms` milliseconds."""
        self._noted.append((num_tokens, ms))
        long = sum(each for _, each in self._noted) >= BLOCK_MS
        unsettled = self._looks or self._again or not any(self.steps)
        if unsettled or long or len(self._noted) == BLOCK:
            for each in self._noted:
                self._take_in(*each)
            self._noted.clear()
            self.factor = exp(self._rows[self._which] @ self._mean)

    def _take_in(self, num_tokens: float, ms: float) -> None:
        which = self._which
        self.steps[which] += 1
        drafts, missed = self._settings[which].speculates, self._missed
        reads = drafts and missed >= MISSED
        self._again = self.steps[which] == 1 or reads
        self._missed = 0 if drafts else missed + num_tokens
        self._credit = min(self._credit + self._budget * ms, CREDIT * self._believed_ms(0))
        if self._again:
            most = CREDIT if reads else 1
            beyond = min(ms / (believed := self._believed_ms(which)) - 1, most) * believed
            self._credit -= beyond
            self.looked_ms += beyond
        else:
            self._follow_time(which, log(ms / self._planned_ms[which]))
        self._follow_chance(which, num_tokens)

    def _chosen(self) -> int:
        rates = np.log(self._emitted / self._planned_ms) - self._rows @ self._mean
        best = int(rates.argmax())
        shared = self._rows @ self._spread @ self._rows.T
        known = shared.diagonal()
        seen = np.sqrt(known + np.array(self._scatter) / LOOKS)
        told = np.hypot(np.abs(known - shared[best]) / seen, self._told_by_tokens(best)).tolist()
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
        self._looks = chosen != best
        return chosen

    def _told_by_tokens(self, best: int) -> np.ndarray:
        """float64 [settings]: how far `LOOKS` steps of each may move its rate beside the best one's
        by their tokens; 0 for one that drafts nothing."""
        alike = self._chance_rows @ self._doubt @ self._chance_rows.T
        told = np.zeros(len(self._settings))
        for other, slope in enumerate(self._by_chance.tolist()):
            if slope > 0:
                scatter = self._uneven(other) / LOOKS
                accepted = self._emitted[other] * slope  # by how much tokens change with log c
                both = alike[other, other] * slope - alike[other, best] * self._by_chance[best]
                told[other] = both * accepted / sqrt(accepted**2 * alike[other, other] + scatter)
        return told

    def _uneven(self, which: int) -> float:
        """The variance of a step's tokens."""
        return UNEVEN * (float(self._emitted[which]) - 1) / self._num_texts

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

    def _follow_chance(self, which: int, num_tokens: float) -> None:
        kept = self._chance_kept
        self._doubt = self._doubt * np.outer(kept, kept) + (1 - CHANCE_KEPT**2) * self._own
        self._doubt[0, 0] += CHANCES_DRIFT**2
        self._chances = self._chances * kept
        if self._by_chance[which] > 0:
            row = self._emitted[which] * self._by_chance[which] * self._chance_rows[which]
            column = self._doubt @ row
            total = row @ column + self._uneven(which)
            self._chances = self._chances + column * (num_tokens - self._emitted[which]) / total
            self._doubt = self._doubt - np.outer(column, column) / total
            self._chances[0] = np.clip(self._chances[0], log(LEAST), log(MOST))
        else:
            self._chances[0] *= KEPT[1]
        self._rate()

    def _rate(self) -> None:
        believed = zip(self._settings, np.exp(self._chance_rows @ self._chances), strict=True)
        chains = [(min(each.chain[0] * c, MOST_CHANCE), each.chain[1]) for each, c in believed]
        tokens, fewer = (
            np.log([emitted(chance / by, length) for chance, length in chains]) for by in (1.0, 1.1)
        )
        self._emitted, self._by_chance = np.exp(tokens), (tokens - fewer) / log(1.1)

    def _believed_ms(self, which: int) -> float:
        return float(self._planned_ms[which]) * exp(self._rows[which] @ self._mean)


def _covariance(deviations: Sequence[float], number: int) -> np.ndarray:
    """float64 [number + 2, number + 2]: of f, g and so many r_s."""
    shared, further, own = deviations
    made = np.diag([shared**2, further**2, *[own**2] * number])
    made[0, 1] = made[1, 0] = TOGETHER * shared * further
    return made
