"""A target larger than its device's memory: layers whose weights are read anew in every pass.

Two places in memory take turns.  While a layer is computed with the weights in one of them, those
of the next layer are read into the other; behind the last comes the first again, so that reading
goes on while the draft is at work.  A pass takes as long as reading all that is not kept, over
however many tokens it goes: this is where large trees pay (Chen et al., 2024, "Sequoia", table 5).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from planner.documents.errors import PlannerError

from .cache import RowCache
from .language_model import PassInput, PassOutput
from .models import HuggingFaceModel

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

GB = 10**9
LINE = 64
"""Bytes: weights begin at multiples of it."""


@dataclass(frozen=True)
class Placement:
    """The places of a model's parts.

    memory    GB that the layers were given
    layers    name of the module that holds them
    num_kept  of them, the first ones, stay on the device
    modules   name -> the device, or "disk" for a layer that is read when it is needed
    """

    memory: float
    layers: str
    num_kept: int
    modules: dict[str, torch.device | str]


def placed(
    config: PreTrainedConfig, memory: float, device: torch.device, dtype: torch.dtype
) -> Placement | None:
    """The layers that go into `memory` GB on the device, the others beside it; None if all go in.

    An even number is read, since two places take turns.  What is no layer is kept, and not counted,
    nor are the two places.  Raises PlannerError for a model whose layers cannot be told apart.
    """
    from transformers import AutoModelForCausalLM

    text = config.get_text_config(decoder=True)
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(config)
    found = [
        (name, list(module))
        for name, module in empty.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == text.num_hidden_layers
    ]
    if len(found) != 1:
        raise PlannerError(
            f"target memory: got a {text.model_type} model with {len(found)} lists of layers, "
            "expected one; load it whole"
        )
    ((name, layers),) = found
    sizes = [sum(weight.numel() for weight in layer.parameters()) for layer in layers]
    num_read = sum(end * dtype.itemsize > memory * GB for end in accumulate(sizes))
    num_read = min(num_read + num_read % 2, len(layers) // 2 * 2)
    if num_read == 0:
        return None
    num_kept = len(layers) - num_read
    weights = empty.named_parameters(remove_duplicate=False)  # an output layer may be the embedding
    modules: dict[str, torch.device | str] = {
        weight.rpartition(".")[0]: device
        for weight, _ in (*weights, *empty.named_buffers())
        if not weight.startswith(f"{name}.")
    }
    for place in range(len(layers)):
        modules[f"{name}.{place}"] = device if place < num_kept else "disk"
    return Placement(memory, name, num_kept, modules)


class WeightFile:
    """A safetensors file that stays open: whatever is at its path later, it is read as it was.

    starts  bytes in front of each tensor, by its name
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115  closed when nobody has it
        size = int.from_bytes(self._file.read(8), "little")
        header = json.loads(self._file.read(size))
        header.pop("__metadata__", None)
        self.starts = {name: 8 + size + told["data_offsets"][0] for name, told in header.items()}
        self._written = self._last_written()

    def fill(self, left: memoryview, start: int) -> None:
        """Read what stands at byte `start` and behind it, as much as there is room for.

        Raises PlannerError where the file was written to since it was opened, or cannot be read.
        """
        try:
            self._file.seek(start)
            while left:
                num_bytes = self._file.readinto(left)  # two gigabytes at a time, at most
                if not num_bytes:
                    break
                left = left[num_bytes:]
        except OSError as error:
            raise PlannerError(
                f"{self._path}: cannot be read any more: {error.strerror}; load the model again"
            ) from None
        if left or self._last_written() != self._written:
            raise PlannerError(f"{self._path}: was written to meanwhile; load the model again")

    def _last_written(self) -> tuple[int, int]:
        found = os.fstat(self._file.fileno())
        return found.st_mtime_ns, found.st_size


@dataclass(frozen=True)
class SavedWeight:
    """A weight that is not in its place.

    entries  in the precision that it was saved in; on a CPU mapped from the file, and not read yet
    file     the file, and where in it the entries begin, in bytes; None: they are in memory
    """

    entries: Tensor
    file: tuple[WeightFile, int] | None = None

    def put(self, place: Tensor) -> None:
        """Read the weight into `place`, of its shape.

        What is mapped would be read a few pages at a time, and more of it than is wanted.
        """
        if self.file is None:
            place.copy_(self.entries, non_blocking=True)
            return
        file, start = self.file
        entries = place if place.dtype == self.entries.dtype else torch.empty_like(self.entries)
        file.fill(entries.view(-1).view(torch.uint8).numpy().data, start)
        if entries is not place:
            place.copy_(entries)


class ReadLayer:
    """A layer whose weights are put into their place when it is needed.

    saved  name in the layer -> weight
    place  bytes, uint8, on the device; another layer's are there in between
    """

    def __init__(self, layer: nn.Module, saved: Mapping[str, SavedWeight], place: Tensor) -> None:
        self.layer = layer
        self._weights: list[tuple[Tensor, SavedWeight]] = []
        start = 0
        for name, weight in list(layer.named_parameters()):
            size = weight.numel() * weight.dtype.itemsize
            own = place[start : start + size].view(weight.dtype).view(weight.shape)
            module, _, last = name.rpartition(".")
            setattr(layer.get_submodule(module), last, nn.Parameter(own, requires_grad=False))
            self._weights.append((own, saved[name]))
            start += _in_lines(size)

    @staticmethod
    def num_bytes(layer: nn.Module) -> int:
        """Room for the weights of a layer."""
        sizes = (weight.numel() * weight.dtype.itemsize for weight in layer.parameters())
        return sum(map(_in_lines, sizes))

    @torch.no_grad()
    def read(self) -> None:
        """Put the weights into their place."""
        for own, saved in self._weights:
            saved.put(own)


