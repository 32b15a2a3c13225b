"""Discard and verification rates of chains along recorded texts (SpecDec++, section 5.1).

No noise but the texts' own: whether tokens are accepted is averaged over, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .drafted_chains import Chains, Factors


class Counts(NamedTuple):
    """Expected totals along one text, float64 [settings]."""

    discarded: np.ndarray  # tokens drafted and not emitted
    verified: np.ndarray  # target passes


def threshold_counts(chains: Chains, score: str, thresholds: Sequence[float], depth: int) -> Counts:
    """Chains that stop once 1 - (product of the score's factors) exceeds a threshold.

    The token whose factor tips the balance is drafted still; where factors are late, so is the one
    behind it, for which the draft has been paid already.  No chain is longer than `depth`, nor
    longer than leaves the target one token of the text.
    """
    factors = chains.factors[score]
    return _counts(chains.accepted, factors, np.asarray(thresholds, dtype=np.float64), depth)


def fixed_counts(chains: Chains, lengths: Sequence[int]) -> Counts:
    """Chains of a fixed number of tokens, as far as the text goes."""
    parts = []
    for length in lengths:
        ones = Factors(np.ones(len(chains)), np.ones((len(chains), length)))
        parts.append(_counts(chains.accepted, ones, np.array([0.5]), length))
    return Counts(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _counts(accepted: np.ndarray, factors: Factors, thresholds: np.ndarray, depth: int) -> Counts:
    """Forward over the text: the probability that a round starts at each place, and what a round
    from there is expected to discard, by the place of its first rejected token, if any."""
    num_places = len(accepted)
    num_accepted, num_rejected = _num_drafted(factors, thresholds, depth)
    starts = np.zeros((len(thresholds), num_places + 1))
    starts[:, 0] = 1.0
    discarded = np.zeros(len(thresholds))
    rows = np.arange(len(thresholds))
    for place in range(num_places):
        here, on_text = starts[:, place], num_accepted[place]
        ahead = accepted[place : place + depth]
        survived = np.concatenate([[1.0], np.cumprod(ahead)])
        for offset, chance in enumerate(survived[:-1] * (1 - ahead)):
            reached = here * chance * (offset < on_text)
            starts[:, place + offset + 1] += reached
            discarded += reached * (num_rejected[place, offset] - offset)
        starts[rows, place + on_text + 1] += here * survived[on_text]
    return Counts(discarded, starts[:, :num_places].sum(axis=1))


def _num_drafted(
    factors: Factors, thresholds: np.ndarray, depth: int
) -> tuple[np.ndarray, np.ndarray]:
    """Tokens that a round drafts from each place: int64 [n, settings] if all are accepted, and
    int64 [n, depth, settings] if the one after so many is the first to be rejected."""
    num_places = len(factors.on_text)
    most = np.minimum(depth, num_places - 1 - np.arange(num_places))
    padded = np.concatenate([factors.on_text, np.ones(depth)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, depth)[:num_places]
    along = np.cumprod(windows, axis=1)  # [n, depth]: all so many tokens of the text accepted
    before = np.concatenate([np.ones((num_places, 1)), along[:, :-1]], axis=1)
    off_text = np.concatenate([factors.off_text[:, :depth], np.ones((depth, depth))])
    offsets = np.arange(depth)
    below = np.cumprod(off_text, axis=1)[np.arange(num_places)[:, None] + offsets]
    branch = before[:, :, None] * below  # [n, offset, level]
    accepted, rejected = [], []
    for threshold in thresholds:
        length = (1 - along <= threshold).sum(axis=1) + 1 + factors.late
        accepted.append(np.minimum(length, most))
        length = offsets + (1 - branch <= threshold).sum(axis=2) + 1 + factors.late
        stopped = 1 - before > threshold  # by the text's tokens: nothing follows the rejected one
        length = np.where(stopped, offsets + 1, length)
        rejected.append(np.minimum(length, most[:, None]))
    return np.stack(accepted, axis=-1), np.stack(rejected, axis=-1)
