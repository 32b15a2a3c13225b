"""The closed loop: which of a plan's settings is the fastest as things are now?

A plan's table says of every setting s what a step takes, e_s, and emits, T_s, where it was
profiled; e_0 is a step without a draft.  Decoding follows how far the present is from that:

    log ms of a step of s  =  log e_s + f + (1 - e_0 / e_s) g + r_s      tokens of it  =  T_s(c w_s)

f and g, which all settings share, move freely (another process, another clock): f slows every step,
g what drafting and many tokens take beyond one, which suffers more where others want the cores.
r_s, a setting's own, is small and moves slowly (the table was wrong).  All are followed by one
Kalman filter, so that a step of one setting tells something of all.  It starts from the plan, which
is likely still right.  Where a step's time moves, g and every r_s may have moved by a share of
that; three steps in a row that are further off, to the same side, than the filter holds possible
make it believe that all is possible.  What nobody looks at returns to the plan, g in thousands of
steps and r_s in a hundred (in as many times two milliseconds, where a step is shorter): an error is
not kept for want of a look.

Steps that are that far off, but not in a row, are somebody's who took a core for a moment, which
happens the more often the longer a step takes, and so favours no setting: they count the less, the
further off they are.

c multiplies the chance that a drafted token is accepted in this text, w_s in this setting; a chain
of it that emits T_s gives T_s(c w_s).  A filter of their own follows their logarithms: c moves
freely, w_s little and slowly.  Tokens count as much as their scatter allows.  While nothing
is drafted, c too returns to the plan, in thousands of steps.

The next step is the setting's with the most tokens per millisecond, or a look at another one, which
costs what it is believed to be slower, and is worth what it may turn out to be faster,

    E max(0, gain)  =  sigma phi(mu / sigma) + mu Phi(mu / sigma),     log gain ~ N(mu, sigma^2),

for 100 steps.  sigma is how far two steps of it may move that belief, by their times and by their
tokens: it grows while nobody looks, and is small where they would tell little, as of a setting that
is well known.  Looking takes half a percent of the time in the long run, at most, and less of it
where steps are shorter than two milliseconds, as then all but the text moves the less from step to
step; a step that finds nothing warm is not believed, but what it takes beyond belief is counted.

To believe and choose takes some millionths of a second, which only the shortest steps notice: while
the best setting is in use, steps are taken in together, every sixteen milliseconds.

Decisions depend on the past alone, so that the text's distribution is the target's whatever they
are.

Where several texts decode together, all of them have one setting in a step.  How long that takes
depends on how many they are, so there is a loop of its own for every doubling of their number.
Where nobody planned for about so many, the table's times say little: for one text a pass over seven
tokens may take a quarter longer than over one, for eight texts three times as long.  So each of its
settings is taken for three steps there, and what they took is where the loop begins.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.plans.plan import Plan
from planner.plans.report import Followed, FollowedTogether
from planner.plans.settings import PlanSetting
from planner.policies.compiled.closed_loop_kernel import (
    BLOCK,
    BLOCK_MS,
    LOOKED,
    LOOKS,
    STEPS,
    WHICH,
    advance,
    new_beliefs,
)


class ClosedLoop:
    """The beliefs about a plan's settings, and the choice of the next step's.

    settings   at least one, the plan's own first
    num_texts  that decode together, at least: their steps' tokens scatter less
    known      their times are those of about so many texts; otherwise each is taken for a few steps
               first, and these are what is believed and followed then

        loop = ClosedLoop(plan.settings)
        which = loop.choose()                          # decode a step with settings[which]
        loop.note(num_tokens=3, ms=12.5)
    """

    def __init__(
        self, settings: Sequence[PlanSetting], num_texts: int = 1, *, known: bool = True
    ) -> None:
        self._settings, self._num_texts = settings, num_texts
        self._noted: list[tuple[float, float]] = []
        """Tokens and milliseconds of the steps that are not taken in yet."""
        self._left = 0.0
        """Milliseconds until they are."""
        self.factor = 1.0
        """A step's time now over the planned one, for the setting of the last step."""
        self.chance = 1.0
        """c: a drafted token's chance of acceptance now over the planned one."""
        self._found: list[list[float]] = [[] for _ in settings]
        """Milliseconds of the first steps of each, while times are not known."""
        self._begin(np.array([setting.step_ms for setting in settings]))
        advance(tuple(each.copy() for each in self._arrays), np.ones((1, 2)))  # compile it now
        self._unknown = [] if known else [*reversed(range(len(settings)))]
        """The settings whose times are still to be found, the next one last."""
        if self._unknown:
            self._which = 0

    def _begin(self, step_ms: np.ndarray) -> None:
        chances, lengths = np.array([each.chain for each in self._settings], np.float64).T
        self._beliefs = new_beliefs(step_ms, chances, lengths, self._num_texts)
        self._arrays = tuple(self._beliefs)
        self._which = int(self._beliefs.numbers[WHICH])
        self._longer = step_ms / [each.step_ms for each in self._settings]
        """float64 [settings]: the times to begin with over the planned ones."""

    @property
    def known(self) -> bool:
        """Are all settings' times known by now?"""
        return not self._unknown

    @property
    def steps(self) -> list[int]:
        """Steps so far, by setting."""
        if self._unknown:
            return [len(each) for each in self._found]
        steps = [int(each) for each in self._beliefs.settings[STEPS]]
        steps[self._which] += len(self._noted)
        return steps

    @property
    def looked_ms(self) -> float:
        """Time so far that looks at other settings cost, as far as is known."""
        return max(float(self._beliefs.numbers[LOOKED]), 0.0)

    @property
    def followed(self) -> Followed:
        """The part of a report that says what was done."""
        return Followed(
            steps=self.steps, factor=self.factor, chance=self.chance, looked_ms=self.looked_ms
        )

    def choose(self) -> int:
        """The setting of the next step, by its place."""
        return self._which

    def note(self, num_tokens: float, ms: float) -> None:
        """The step emitted `num_tokens` (a text's, on average) and took `ms` milliseconds."""
        if self._unknown:
            self._note_first(ms)
            return
        self._noted.append((num_tokens, ms))
        self._left -= ms
        if self._left <= 0 or len(self._noted) == BLOCK:
            longer = self._longer[self._which]
            noted = np.array(self._noted, np.float64)
            self._noted.clear()
            which, factor, self.chance, best = advance(self._arrays, noted)
            self.factor = factor * longer
            self._which, self._left = which, BLOCK_MS if best else 0.0

    def _note_first(self, ms: float) -> None:
        """Another step of a setting whose time is not known; the first finds nothing warm."""
        self._found[self._which].append(ms)
        if len(self._found[self._which]) <= LOOKS:
            return
        self._unknown.pop()
        if self._unknown:
            self._which = self._unknown[-1]
            return
        tokens = np.array([each.tokens_per_step for each in self._settings])
        step_ms = np.array([sum(each[1:]) / LOOKS for each in self._found])
        self._begin(step_ms)
        self._beliefs.settings[STEPS] = 1 + LOOKS
        took = sum(map(sum, self._found))
        best = (1 + LOOKS) * float(tokens.sum() * (step_ms / tokens).min())
        self._beliefs.numbers[LOOKED] = took - best


