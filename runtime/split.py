"""A process's part of a model whose weights transformers has split over several processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from .models import HuggingFaceModel

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def num_parts(model: PreTrainedModel) -> int:
    """Processes that the weights of `model` are split over; 1: it is whole."""
    weights = model.parameters()
    parts = (each.device_mesh.size() for each in weights if isinstance(each, DTensor))
    return next(parts, 1)


class PartModel(HuggingFaceModel):
    """A part that is asked what the others are asked, at the same time, and answers as they do:
    what each computes is added up within the layers (Shoeybi et al., 2019, "Megatron-LM")."""

    def __init__(self, model: PreTrainedModel, *, name: str | None = None) -> None:
        super().__init__(model, name=name)
        self.num_processes = num_parts(model)
        self.attention += f", {self.num_processes} processes"
        self.saved = WholeWeights(model)


class WholeWeights(Mapping[str, Tensor]):
    """Weights by their names, each put together from all processes, which ask for it together."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._parts = dict(model.named_parameters())

    def __getitem__(self, name: str) -> Tensor:
        part = self._parts[name]
        if not isinstance(part, DTensor):
            return part
        with torch.inference_mode(False), torch.no_grad():  # torch 2.11 cannot in that mode
            whole: Tensor = part.full_tensor()
        return whole

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)
