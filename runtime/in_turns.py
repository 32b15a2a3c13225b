"""The same texts decoded by several decoders in turns, so that what disturbs one disturbs all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from planner.documents.document import PlannerError
from planner.plans.report import Together

from .reports import Run
from .scheduler import Scheduler
from .writer import Wanted, Writer

if TYPE_CHECKING:
    from .decode import Decoder

WARM_UP_TOKENS = 8
Told = Callable[[int, int], None] | None
"""A function that is called with (texts done, texts in all), if there is one."""


def one_by_one(
    decoders: Sequence[Decoder],
    wanted: Sequence[Wanted],
    progress: Told,
    see: Callable[[int, Writer], None] | None = None,
) -> list[list[Run]]:
    """The runs of each decoder, which take turns by the prompt.

    see  is shown the first decoder's writer after each of its steps, and the text's number
    """
    runs: list[list[Run]] = [[] for _ in decoders]
    for each in decoders:
        list(each.writer(_few(wanted[0])).steps())
    for index, text in enumerate(wanted):
        for which in range(len(decoders))[:: 1 if index % 2 == 0 else -1]:
            seen = None if see is None or which > 0 else partial(see, index)
            runs[which].append(_written(decoders[which], text, seen))
        if progress is not None:
            progress(index + 1, len(wanted))
    return runs


def _written(decoder: Decoder, text: Wanted, see: Callable[[Writer], None] | None) -> Run:
    """The run of one text, of which nothing but that is left."""
    writer = decoder.writer(text)
    for _ in writer.steps():
        if see is not None:
            see(writer)
    return writer.run


def by_batches(
    decoders: Sequence[Decoder], wanted: Sequence[Wanted], batch_size: int, progress: Told
) -> tuple[list[list[Run]], Together]:
    """The runs of each decoder, which take turns by the shared step, and how these went: the first
    decoder's."""
    for each in decoders:
        warm = Scheduler(each, max_rows=batch_size)
        for text in wanted[:batch_size]:
            warm.take(_few(text))
        while warm.step():
            pass
    schedulers = [Scheduler(each, max_rows=batch_size) for each in decoders]
    requests = [[each.take(text) for text in wanted] for each in schedulers]
    left = list(schedulers)
    while left:
        next_one = min(left, key=lambda each: each.total_ms)
        if not next_one.step():
            left.remove(next_one)
        if progress is not None and next_one is schedulers[-1]:
            progress(sum(request.done for request in requests[-1]), len(wanted))
    for index, request in enumerate(chain.from_iterable(requests)):
        if request.fault is not None:
            raise PlannerError(f"prompts[{index % len(wanted)}]: {request.fault}")
    first, *others = schedulers
    together = Together(
        batch_size=batch_size,
        total_ms=first.total_ms,
        baseline_ms=others[0].total_ms if others else None,
        steps=first.shared_steps,
        followed=[] if decoders[0].loops is None else decoders[0].loops.followed,
    )
    return [[request.run for request in each] for each in requests], together


def _few(text: Wanted) -> Wanted:
    """The first tokens of a text, which are decoded to warm up and forgotten."""
    return replace(text, max_new_tokens=min(WARM_UP_TOKENS, text.max_new_tokens))
