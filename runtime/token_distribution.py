"""Logits to the distribution that is sampled from: repetition penalty, temperature, top-k, top-p,
then min-p."""

from __future__ import annotations

import torch
from torch import Tensor

from planner.documents.sampling import Sampling
from tree_kernels.layers import is_softened, softened

LEAST_TEMPERATURE = 1e-30
"""Below it quotients leave float32; at it only the tokens of the very largest logit are left."""


def distribution(logits: Tensor, sampling: Sampling, held: Tensor | None = None) -> Tensor:
    """The distribution that `sampling` makes of `logits`.

    logits  float [..., V]
    held    bool [..., V]: the tokens that each row's text holds (`held_tokens`), which a repetition
            penalty needs; None where there is none

    Returns float [..., V], float32 (float64 for float64 logits), rows summing to 1.  The steps and
    their order are those of Hugging Face's warpers: top-k keeps ties with the k-th token, top-p
    keeps the token that crosses the nucleus' mass.  Temperature 0 puts all mass on the most
    probable token, whatever the others say.
    """
    if not (sampling.is_greedy or sampling.penalizes or sampling.cuts) and is_softened(logits):
        return softened(logits, max(sampling.temperature, LEAST_TEMPERATURE))
    logits = _penalized(logits, sampling, held)
    if sampling.is_greedy:
        best = logits.argmax(-1, keepdim=True)
        return torch.zeros_like(logits).scatter_(-1, best, 1.0)
    if sampling.temperature != 1:
        logits = logits / max(sampling.temperature, LEAST_TEMPERATURE)
    if 0 < sampling.top_k < logits.shape[-1]:
        kept = logits.topk(sampling.top_k, dim=-1).values
        logits = logits.masked_fill(logits < kept[..., -1:], -torch.inf)
    if sampling.top_p < 1:
        # Drop the least probable tokens as long as what is dropped stays within 1 - top_p.
        ascending, order = logits.sort(dim=-1, descending=False)
        least = ascending.softmax(-1).cumsum(-1) <= 1 - sampling.top_p
        least[..., -1] = False
        dropped = torch.zeros_like(least).scatter_(-1, order, least)
        logits = logits.masked_fill(dropped, -torch.inf)
    if sampling.min_p > 0:
        probs = logits.softmax(-1)
        small = probs < sampling.min_p * probs.amax(-1, keepdim=True)
        logits = logits.masked_fill(small, -torch.inf)
    return logits.softmax(-1)


def most_probable(logits: Tensor, sampling: Sampling, held: Tensor | None = None) -> Tensor:
    """int64 [...]: the tokens that `distribution` puts all mass on at temperature 0; -1 where the
    largest logit is NaN or infinite."""
    best = (_penalized(logits, sampling, held) if sampling.penalizes else logits).max(-1)
    return best.indices.masked_fill_(best.values * 0 != 0, -1)  # without waiting for a GPU


def _penalized(logits: Tensor, sampling: Sampling, held: Tensor | None) -> Tensor:
    """The logits as floats, those of tokens that the text holds lessened by the penalty."""
    logits = logits if logits.dtype == torch.float64 else logits.float()
    if not sampling.penalizes:
        return logits
    assert held is not None, "a repetition penalty needs the tokens that the text holds"
    penalty = sampling.repetition_penalty
    held_back = torch.where(logits < 0, logits * penalty, logits / penalty)
    return torch.where(held.to(logits.device), held_back, logits)
