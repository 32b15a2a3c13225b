"""Requests that decode together, taken as they come."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from threading import RLock
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from planner.documents.errors import PlannerError, in_one_line
from planner.plans.report import SharedSteps

from .inputs import checked_count
from .passes import together
from .reports import Run
from .session import Session
from .writer import Wanted, Writer

if TYPE_CHECKING:
    from .decode import Decoder, Generation


class Scheduler:
    """Rows that decode together, each a text of its own; who finds none free waits in turn.

    decoder   whose plan is carried out, or followed: then a loop for about as many texts chooses
              every step's setting from the table for as many
    max_rows  most texts at a time: so many caches are kept, and used again by texts that come later
    prefill_tokens  most tokens of prompts that one step reads, so that a long prompt does not hold
                    the other rows up for long; None: whole prompts

    In one `step` every row's draft passes are made with the others', level by level, then all trees
    are verified in one pass of the target.  A row that has just been given to a text reads the
    prompt in these passes.  How a step drafts is what the plan says for so many texts as take it,
    prompts that are read left out (`Plan.place_at`); it may be not at all.

    A text's law depends on its prompt alone.  Where the plan has one way of drafting, it is the
    text that `Decoder.generate` gives with its seed, up to rounding; where it has several, or the
    machine is followed, which of them drafts is up to the neighbours, and so is which text of that
    law it is, unless it is greedy.

    Threads may share it: they take turns at its steps.

        scheduler = Scheduler(decoder, max_rows=4)
        first, second = (scheduler.submit(prompt, seed=0) for prompt in prompts)
        for tokens in first:        # meanwhile the second comes along
            ...
    """

    def __init__(
        self, decoder: Decoder, *, max_rows: int = 8, prefill_tokens: int | None = None
    ) -> None:
        from .decode import Decoder

        if not isinstance(decoder, Decoder):
            raise PlannerError(
                f"decoder: got a {type(decoder).__name__}, expected a Decoder; Decoder.from_plan "
                "makes one"
            )
        self.decoder = decoder
        self.max_rows = checked_count(max_rows, "max_rows")
        if prefill_tokens is not None:
            checked_count(prefill_tokens, "prefill_tokens")
        self.prefill_tokens = prefill_tokens
        self.total_ms = 0.0
        self.turn = RLock()
        """Held by the thread that takes a step, or cancels a request."""
        tables = decoder.plan.tables
        self._ways = decoder.plan.carried_out(follow=decoder.loops is not None)
        """The ways of every row's steps: the plan's, or those of all of its tables."""
        self._starts = [0, *accumulate(map(len, tables))]
        """The place of each table's first among them."""
        self._waiting: deque[Request] = deque()
        self._rows: dict[Request, Writer] = {}
        self._free: list[Session] = []
        self._totals: dict[tuple[int, _Setting], _Totals] = defaultdict(_Totals)

    @property
    def num_rows(self) -> int:
        """Texts that are being decoded."""
        return len(self._rows)

    @property
    def num_waiting(self) -> int:
        """Requests that no row is free for."""
        return len(self._waiting)

    @property
    def shared_steps(self) -> list[SharedSteps]:
        """The steps so far in which no prompt was read, by the number of texts that took them and
        by their setting."""
        return [
            SharedSteps(
                num_rows=num_rows,
                setting=setting.place,
                followed=setting.followed,
                num_steps=totals.num_steps,
                num_tokens=totals.num_tokens,
                total_ms=totals.ms,
            )
            for (num_rows, setting), totals in sorted(self._totals.items())
        ]

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
        return self.take(wanted)

    def take(self, wanted: Wanted) -> Request:
        """A request for a continuation whose arguments were checked."""
        request = Request(self, wanted)
        self._waiting.append(request)
        return request

    def step(self) -> bool:
        """Take every row one step further; is any request left?

        A row that cannot go on fails alone.  Where a pass itself fails, all of its rows do, and
        the error is raised, as is one that left no row for a request, which fails.
        """
        with self.turn:
            return self._step()

    def _step(self) -> bool:
        start = perf_counter()
        while self._waiting and len(self._rows) < self.max_rows:
            self._admit(self._waiting.popleft())
        shares = self._shared_out()
        rows = [(request, self._rows[request]) for request in shares]
        reading = {request for request, row in rows if row.reads}
        setting = self._chosen(len(rows) - len(reading))
        try:
            found = together(
                [row.going_on(setting.way, shares[request]) for request, row in rows],
                last=self.decoder.target,
            )
        except BaseException as error:  # a person's interruption, too: caches are amid a step
            for request, _ in rows:
                self._fail(
                    request, f"request: the step that it was in failed ({in_one_line(error)})"
                )
            raise
        ms = 1e3 * (perf_counter() - start)
        self.total_ms += ms
        for (request, row), new in zip(rows, found, strict=True):
            if request not in reading and not isinstance(new, PlannerError):
                row.run.step_ms[-1] = ms
                if reading:
                    row.run.beside_prompts.add(len(row.run.step_ms) - 1)
            if isinstance(new, PlannerError):
                self._fail(request, str(new))
            elif row.ended:
                self._release(request)
        if rows and not reading:
            num_tokens = sum(len(new) for new in found if not isinstance(new, PlannerError))
            self._totals[len(rows), setting].add(num_tokens, ms)
            self._note([row for _, row in rows], found, ms)
        return bool(self._rows or self._waiting)

    def _chosen(self, num_texts: int) -> _Setting:
        """The setting of the next step, which so many texts take beside those that are read."""
        loops, place = self.decoder.loops, self.decoder.plan.place_at(num_texts)
        if loops is None or num_texts == 0:
            return _Setting(place, None, place)
        followed = loops.at(num_texts).choose()
        return _Setting(place, followed, self._starts[place] + followed)

    def _note(self, rows: Sequence[Writer], found: Sequence[object], ms: float) -> None:
        """Let the loop that chose a step's setting know of it, unless a row failed."""
        loops = self.decoder.loops
        if loops is None or any(isinstance(new, PlannerError) for new in found):
            return
        emitted = [len(row.run.steps[-1].tokens) for row in rows]
        loops.at(len(rows)).note(sum(emitted) / len(rows), ms)

    def _shared_out(self) -> dict[Request, int | None]:
        """Who takes part in the next step, with the most tokens to read of those whose prompt is
        not read yet: first come, first served."""
        left, shares = self.prefill_tokens, dict[Request, int | None]()
        for request, row in self._rows.items():
            if left != 0 or not row.reads:
                shares[request] = left
            if left and row.reads:
                left -= min(left, row.session.num_unread)
        return shares

    def _release(self, request: Request) -> None:
        """End the request with the tokens that it has; its row is the next one's."""
        request.done = True
        if request in self._rows:
            self._free.append(self._rows.pop(request).session)
        elif request in self._waiting:
            self._waiting.remove(request)

    def _admit(self, request: Request) -> None:
        """Give a request a row.  One that there is no room for fails, and the error is raised."""
        session = self._free.pop() if self._free else None
        try:
            row = self.decoder.writer(request.wanted, session, self._ways)
        except BaseException as error:
            self._fail(request, f"request: it was given no row ({in_one_line(error)})")
            raise
        self._rows[request], request.run = row, row.run

    def _fail(self, request: Request, fault: str) -> None:
        """End the request with an error, and forget its caches, in which anything may stand."""
        self._rows.pop(request, None)
        request.done, request.fault = True, fault


class _Setting(NamedTuple):
    """A step's setting: its place in the plan, in the table there if the machine is followed, and
    among every row's ways."""

    place: int
    followed: int | None
    way: int


@dataclass
class _Totals:
    """The sums over some steps."""

    num_steps: int = 0
    num_tokens: int = 0
    ms: float = 0.0

    def add(self, num_tokens: int, ms: float) -> None:
        """Count one more step."""
        self.num_steps += 1
        self.num_tokens += num_tokens
        self.ms += ms


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
            done = self.done  # asked first: another thread may add the last tokens meanwhile
            new = self.run.tokens[num_seen:]
            if new:
                num_seen += len(new)
                yield new
            elif done:
                break
            else:
                self._scheduler.step()
        if self.fault is not None:
            raise PlannerError(self.fault)

    def cancel(self) -> None:
        """Want no more of it; nothing happens if it is over."""
        with self._scheduler.turn:
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
