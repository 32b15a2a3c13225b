"""What a growing tree's rule is shown of a draft pass: drawn probabilities and features of q."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from planner.policies.compiled.drawn import drawn_and_features, drawn_values
from planner.policies.policy import FEATURES, SCORE


class Shown(NamedTuple):
    """One draft pass over w nodes, on the host."""

    tokens: np.ndarray
    """int64 [w, K]: the candidates, in the order drawn."""
    drawn: np.ndarray
    """float64 [w, K]: see `drawn_values`."""
    features: np.ndarray
    """float64 [w, 4]: the columns of `FEATURES`; NaN in those that are not asked for."""


def shown(
    q: Tensor,
    candidates: Tensor,
    columns: Sequence[str],
    score: Tensor | None = None,
    *,
    distinct: bool,
) -> Shown:
    """What the rule sees: from a GPU in one transfer, on the host in one compiled pass.

    q           float [w, V]  rows summing to 1
    candidates  int64 [w, K]  drawn from it
    columns     which of `FEATURES` are asked for
    score       float [w]     a head's word on the nodes themselves, if there is one
    distinct    were they drawn without replacement, or taken by rank?
    """
    if q.device.type == "cpu":
        return _shown_on_host(q, candidates, columns, score, distinct)
    num = candidates.shape[1]  # tokens travel as float64, which holds them exactly
    packed = torch.cat((candidates.double(), q.gather(-1, candidates).double(),
                        features(q, columns, score)), dim=-1).cpu().numpy()  # fmt: skip
    all_features = np.full((len(packed), len(FEATURES)), np.nan)
    all_features[:, [FEATURES.index(column) for column in columns]] = packed[:, 2 * num :]
    drawn = drawn_values(packed[:, num : 2 * num], distinct=distinct)
    return Shown(packed[:, :num].astype(np.int64), drawn, all_features)


def _shown_on_host(
    q: Tensor, candidates: Tensor, columns: Sequence[str], score: Tensor | None, distinct: bool
) -> Shown:
    """The same, after a model's pass has left nothing of the interpreter in the caches: dozens of
    small operations would take tens of microseconds each."""
    tokens = candidates.numpy()
    drawn, found = drawn_and_features(
        q.numpy(), tokens, distinct, "max_probability" in columns, "entropy" in columns,
        "collision" in columns,
    )  # fmt: skip
    if score is not None and "score" in columns:
        found[:, SCORE] = score.double().numpy()
    return Shown(tokens, drawn, found)


def features(q: Tensor, columns: Sequence[str], score: Tensor | None = None) -> Tensor:
    """float64 [w, len(columns)], as above; a score is NaN where there is none."""
    if not columns:
        return q.new_zeros((len(q), 0), dtype=torch.float64)
    return torch.stack([_COLUMNS[column](q, score).double() for column in columns], dim=-1)


def _score(q: Tensor, score: Tensor | None) -> Tensor:
    return q.new_full((len(q),), torch.nan) if score is None else score


_COLUMNS: dict[str, Callable[[Tensor, Tensor | None], Tensor]] = {
    "max_probability": lambda q, score: q.amax(-1),
    "entropy": lambda q, score: torch.special.entr(q).sum(-1),
    "collision": lambda q, score: q.square().sum(-1),
    "score": _score,
}
