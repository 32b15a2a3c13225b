"""A target whose weights are split over several processes, each with a device of its own.

The process that decodes leads: it drafts, decides and keeps time as it would alone.  The others
follow: before each pass of the target they are told what it reads, and which of their rows were
kept since the last one, and compute their part of it.  Nothing else is done twice, so no two
processes can come to different decisions.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from planner.documents.errors import PlannerError, in_one_line

from .cache import RowCache, TreeCache
from .language_model import PassInput, PassOutput, answers
from .loading import (
    checked_attention,
    checked_device,
    checked_dtype,
    load_config,
    load_part,
    with_attention,
)
from .models import HuggingFaceModel
from .processes import Processes, num_launched, start

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_running: list[Processes] = []
"""The processes of this one's models, one set at a time."""


def load_parallel(
    name: str | Path,
    num_processes: int,
    *,
    device: str = "cpu",
    dtype: str = "auto",
    attention: str = "auto",
) -> TensorParallelModel:
    """The model in the folder or hub repository `name`, split over `num_processes` processes.

    device  "cuda": each process takes a GPU; "cpu": they share this machine's cores
    others  as for `load_model`

    The processes are started here, on this machine.  Under torchrun they are those that it has
    started: the first one goes on from here, and the others stay here until it has ended.
    Raises PlannerError in one line when the model cannot be found, split, loaded or served.

    >>> target = load_parallel("meta-llama/Llama-2-70b-hf", 4, device="cuda")  # doctest: +SKIP
    """
    place = _checked_place(device, num_processes)
    checked_attention(attention)
    checked_dtype(dtype)
    if dtype == "int8":
        raise PlannerError("tensor parallel: got dtype int8, expected float32, bfloat16 or float16")
    _check_heads(name, num_processes)
    processes = _processes(num_processes, place)
    if processes.rank > 0:
        follow(processes)
        raise SystemExit(0)
    part = Loading(str(name), dtype, attention, torch.get_num_threads())
    return TensorParallelModel(processes, part)


def _checked_place(device: str, num_processes: int) -> torch.device:
    place = checked_device(device)
    if num_processes < 2:
        raise PlannerError(
            f"tensor parallel: got {num_processes}, expected 2 processes or more; load_model loads "
            "a model into one"
        )
    has_gpus = torch.cuda.is_available()
    if place.index is not None or has_gpus != (place.type == "cuda"):
        expected = "cuda, of which each process takes one" if has_gpus else "cpu"
        raise PlannerError(f"tensor parallel: got device {device}, expected {expected}")
    if has_gpus and num_launched() == 1 and torch.cuda.device_count() < num_processes:
        raise PlannerError(
            f"tensor parallel: got {num_processes} processes, expected at most "
            f"{torch.cuda.device_count()}, as many as there are GPUs"
        )
    return place


def _check_heads(name: str | Path, num_processes: int) -> None:
    """Raise PlannerError unless each process gets as many heads as the others."""
    config = load_config(name).get_text_config(decoder=True)
    for field in ("num_attention_heads", "num_key_value_heads"):
        number = getattr(config, field, None)
        if number is not None and number % num_processes:
            raise PlannerError(
                f"tensor parallel: got {num_processes} processes for {name}, whose {field} are "
                f"{number}; expected a divisor of that"
            )


def _processes(size: int, device: torch.device) -> Processes:
    if _running and _running[0].over:
        _running.clear()
    if not _running:
        _running.append(start(size, device))
    if _running[0].size != size:
        raise PlannerError(
            f"tensor parallel: got {size} processes, expected {_running[0].size}, over which "
            "another model is split; close that one first"
        )
    return _running[0]


class Loading(NamedTuple):
    """The model that every process shall load its part of, and how: as for `load_parallel`."""

    name: str
    dtype: str
    attention: str
    num_threads: int

    def from_anywhere(self) -> Loading:
        """The same for processes that this one has started, in the folder that it was in then."""
        folder = Path(self.name)
        is_theirs = num_launched() > 1 or not folder.is_dir()
        return self if is_theirs else self._replace(name=str(folder.absolute()))


