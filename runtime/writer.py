"""One text being written: a plan's steps, up to what ends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from planner.plans.plan import Plan
from planner.policies import Policy
from planner.verifiers import VERIFIERS

from .closed_loop import ClosedLoop
from .ending import Ending
from .passes import Asking, alone
from .reports import Run
from .session import Session


@dataclass(frozen=True)
class Wanted:
    """A continuation as it was asked for, checked."""

    prompt: Sequence[int]
    max_new_tokens: int
    ending: Ending
    seed: int


class Writer:
    """The continuation of one text, step by step.

    session   what it is decoded in, with a source of randomness of its own
    policies  of the plan, or of each of its settings, if a `loop` chooses between these

    `run` is what has been recorded of it so far.
    """

    def __init__(
        self,
        session: Session,
        wanted: Wanted,
        plan: Plan,
        policies: Sequence[Policy],
        loop: ClosedLoop | None = None,
    ) -> None:
        self.session = session
        self.wanted = wanted
        self.run = Run(num_prompt_tokens=len(wanted.prompt))
        self.ended = False
        self._policies, self._loop = policies, loop
        self._verifiers = [VERIFIERS[each.verifier] for each in plan.settings] if loop else []
        self._begun = False

    def steps(self) -> Iterator[list[int]]:
        """The new tokens of every step until the text ends."""
        while not self.ended:
            tokens = alone(self.going_on())
            if tokens:
                yield tokens

    def going_on(self) -> Asking[list[int]]:
        """The next step's new tokens; the first time there are none, and the prompt is read."""
        if self._begun:
            return (yield from self._step())
        self._begun = True
        self.run.prefill_ms = yield from self.session.prefilling(self.wanted.prompt)
        return []

    def _step(self) -> Asking[list[int]]:
        run, loop = self.run, self._loop
        start = perf_counter()
        which = 0
        if loop is not None:
            which = loop.choose()
            self.session.use(self._verifiers[which])
        left = self.wanted.max_new_tokens - len(run.tokens)
        step = yield from self.session.stepping(self._policies[which], max_tokens=left)
        new, ended = self.wanted.ending.cut(run.tokens, step.tokens)
        run.tokens.extend(new)
        run.logprobs.extend(step.logprobs[: len(new)])
        run.steps.append(step)
        run.tokens_by_step.append(len(new))
        run.step_ms.append(1e3 * (perf_counter() - start))
        if loop is not None:
            loop.note(len(step.tokens), run.step_ms[-1])
            run.followed.append((which, loop.factor, loop.chance))
            run.step_ms[-1] = 1e3 * (perf_counter() - start)
        self.ended = ended or len(new) >= left
        return new
