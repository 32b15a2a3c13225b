"""k different tokens, drawn one after the other from what is left: the same law, computed twice.

By inversion: each draw walks the cumulative sum, past what is gone.  One pass over the vocabulary
and k short searches, but a chain of decisions: the fast way on a CPU.

By a race: token x arrives at time E_x / probs_x, E_x ~ Exp(1), and the first k to arrive are such
draws, since the first of them is x with chance probs_x / sum and exponential times forget how long
they have waited.  Every token needs a random number, but all of them at once: the way on a GPU.
"""

from __future__ import annotations

import numpy as np
import torch
from numba import njit
from torch import Tensor

LITTLE_LEFT = 1e-3
"""Share of the mass below which what is left is summed anew: a difference of sums that are nearly
equal is mostly rounding."""


def by_inversion(probs: Tensor, uniforms: Tensor) -> Tensor:
    """int64 [w, k] on the CPU.

    probs     float [w, V]    >= 0, no row all zero; need not sum to 1
    uniforms  float64 [w, k]  in [0, 1), one a draw

    Where nothing is left, uniform over the tokens not drawn yet; -1 where masses are no numbers.
    """
    drawn = np.empty(uniforms.shape, np.int64)
    _invert(probs.double().contiguous().numpy(), uniforms.contiguous().numpy(), drawn)
    return torch.from_numpy(drawn)


def by_race(probs: Tensor, uniforms: Tensor, k: int) -> Tensor:
    """int64 [w, k], on the device of `probs`.

    probs     float [w, V]    as above
    uniforms  float64 [w, V]  in [0, 1), one a token; overwritten

    Tokens of no mass come after all others, in an order of their own that is uniform.
    """
    clocks = uniforms.neg_().log1p_().neg_()
    return torch.where(probs > 0, probs / clocks, -clocks).topk(k, dim=-1).indices


@njit(cache=True)
def _invert(probs, uniforms, drawn):  # type: ignore[no-untyped-def]
    num_tokens = probs.shape[1]
    most = drawn.shape[1]
    cumulative = np.empty(num_tokens)
    is_gone = np.zeros(num_tokens, np.bool_)
    gone = np.empty(most, np.int64)  # ascending
    for row in range(len(probs)):
        mass = probs[row]
        total = 0.0
        for token in range(num_tokens):
            total += mass[token]
            cumulative[token] = total
        left = total
        for num_gone in range(most):
            token = -1
            if left > LITTLE_LEFT * total:
                height = uniforms[row, num_gone] * left
                for i in range(num_gone):  # what is gone lies before the height: step over it
                    if height < cumulative[gone[i]] - mass[gone[i]]:
                        break
                    height += mass[gone[i]]
                token = np.searchsorted(cumulative, height, side="right")
            if token < 0 or token == num_tokens or is_gone[token] or mass[token] == 0:
                token = _scanned(mass, is_gone, num_gone, uniforms[row, num_gone])
            drawn[row, num_gone] = token
            is_gone[token] = True
            left -= mass[token]
            place = num_gone
            while place > 0 and gone[place - 1] > token:
                gone[place] = gone[place - 1]
                place -= 1
            gone[place] = token
        is_gone[gone] = False


@njit(cache=True)
def _scanned(mass, is_gone, num_gone, uniform):  # type: ignore[no-untyped-def]
    """One draw from what is left, token by token."""
    left = 0.0
    for token in range(len(mass)):
        if not is_gone[token]:
            left += mass[token]
    if not np.isfinite(left):
        return -1
    if left == 0:
        skipped = int(uniform * (len(mass) - num_gone))
        for token in range(len(mass)):
            if not is_gone[token]:
                if skipped == 0:
                    return token
                skipped -= 1
    height = uniform * left
    last = -1
    for token in range(len(mass)):
        if not is_gone[token] and mass[token] > 0:
            last = token
            if height < mass[token]:
                return token
            height -= mass[token]
    return last
