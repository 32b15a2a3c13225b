"""Requests that decode together, taken as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from planner.documents.document import PlannerError

from .inputs import checked_count
from .passes import together
from .reports import Run
from .session import Session
from .writer import Wanted, Writer

if TYPE_CHECKING:
    from .decode import Decoder, Generation


class Scheduler:
    """Rows that decode together, each a text of its own; who finds none free waits in turn.

    decoder   whose plan is carried out; not one that follows the machine
    max_rows  most texts at a time: so many caches are kept, and used again by texts that come later

    In one `step` every row's draft passes are made with the others', level by level, then all trees
    are verified in one pass of the target.  A row that has just been given to a text reads the
    prompt in these passes.  What a text is depends on its prompt and its seed alone, up to
    rounding: it is the one that `Decoder.generate` gives.

        scheduler = Scheduler(decoder, max_rows=4)
        first, second = (scheduler.submit(prompt, seed=0) for prompt in prompts)
        for tokens in first:        # meanwhile the second comes along
            ...
    """

    def __init__(self, decoder: Decoder, *, max_rows: int = 8) -> None:
        if decoder.loop is not None:
            raise PlannerError(
                "decoder: got one that follows the machine, expected one that carries its plan out "
                "to the letter: settings are compared by times of one text; make it without follow"
            )
        self.decoder = decoder
        self.max_rows = checked_count(max_rows, "max_rows")
        self._waiting: deque[Request] = deque()
        self._rows: dict[Request, Writer] = {}
        self._free: list[Session] = []

    @property
    def num_rows(self) -> int:
        """Texts that are being decoded."""
        return len(self._rows)

    @property
    def num_waiting(self) -> int:
        """Requests that no row is free for."""
        return len(self._waiting)

    def submit(
        self,
        input_ids: Sequence[int] | Tensor,
        *,
        max_new_tokens: int = 128,
        seed: int = 0,
        stop_tokens: Sequence[int] | None = None,
        stop_strings: Sequence[str] = (),
    ) -> Request:
        """A request for the continuation that `Decoder.generate` gives with these arguments.

        Raises PlannerError as that does.
        """
        wanted = self.decoder.wanted(
            input_ids, max_new_tokens=max_new_tokens, seed=seed, stop_tokens=stop_tokens,
            stop_strings=stop_strings,
        )  # fmt: skip
        request = Request(self, wanted)
        self._waiting.append(request)
        return request

    def step(self) -> bool:
        """Take every row one step further; is any request left?

        A row that cannot go on fails alone.  Where a pass itself fails, all of its rows do, and
        the error is raised.
        """
        while self._waiting and len(self._rows) < self.max_rows:
            self._admit(self._waiting.popleft())
        rows = list(self._rows.items())
        try:
            found = together([row.going_on() for _, row in rows], last=self.decoder.target)
        except BaseException as error:  # a person's interruption, too: caches are amid a step
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
            for request, _ in rows:
                self._fail(request, f"request: the step that it was in failed ({reason})")
            raise
        for (request, row), new in zip(rows, found, strict=True):
            if isinstance(new, PlannerError):
                self._fail(request, str(new))
            elif row.ended:
                self._release(request)
        return bool(self._rows or self._waiting)

    def _release(self, request: Request) -> None:
        """End the request with the tokens that it has; its row is the next one's."""
        request.done = True
        if request in self._rows:
            self._free.append(self._rows.pop(request).session)
        elif request in self._waiting:
            self._waiting.remove(request)

    def _admit(self, request: Request) -> None:
        session = self._free.pop() if self._free else None
        row = self._rows[request] = self.decoder.writer(request.wanted, session)
        request.run = row.run

    def _fail(self, request: Request, fault: str) -> None:
        """End the request with an error, and forget its caches, in which anything may stand."""
        del self._rows[request]
        request.done, request.fault = True, fault


class Request:
    """A continuation that a `Scheduler` was asked for.

    done   is it over, one way or another?
    fault  what it failed by, if it did
    run    what has been recorded of it so far

    Whoever iterates over it gets its new tokens as they come, and takes the scheduler's steps
    while there are none.
    """

    def __init__(self, scheduler: Scheduler, wanted: Wanted) -> None:
        self.wanted = wanted
        self.run = Run(num_prompt_tokens=len(wanted.prompt))
        self.done = False
        self.fault: str | None = None
        self._cancelled = False
        self._scheduler = scheduler

    @property
    def tokens(self) -> list[int]:
        """The new tokens so far."""
        return list(self.run.tokens)

    def __iter__(self) -> Iterator[list[int]]:
        """New tokens since the last ones, from the first on; raises PlannerError if it failed."""
        num_seen = 0
        while True:
            new = self.run.tokens[num_seen:]
            if new:
                num_seen += len(new)
                yield new
            elif self.done:
                break
            else:
                self._scheduler.step()
        if self.fault is not None:
            raise PlannerError(self.fault)

    def cancel(self) -> None:
        """Want no more of it; nothing happens if it is over."""
        if not self.done:
            self._cancelled = True
            self._scheduler._release(self)

    def generation(self) -> Generation:
        """The whole continuation, decoded to its end.  Raises PlannerError if it failed or was
        cancelled.

        Times in its report are those of steps that were shared with other rows.
        """
        for _ in self:
            pass
        if self._cancelled:
            raise PlannerError(
                f"request: got one that was cancelled after {len(self.run.tokens)} tokens, "
                "expected one that was decoded to its end; what there is of it is in `tokens`"
            )
        return self._scheduler.decoder.generation(self.run, self.wanted.seed)
