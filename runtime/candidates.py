"""What a growing tree's rule is shown of a draft pass: drawn probabilities and features of q."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor

from planner.growth.base import COLLISION, ENTROPY, FEATURES, MAX_PROBABILITY, SCORE

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
    drawn, found = _looked_at(
        q.numpy(), tokens, distinct, "max_probability" in columns, "entropy" in columns,
        "collision" in columns,
    )  # fmt: skip
    if score is not None and "score" in columns:
        found[:, SCORE] = score.numpy()
    return Shown(tokens, drawn, found)


@njit(cache=True, fastmath={"reassoc", "contract"})
def _looked_at(
    q: np.ndarray, tokens: np.ndarray, distinct: bool, largest: bool, entropy: bool, collision: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(drawn values, features), of the latter only what is asked for."""
    drawn = np.empty(tokens.shape, np.float64)
    found = np.full((len(q), 4), np.nan)
    for row in range(len(q)):
        left = 1.0
        for rank in range(tokens.shape[1]):
            mass = np.float64(q[row, tokens[row, rank]])
            if not distinct:
                drawn[row, rank] = mass
            elif left > NOTHING_LEFT:
                drawn[row, rank] = min(mass / left, 1.0)
            else:
                drawn[row, rank] = 1.0 if mass > 0 else 0.0
            left -= mass
        if largest:
            found[row, MAX_PROBABILITY] = q[row].max()
        if collision:
            total = 0.0
            for mass in q[row]:
                total += np.float64(mass) * np.float64(mass)
            found[row, COLLISION] = total
        if entropy:
            total = 0.0
            for mass in q[row]:
                if mass > 0:
                    total -= mass * np.log(mass)
            found[row, ENTROPY] = total
    return drawn, found


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
