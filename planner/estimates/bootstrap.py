"""How far may an average over prompts be off?  Prompts are the samples, each as a whole."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtr, stdtrit

from ..documents.estimate import Estimate
from .intervals import around

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


def ratio_samples(sums: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """float64 [2000]: what of `sums` there is to one of `weights`, float64 [prompts] each, by
    bootstrap sample of the prompts."""
    drawn = resamples(len(weights))
    return np.asarray((drawn @ sums) / (drawn @ weights))


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
    shares = np.linspace(0, 1, len(samples))
    low, high = np.interp((tail, 1 - tail), shares, np.sort(samples))
    return float(low), float(high)


def foreseen(
    value: float, samples: np.ndarray, num_prompts: int, *, least: float, most: float
) -> Estimate:
    """`value` with the interval in which it lies, 95 times in 100, on as many other prompts.

    Theirs is another draw, no surer than this one, so that logarithms differ by root 2 as much as
    one of them does from the truth.  Other arguments as for `interval`.
    """
    bounds = interval(samples, num_prompts, least=least, most=most)
    if num_prompts > 1:
        bounds = tuple(value * (bound / value) ** np.sqrt(2) for bound in bounds)
    return around(value, max(bounds[0], least), min(bounds[1], most))


def differ(sums: np.ndarray, weights: np.ndarray) -> bool:
    """Does any group's weighted mean differ from the mean over all groups by more than chance?

    sums     float64 [prompts, groups, k]  weighted sums of k quantities
    weights  float64 [prompts, groups]     their weights

    Compares the first quantity and the total of all.  Linearised ratio estimators with prompts as
    clusters, two-sided at 5 % over all comparisons together (Bonferroni).
    """
    num_prompts, num_groups = weights.shape
    if num_prompts < 3 or num_groups < 2:
        return False
    compared = np.stack([sums[:, :, 0], sums.sum(axis=2)], axis=2)
    means = compared.sum(axis=0) / weights.sum(axis=0)[:, None]
    mean = compared.sum(axis=(0, 1)) / weights.sum()
    influence = (compared - means * weights[:, :, None]) / weights.sum(axis=0)[:, None]
    influence -= ((compared.sum(axis=1) - mean * weights.sum(axis=1)[:, None]) / weights.sum())[
        :, None, :
    ]
    errors = np.sqrt((influence**2).sum(axis=0) * num_prompts / (num_prompts - 1))
    limit = float(stdtrit(num_prompts - 1, 1 - 0.025 / (2 * num_groups)))
    rounding = 1e-9
    return bool((np.abs(means - mean) > limit * errors + rounding).any())