class ToldRows(NamedTuple):
    """One text's rows of a pass, on the host.

    cache    the number that it goes by; made, with room for `capacity` rows, when it is new
    changes  what happened to it since the last pass: methods of `TreeCache`, and their arguments
    """

    cache: int
    capacity: int
    changes: list[tuple[str, tuple[Any, ...]]]
    tokens: np.ndarray
    positions: np.ndarray
    visible: np.ndarray | None
    num_logits: int | None


class Told(NamedTuple):
    """The followers' task with a model, which goes by that number: to load it, or to have it read
    rows of texts."""

    model: int
    what: Loading | list[ToldRows]


class FollowedCache(TreeCache):
    """The leader's part of a cache, with what the others have yet to do with theirs."""

    def __init__(self, num_layers: int, capacity: int, processes: Processes) -> None:
        super().__init__(num_layers, capacity)
        self.number, self.capacity = processes.number_of(self), capacity
        self.changes: list[tuple[str, tuple[Any, ...]]] = []

    def keep_rows(self, prefix: int, rows: Sequence[int]) -> None:
        self.changes.append(("keep_rows", (prefix, list(rows))))
        super().keep_rows(prefix, rows)

    def rewind(self, length: int) -> None:
        self.changes.append(("rewind", (length,)))
        super().rewind(length)


