"""One text being written: a plan's steps, up to what ends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from planner.policies import Policy
from planner.verifiers import Verifier

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
    settings  of the steps: the plan's ways, or its table, if a `loop` chooses from that

    `run` is what has been recorded of it so far.  The text `reads` until its prompt is read.
    """

    def __init__(
        self,
        session: Session,
        wanted: Wanted,
        settings: Sequence[tuple[Verifier, Policy]],
        loop: ClosedLoop | None = None,
    ) -> None:
        self.session = session
        self.wanted = wanted
        self.run = Run(num_prompt_tokens=len(wanted.prompt))
        self.reads, self.ended = True, False
        self._settings, self._loop = settings, loop
        session.begin(wanted.prompt)

    def steps(self) -> Iterator[list[int]]:
        """The new tokens of every step until the text ends."""
        self.session.prepare(max(policy.num_nodes for _, policy in self._settings))
        while not self.ended:
            tokens = alone(self.going_on())
            if tokens:
                yield tokens

    def going_on(self, which: int = 0, most: int | None = None) -> Asking[list[int]]:
        """The next step's new tokens; there are none while the prompt is read.

        which  the step's setting by its place, unless a loop chooses
        most   tokens of the prompt to read at a time; None: all
        """
        if not self.reads:
            return (yield from self._step(which))
        self.run.prefill_ms += yield from self.session.reading(most)
        self.reads = self.session.num_unread > 0
        return []

    def _step(self, which: int) -> Asking[list[int]]:
        run, loop = self.run, self._loop
        start = perf_counter()
        if loop is not None:
            which = loop.choose()
        verifier, policy = self._settings[which]
        self.session.use(verifier)
        left = self.wanted.max_new_tokens - len(run.tokens)
        step = yield from self.session.stepping(policy, max_tokens=left)
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
