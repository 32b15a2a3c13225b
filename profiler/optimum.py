"""The best acceptance possible on the texts that acceptance is measured on, recorded beside it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from planner.documents.optimal_acceptance import OptimalAcceptance, PromptOptimum
from planner.documents.sampling import Sampling
from planner.verifiers.transport import (
    MIN_ROWS,
    optimal_with_replacement,
    optimal_without_replacement,
)

from .journal import Piece

NUM_CHILDREN = 8
"""The most children of one node that the optimum is computed for."""
ONE_IN = 48
"""One in so many positions is enough without replacement, which costs some thirty times as much."""
CHEAP_ELEMENTS = 1 << 12
"""Probabilities of one text, positions x vocabulary, for which it costs next to nothing."""


class Optimum:
    """Collects the optimum over one text after the other.

    Independent children: at every position.  Without replacement: at positions evenly spaced.
    """

    def __init__(self) -> None:
        self._with: list[Tensor] = []
        self._without: list[Tensor] = []
        self._waiting: list[tuple[Tensor, Tensor]] = []
        self._num_positions: list[int] = []

    def add(self, p: Tensor, q: Tensor) -> None:
        """One text's target and draft distributions, float [positions, V] each."""
        self._with.append(optimal_with_replacement(p, q, min(NUM_CHILDREN, p.shape[-1])))
        chosen = evenly_spaced(len(p), num_chosen(*p.shape))
        self._num_positions.append(len(chosen))
        self._waiting.append((p[chosen], q[chosen]))
        if sum(len(rows) for rows, _ in self._waiting) >= MIN_ROWS:
            self._work_off()

    def piece(self) -> Piece:
        """Arrays by name, none if no text was added; K = min(8, V) children at most.

        "optimal/with"           float64 [all positions, K]     all children independent
        "optimal/without"        float64 [chosen positions, K]  no child drawn twice
        "optimal/num_positions"  int64 [texts]                  chosen positions of each text
        """
        if self._waiting:
            self._work_off()
        if not self._with:
            return {}
        return {
            "optimal/with": torch.cat(self._with).cpu().numpy(),
            "optimal/without": torch.cat(self._without).cpu().numpy(),
            "optimal/num_positions": np.array(self._num_positions),
        }

    def _work_off(self) -> None:
        p, q = (torch.cat(rows) for rows in zip(*self._waiting, strict=True))
        self._waiting = []
        most = min(NUM_CHILDREN, p.shape[-1])
        self._without.append(optimal_without_replacement(p, q, most))


def num_chosen(num_positions: int, vocab_size: int) -> int:
    """The number of a text's positions where the optimum without replacement is computed."""
    share = -(-num_positions // ONE_IN)
    return max(share, min(num_positions, CHEAP_ELEMENTS // vocab_size))


def evenly_spaced(num_positions: int, num_chosen: int) -> list[int]:
    """The middles of `num_chosen` equal parts of 0..num_positions-1; all if there are as many."""
    return [(2 * i + 1) * num_positions // (2 * num_chosen) for i in range(num_chosen)]


def optimal_entries(piece: Piece, sampling: Sampling) -> list[OptimalAcceptance]:
    """The profile's entries for what `Optimum.piece` returned; none where nothing was recorded."""
    if "optimal/with" not in piece:
        return []
    return [
        OptimalAcceptance(
            sampling=sampling,
            replacement=replacement,
            num_children=piece[name].shape[1],
            prompts=[
                PromptOptimum(num_positions=len(rows), acceptance=mean_rates(rows))
                for rows in np.split(piece[name], np.cumsum(num_positions)[:-1])
            ],
        )
        for replacement, name, num_positions in (
            (True, "optimal/with", piece["num_positions"]),
            (False, "optimal/without", piece["optimal/num_positions"]),
        )
    ]


def mean_rates(rows: np.ndarray) -> list[float]:
    """The mean of float64 [positions, columns] over positions, as a profile writes it."""
    return [round(rate, 7) for rate in rows.mean(axis=0).tolist()]
