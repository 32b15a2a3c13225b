"""Candidates that a draft pass shows to a policy: drawn probabilities and features of q."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from planner.policies.compiled.drawn import drawn_and_features, drawn_values
from planner.policies.policy import FEATURES, SCORE


class Seen(NamedTuple):
    """One draft pass over w nodes, on the host.

    drawn     float64 [w, K]  see `drawn_values`
    features  float64 [w, 4]  the columns of `FEATURES`; NaN in those that are not asked for
    """

    drawn: np.ndarray
    features: np.ndarray


def shown(
    q: Tensor,
    candidates: Tensor,
    columns: Sequence[str],
    score: Tensor | None = None,
    *,
    distinct: bool,
) -> Seen:
    """The numbers that a policy sees: from a GPU in one transfer, on the host in one pass.

    q           float [w, V]  rows summing to 1
    candidates  int64 [w, K]  drawn from it
    columns     which of `FEATURES` are asked for
    score       float [w]     a head's word on the nodes themselves, if there is one
    distinct    were they drawn without replacement, or taken by rank?
    """
    show = _shown_on_host if q.device.type == "cpu" else shown_from_device
    return show(q, candidates, columns, score, distinct)


def shown_from_device(
    q: Tensor, candidates: Tensor, columns: Sequence[str], score: Tensor | None, distinct: bool
) -> Seen:
    """`shown` of tensors on a GPU."""
    num = candidates.shape[1]
    seen = q.gather(-1, candidates).double(), features(q, columns, score)
    packed = torch.cat(seen, dim=-1).cpu().numpy()
    all_features = np.full((len(packed), len(FEATURES)), np.nan)
    all_features[:, [FEATURES.index(column) for column in columns]] = packed[:, num:]
    drawn = drawn_values(packed[:, :num], distinct=distinct)
    return Seen(drawn, all_features)


def _shown_on_host(
    q: Tensor, candidates: Tensor, columns: Sequence[str], score: Tensor | None, distinct: bool
) -> Seen:
    """The same, after a model's pass has left nothing of the interpreter in the caches: dozens of
    small operations would take tens of microseconds each."""
    drawn, found = drawn_and_features(
        q.numpy(), candidates.numpy(), distinct, "max_probability" in columns, "entropy" in columns,
        "collision" in columns,
    )  # fmt: skip
    if score is not None and "score" in columns:
        found[:, SCORE] = score.double().numpy()
    return Seen(drawn, found)


def features(q: Tensor, columns: Sequence[str], score: Tensor | None = None) -> Tensor:
    """float64 [w, len(columns)], as above; a score is NaN where there is none."""
    if not columns:
        return q.new_zeros((len(q), 0), dtype=torch.float64)
    return torch.stack([_COLUMNS[column](q, score).double() for column in columns], dim=-1)


_COLUMNS: dict[str, Callable[[Tensor, Tensor | None], Tensor]] = {
    "max_probability": lambda q, score: q.amax(-1),
    "entropy": lambda q, score: torch.special.entr(q).sum(-1),
    "collision": lambda q, score: q.square().sum(-1),
    "score": lambda q, score: q.new_full((len(q),), torch.nan) if score is None else score,
}
