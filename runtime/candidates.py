"""What a growing tree's rule is shown of a draft pass: drawn probabilities and features of q."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from planner.growth.base import COLLISION, ENTROPY, FEATURES, MAX_PROBABILITY, SCORE

NOTHING_LEFT = 1e-6
"""Mass below which the rest of a float32 distribution is rounding: its sum is off by as much."""


def drawn_values(q: Tensor, candidates: Tensor, *, distinct: bool) -> Tensor:
    """Probability of each candidate under what was left of q when it was drawn.

    q           float [w, V]  rows summing to 1
    candidates  int64 [w, K]  in the order drawn
    distinct    were they drawn without replacement, or taken by rank?

    Returns float64 [w, K]: q(x_r) / (1 - sum of q over the earlier ones) for distinct candidates,
    q(x_r) for independent ones; 0 for tokens that are drawn only because q is used up.
    """
    mass = q.gather(-1, candidates).double()
    if not distinct:
        return mass
    left = 1 - (mass.cumsum(-1) - mass)
    drawn = torch.where(left > NOTHING_LEFT, mass / left, (mass > 0).double())
    return drawn.clamp_(max=1)


def features(q: Tensor, columns: Sequence[str], score: Tensor | None = None) -> Tensor:
    """float64 [w, 4], the columns of `FEATURES`; NaN in those that are not asked for.

    q      float [w, V]  rows summing to 1
    score  float [w]     a head's word on the nodes themselves, if there is one
    """
    found = torch.full((len(q), len(FEATURES)), torch.nan, dtype=torch.float64, device=q.device)
    if FEATURES[MAX_PROBABILITY] in columns:
        found[:, MAX_PROBABILITY] = q.amax(-1)
    if FEATURES[ENTROPY] in columns:
        found[:, ENTROPY] = torch.special.entr(q).sum(-1)
    if FEATURES[COLLISION] in columns:
        found[:, COLLISION] = q.square().sum(-1)
    if FEATURES[SCORE] in columns and score is not None:
        found[:, SCORE] = score
    return found


def to_host(
    candidates: Tensor, drawn: Tensor, shown: Tensor
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens int64 [w, K], drawn values float64 [w, K] and features float64 [w, F] on the host, in
    one transfer.  Tokens travel as float64, which holds them exactly."""
    num = candidates.shape[1]
    packed = torch.cat((candidates.double(), drawn, shown), dim=-1).cpu().numpy()
    return packed[:, :num].astype(np.int64), packed[:, num : 2 * num], packed[:, 2 * num :]
