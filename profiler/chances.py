"""How often candidates like these are accepted: learnt while trees are recorded."""

from __future__ import annotations

import torch
from torch import Tensor

DRAWN_EDGES = (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
RANKS_TOLD_APART = 4
OWN_WORD_TRIALS = 8.0
"""How many trials the draft's own word counts for, in each class of drawn probability and rank."""


class Chances:
    """P(accepted | tried) by rank and drawn probability, learnt from the trees recorded so far.

    It only chooses which places are recorded, so that policies will ask for them: the draft's own
    word may be far off.
    """

    def __init__(self, device: torch.device) -> None:
        self._edges = torch.tensor(DRAWN_EDGES, dtype=torch.float64, device=device)
        middles = torch.tensor((0.0, *DRAWN_EDGES)) / 2 + torch.tensor((*DRAWN_EDGES, 1.0)) / 2
        own_word = middles.double().to(device).expand(RANKS_TOLD_APART, -1)
        self._tried = torch.full_like(own_word, OWN_WORD_TRIALS)
        self._accepted = own_word * OWN_WORD_TRIALS

    def of(self, drawn: Tensor) -> Tensor:
        """Float64 [w, K]: P(accepted | tried) of candidates drawn with these probabilities."""
        return (self._accepted / self._tried)[self._cells(drawn)]

    def note(self, drawn: Tensor, taken: Tensor) -> None:
        """Drawn values float64 [w, K] at nodes on the text, and which rank was accepted there."""
        ranks = torch.arange(drawn.shape[1], device=drawn.device)
        tried = ((taken[:, None] < 0) | (ranks <= taken[:, None])).double()
        cells = self._cells(drawn)
        self._tried.index_put_(cells, tried, accumulate=True)
        self._accepted.index_put_(cells, (ranks == taken[:, None]).double(), accumulate=True)

    def _cells(self, drawn: Tensor) -> tuple[Tensor, Tensor]:
        ranks = torch.arange(drawn.shape[1], device=drawn.device).clamp(max=RANKS_TOLD_APART - 1)
        return ranks.expand(drawn.shape), torch.bucketize(drawn, self._edges)
