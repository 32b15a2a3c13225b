"""The rule whose children follow from the draft's distribution without any chance."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import Traces


def trace_topk(
    p: Tensor, q: Tensor, emitted: Tensor, num_ranks: int, rng: torch.Generator
) -> Traces:
    """Children: the most probable under q; the target samples.  Exact.

    p, q     float [N, V]
    emitted  int64 [N]
    """
    children = q.topk(num_ranks, dim=-1).indices
    return Traces(p.gather(-1, children).float(), (children == emitted[:, None]).float())
