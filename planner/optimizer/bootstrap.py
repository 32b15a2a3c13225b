"""How far may an average over prompts be off?  Cluster bootstrap: prompts are drawn anew, whole."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtr, stdtrit

_NUM_RESAMPLES = 2000
_SEED = 0


@lru_cache(maxsize=4)
def resamples(num_prompts: int) -> np.ndarray:
    """float64 [2000, num_prompts], read-only: how often each prompt is drawn; always the same."""
    rng = np.random.default_rng(_SEED)
    uniform = np.full(num_prompts, 1 / num_prompts)
    draws = rng.multinomial(num_prompts, uniform, size=_NUM_RESAMPLES).astype(np.float64)
    draws.setflags(write=False)
    return draws


def interval(
    samples: np.ndarray, num_prompts: int, *, least: float, most: float
) -> tuple[float, float]:
    """95 % interval from a statistic's bootstrap samples, at percentiles widened for few prompts.

    A bootstrap over P clusters is too narrow by sqrt((P-1)/P), and normal where Student's t is due;
    taking the percentiles at Phi(-+t sqrt(P/(P-1))) makes up for both (expanded percentiles:
    Hesterberg 2015, "What teachers should know about the bootstrap").  One prompt tells nothing of
    the spread between prompts: then the answer is `least`..`most`, all that is possible.
    """
    if num_prompts < 2:
        return least, most
    t = float(stdtrit(num_prompts - 1, 0.975))
    tail = float(ndtr(-t * np.sqrt(num_prompts / (num_prompts - 1))))
    low, high = np.quantile(samples, (tail, 1 - tail))
    return float(low), float(high)
