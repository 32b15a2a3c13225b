"""What a growing tree's rule is shown of a draft pass: drawn probabilities and features of q."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from planner.growth.base import FEATURES

NOTHING_LEFT = 1e-6
"""Mass below which the rest of a float32 distribution is rounding: its sum is off by as much."""


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
    """What the rule sees, in one transfer.

    q           float [w, V]  rows summing to 1
    candidates  int64 [w, K]  drawn from it
    columns     which of `FEATURES` are asked for
    score       float [w]     a head's word on the nodes themselves, if there is one
    distinct    were they drawn without replacement, or taken by rank?

    Tokens travel as float64, which holds them exactly.
    """
    num = candidates.shape[1]
    packed = torch.cat((candidates.double(), q.gather(-1, candidates).double(),
                        features(q, columns, score)), dim=-1).cpu().numpy()  # fmt: skip
    all_features = np.full((len(packed), len(FEATURES)), np.nan)
    all_features[:, [FEATURES.index(column) for column in columns]] = packed[:, 2 * num :]
    drawn = drawn_values(packed[:, num : 2 * num], distinct=distinct)
    return Shown(packed[:, :num].astype(np.int64), drawn, all_features)


def drawn_values(mass: np.ndarray, *, distinct: bool) -> np.ndarray:
    """Probability of each candidate under what was left of q when it was drawn.

    mass  float64 [w, K]  of the candidates under q, in the order drawn

    Returns float64 [w, K]: q(x_r) / (1 - sum of q over the earlier ones) for distinct candidates,
    q(x_r) for independent ones; 0 for tokens that are drawn only because q is used up.
    """
    if not distinct:
        return mass
    left = 1 - (mass.cumsum(axis=-1) - mass)
    drawn = np.where(left > NOTHING_LEFT, mass / np.maximum(left, NOTHING_LEFT), mass > 0)
    return np.minimum(drawn, 1)


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