class TensorParallelModel:
    """A split model, as the process that leads has it; a `LanguageModel`."""

    def __init__(self, processes: Processes, part: Loading) -> None:
        self._processes = processes
        self._number = processes.number_of(self)
        with processes.turn, self._in_step():
            self._tell(part.from_anywhere())
            own = _part(processes, part)
        self._own = own
        self.info = own.info
        self.vocab_size, self.max_positions = own.vocab_size, own.max_positions
        self.device, self.dtype, self.attention = own.device, own.dtype, own.attention
        self.stop_tokens, self.generation_config = own.stop_tokens, own.generation_config
        self.num_processes = processes.size

    def close(self) -> None:
        """End the other processes, and with them every model that is split over them, once the pass
        of another thread is over."""
        with self._processes.turn:
            self._processes.end()

    def new_cache(self, capacity: int) -> FollowedCache:
        return FollowedCache(self.info.num_layers or 0, capacity, self._processes)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: RowCache,
        visible: Tensor | None = None,
        *,
        num_logits: int | None = None,
    ) -> Tensor:
        return self._pass(tokens, positions, cache, visible, num_logits).logits

    def forward_with_hidden(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: RowCache,
        visible: Tensor | None = None,
        *,
        num_logits: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        answer = self._pass(tokens, positions, cache, visible, num_logits, True)
        assert answer.hidden is not None
        return answer.logits, answer.hidden

    def _pass(self, *asked: Any) -> PassOutput:
        return self.forward_batch([PassInput(self._own, *asked)])[0]

    def forward_batch(self, inputs: Sequence[PassInput]) -> list[PassOutput]:
        """One pass for all, as `HuggingFaceModel` makes it."""
        turn = self._processes.turn
        with turn, _interruptions_wait(), self._in_step():
            self._tell([_rows(asked) for asked in inputs])
            return answers([asked._replace(model=self._own) for asked in inputs])

    def _tell(self, what: Loading | list[ToldRows]) -> None:
        self._processes.tell(Told(self._number, what))

    @contextmanager
    def _in_step(self) -> Iterator[None]:
        """Something that all do at the same time.  What ends it halfway ends the others, which wait
        for what does not come."""
        if self._processes.over:
            raise PlannerError(
                "target: the processes that it is split over have ended; load it again"
            )
        try:
            yield
        except AgreedError as error:
            raise PlannerError(str(error)) from None
        except BaseException as error:
            self._processes.end(in_step=False)
            if isinstance(error, PlannerError) or not isinstance(error, Exception):
                raise
            raise PlannerError(
                "target: the processes that it is split over have ended, as one of them failed; "
                f"load it again ({in_one_line(error)})"
            ) from None


class AgreedError(PlannerError):
    """An error that all processes have come to, so that they are still in step."""


def _part(processes: Processes, part: Loading) -> HuggingFaceModel:
    """This process's part of a model that all load now.

    Raises PlannerError, in every process, where one of them cannot.
    """
    loaded: PreTrainedModel | PlannerError
    try:
        loaded = load_part(part.name, processes.size, dtype=part.dtype, attention=part.attention)
    except PlannerError as error:
        loaded = error
    said = processes.all_say(str(loaded) if isinstance(loaded, PlannerError) else None)
    for fault in filter(None, said):
        raise AgreedError(fault)
    assert not isinstance(loaded, PlannerError)
    try:
        own = with_attention(loaded, part.attention, name=part.name)
    except PlannerError as error:
        raise AgreedError(str(error)) from None
    own.info  # noqa: B018  which they work out together
    return own


def _rows(asked: PassInput) -> ToldRows:
    cache = asked.cache
    assert isinstance(cache, FollowedCache)
    changes, cache.changes = cache.changes, []
    tokens, positions, visible = (
        None if each is None else each.cpu().numpy()
        for each in (asked.tokens, asked.positions, asked.visible)
    )
    assert tokens is not None
    assert positions is not None
    return ToldRows(
        cache.number, cache.capacity, changes, tokens, positions, visible, asked.num_logits
    )


class Follower:
    """The parts of models, and of their caches, that a process that follows has, by numbers."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self.held: dict[int, HuggingFaceModel | TreeCache] = {}

    def forget(self, numbers: Sequence[int]) -> None:
        """Let go of what is gone in the process that leads."""
        for number in numbers:
            self.held.pop(number, None)

    def do(self, told: Told) -> None:
        """Load the part of a model, or make a pass."""
        if isinstance(told.what, Loading):
            torch.set_num_threads(told.what.num_threads)
            self.held[told.model] = _part(self._processes, told.what)
            return
        model = self.held[told.model]
        assert isinstance(model, HuggingFaceModel)
        answers([self._input(model, text) for text in told.what])

    def _input(self, model: HuggingFaceModel, text: ToldRows) -> PassInput:
        if text.cache not in self.held:
            self.held[text.cache] = model.new_cache(text.capacity)
        cache = self.held[text.cache]
        assert isinstance(cache, TreeCache)
        for method, arguments in text.changes:
            getattr(cache, method)(*arguments)
        tokens, positions, visible = (
            None if each is None else torch.from_numpy(each).to(model.device)
            for each in (text.tokens, text.positions, text.visible)
        )
        assert tokens is not None
        assert positions is not None
        return PassInput(model, tokens, positions, cache, visible, text.num_logits)


def follow(processes: Processes) -> None:
    """Do what the leader tells until it ends.  Raises PlannerError where that fails."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    follower = Follower(processes)
    while True:
        try:
            gone, told = processes.told()
        except RuntimeError:  # the leader is not there any more
            break
        if told is None:
            break
        follower.forget(gone)
        try:
            follower.do(told)
        except AgreedError:
            pass
        except Exception as error:
            raise PlannerError(f"process {processes.rank}: {in_one_line(error)}") from error
    processes.end()


@contextmanager
def _interruptions_wait() -> Iterator[None]:
    """Let Ctrl-C wait until a pass has ended: broken off, it would leave the others waiting.  A
    second one does not wait."""
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or before is signal.SIG_IGN:  # as of a program in a shell's background
        yield
        return
    came: list[int] = []

    def later(number: int, frame: object) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)

    signal.signal(signal.SIGINT, later)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
    if came:
        signal.raise_signal(came[0])