def _in_lines(size: int) -> int:
    return -(-size // LINE) * LINE


class StreamedLayers:
    """Layers that are read one ahead of the one that is computed, in their order.

    On a CPU a thread reads from the files that the model was saved in; on a GPU a stream copies
    from memory of the host, which the pass waits for there.
    """

    def __init__(self, layers: Sequence[ReadLayer], device: torch.device) -> None:
        self._layers = layers
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="weights")
        for place, each in enumerate(layers):
            each.layer.register_forward_pre_hook(partial(self._before, place))
        self._coming = 0, self._begun(0)

    def _begun(self, place: int) -> Future[None] | torch.cuda.Event:
        """The end of the reading that begins."""
        layer = self._layers[place]
        if self._stream is None:
            return self._thread.submit(layer.read)
        # What computes with the layer that is in that place has been asked for already.
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        with torch.cuda.stream(self._stream):
            layer.read()
            return self._stream.record_event()

    def _before(self, place: int, *_: Any) -> None:
        """Have the weights of a layer that is about to be computed, and begin with the next."""
        if self._coming[0] != place:  # a pass was broken off
            self._end()
            self._coming = place, self._begun(place)
        self._end()
        following = (place + 1) % len(self._layers)
        self._coming = following, self._begun(following)

    def _end(self) -> None:
        coming = self._coming[1]
        if isinstance(coming, Future):
            coming.result()
        elif self._stream is not None:  # of the GPU that computes, not of the current one
            torch.cuda.current_stream(self._stream.device).wait_event(coming)


@dataclass(frozen=True)
class Streaming:
    """A model's weights that are read in every pass.

    memory  GB that its layers were given
    words   how many of them are read
    saved   name in the model -> weight where it lies
    turn    held by the thread whose pass reads them
    """

    memory: float
    words: str
    saved: dict[str, Tensor]
    turn: Lock = field(default_factory=Lock)


class StreamedModel(HuggingFaceModel):
    """A `HuggingFaceModel` that `stream` was applied to; it makes one pass at a time."""

    def __init__(self, model: PreTrainedModel, *, name: str | None = None) -> None:
        self._streaming: Streaming = model.streaming  # which passes that probe it ask for
        super().__init__(model, name=name)
        streaming = self._streaming
        self.memory, self.saved = streaming.memory, streaming.saved
        self.attention += f", {streaming.words}"

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: RowCache,
        visible: Tensor | None = None,
        *,
        num_logits: int | None = None,
    ) -> Tensor:
        with self._streaming.turn:
            return super().forward(tokens, positions, cache, visible, num_logits=num_logits)

    def forward_batch(self, inputs: Sequence[PassInput]) -> list[PassOutput]:
        """One pass for all, as `HuggingFaceModel` makes it."""
        with self._streaming.turn:
            return super().forward_batch(inputs)


def stream(model: PreTrainedModel, placement: Placement) -> None:
    """Have a model, loaded as `placement` says, read its layers by `StreamedLayers`."""
    from accelerate.hooks import remove_hook_from_module

    layers = list(model.get_submodule(placement.layers).children())
    device = model.get_input_embeddings().weight.device
    read = layers[placement.num_kept :]
    opened = cache(WeightFile)
    saved = [dict(_saved(layer, device, opened)) for layer in read]
    remove_hook_from_module(model, recurse=True)
    most = max(map(ReadLayer.num_bytes, read))
    places = [torch.empty(most, dtype=torch.uint8, device=device) for _ in range(2)]
    made = [
        ReadLayer(layer, weights, places[number % 2])
        for number, (layer, weights) in enumerate(zip(read, saved, strict=True))
    ]
    StreamedLayers(made, device)
    model.streaming = Streaming(
        memory=placement.memory,
        words=f"{len(read)} of {len(layers)} layers read in each pass",
        saved={
            f"{placement.layers}.{number}.{name}": weight.entries
            for number, weights in enumerate(saved, placement.num_kept)
            for name, weight in weights.items()
        },
    )


def _saved(
    layer: nn.Module, device: torch.device, opened: Callable[[str], WeightFile]
) -> Iterator[tuple[str, SavedWeight]]:
    """Each weight of a layer where accelerate has found it."""
    from safetensors import safe_open

    for path, module in layer.named_modules():
        for name, weight in module.named_parameters(recurse=False):
            kept = module._hf_hook.weights_map
            begun: tuple[WeightFile, int] | None = None
            found = kept.dataset.index.get(f"{kept.prefix}{name}", {})
            if "safetensors_file" in found:
                own, file = found["weight_name"], found["safetensors_file"]
                entries = safe_open(file, "pt").get_tensor(own)
                begun = opened(file), opened(file).starts[own]
            else:
                entries = kept[name]
            if device.type == "cuda":
                entries, begun = entries.to(weight.dtype).pin_memory(), None
            yield f"{path}.{name}".removeprefix("."), SavedWeight(entries, begun)