class ClosedLoops:
    """The closed loops of a plan, by the number of texts that decode together.

    plan  with a table of settings; where one of its `by_batch` has none, the plan's own goes there,
          too

    A loop is made when it is first asked for, and goes on learning wherever it is asked for again.

        loops = ClosedLoops(plan)
        loops.at(1) is loops.at(1)                     # likewise 3 and 4, 5 to 8, ...
    """

    def __init__(self, plan: Plan) -> None:
        self._plan, self._tables = plan, plan.tables
        self._sizes = [(way if way.settings else plan).batch_size for way in plan.ways]
        """The number of texts that each table was made for."""
        self._loops: dict[tuple[int, int], ClosedLoop] = {}
        self.at(1)  # compile it now

    def at(self, num_texts: int) -> ClosedLoop:
        """The loop of so many texts, at least one; it chooses from the table for as many."""
        place, most = self._plan.place_at(num_texts), _doubled(num_texts)
        if (place, most) not in self._loops:
            known = _doubled(self._sizes[place]) == most
            loop = ClosedLoop(self._tables[place], most // 2 + 1, known=known)
            self._loops[place, most] = loop
        return self._loops[place, most]

    @property
    def followed(self) -> list[FollowedTogether]:
        """The part of a report that says what was done where texts decoded together."""
        return [
            FollowedTogether(num_rows=most, setting=place, **loop.followed.model_dump())
            for (place, most), loop in sorted(self._loops.items())
            if any(loop.steps)
        ]


def _doubled(num_texts: int) -> int:
    """The power of 2 that is as many, or next above."""
    return 1 << (num_texts - 1).bit_length()
