"""The passes that decoding asks for, made for one text or for several together.

What decodes a text is a generator that yields each pass it needs and is sent what comes out.  It so
is the same code whether the pass is its own or shared: only who answers differs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TypeVar

import torch

from planner.documents.document import PlannerError

from .cores import CORES
from .language_model import LanguageModel, PassInput, PassOutput, answers

T = TypeVar("T")
Asking = Generator[PassInput, PassOutput, T]
"""A computation that needs passes on the way to its result."""


@torch.inference_mode()
def alone(asking: Asking[T]) -> T:
    """The result, each pass made for it alone."""
    try:
        asked = _gone_on(partial(next, asking))
        while True:
            asked = _gone_on(partial(asking.send, asked.answer()))
    except StopIteration as end:
        result: T = end.value
        return result


@torch.inference_mode()
def together(
    askings: Sequence[Asking[T]],
    *,
    last: LanguageModel,
    answer: Callable[[Sequence[PassInput]], list[PassOutput]] | None = None,
) -> list[T | PlannerError]:
    """The result of each, in their order, or what it could not be had for.

    last    the model that is passed when nobody asks for another's passes any more
    answer  makes each pass; None: `answers`

    Passes of one model that several ask for at a time are one.
    """
    results: dict[int, T | PlannerError] = {}
    waiting: dict[int, PassInput] = {}

    def go_on(which: int, output: PassOutput | None) -> None:
        try:
            asking = askings[which]
            go = partial(next, asking) if output is None else partial(asking.send, output)
            waiting[which] = _gone_on(go)
        except StopIteration as end:
            results[which] = end.value
        except PlannerError as error:
            results[which] = error

    for which in range(len(askings)):
        go_on(which, None)
    while waiting:
        models = (asked.model for asked in waiting.values())
        model = next((each for each in models if each is not last), last)
        served = [which for which, asked in waiting.items() if asked.model is model]
        outputs = (answer or answers)([waiting.pop(which) for which in served])
        for which, output in zip(served, outputs, strict=True):
            go_on(which, output)
    return [results[which] for which in range(len(askings))]


def _gone_on(go: Callable[[], PassInput]) -> PassInput:
    """The next pass, and what leads to it in one thread where other programs hold cores: it is
    little, and any of several threads might have to wait for a core, and the others for it."""
    threads = torch.get_num_threads()
    if not CORES.too_few(threads):
        return go()
    torch.set_num_threads(1)
    try:
        return go()
    finally:
        torch.set_num_threads(threads)
