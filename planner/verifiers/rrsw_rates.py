"""How often does recursive rejection without replacement accept each child?  Compiled.

The exact twin of `RecursiveRejection.masses`: every path of rejected tokens where they are few.
"""

from __future__ import annotations

import numpy as np

from ..compiling import compiled
from .rejected_paths import draw, fill_untried, rates_over_paths

LEAST_SORTED = 16
"""Tokens from which sorting them is faster than taking the draft apart once for each."""


def rrsw_rates(
    p: np.ndarray, q: np.ndarray, num_children: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(rates, standard errors), float64 [P, num_children]; see `rates_over_paths`."""
    uniforms = (rng, num_children - 1)
    return rates_over_paths(p, q, num_children, uniforms, _add_enumerated, _fill_paths)


@compiled
def _add_enumerated(target, draft, tried, weight, rank, rates):  # type: ignore[no-untyped-def]
    """Add what every path of rejected tokens contributes from `rank` on to `rates`."""
    rates[rank] += weight * np.minimum(target, draft).sum()
    if rank + 1 == len(rates):
        return
    residual = target.copy()
    if _reject(residual, draft) == 0.0:
        return
    if rank + 2 == len(rates) and len(target) >= LEAST_SORTED:
        rates[rank + 1] += weight * next_rate(target, draft, residual, tried)
        return
    for x in range(len(target)):
        if draft[x] > target[x]:
            rest = draft.copy()
            tried[x] = True
            fill_untried(rest, tried)
            rejected = weight * (draft[x] - target[x])
            _add_enumerated(residual, rest, tried, rejected, rank + 1, rates)
            tried[x] = False


@compiled
def next_rate(target, draft, residual, tried):  # type: ignore[no-untyped-def]
    """The acceptance of the next child, over whichever child is rejected now.

        sum over x of (D - R)+(x) g(1 / (1 - D(x))),   g(s) = sum over y of min(R1(y), s D(y))

    R1 = norm((R - D)+), the same whatever x is.  g is piecewise linear in s with a kink at each
    R1(y) / D(y): one sort and two running sums.

    target, draft, residual  float64 [V]  R, D and R1
    tried                    bool [V]     tokens tried before x
    """
    top = draft.argmax()
    others = draft[:top].sum() + draft[top + 1 :].sum()
    if others == 0.0:  # the draft is exhausted: evenly over the untried tokens
        even = np.where(tried, 0.0, 1.0)
        even[top] = 0.0
        overlap = np.minimum(residual, even / max(even.sum(), 1.0)).sum()
        return (draft[top] - target[top]) * overlap
    useful = np.flatnonzero((residual > 0.0) & (draft > 0.0))
    kinks = residual[useful] / draft[useful]
    order = np.argsort(kinks)
    kinks, useful = kinks[order], useful[order]
    full, open_ = np.zeros(len(useful) + 1), np.zeros(len(useful) + 1)
    for place in range(len(useful)):
        full[place + 1] = full[place] + residual[useful[place]]
    for place in range(len(useful) - 1, -1, -1):
        open_[place] = open_[place + 1] + draft[useful[place]]
    rate = 0.0
    for x in range(len(draft)):
        if draft[x] > target[x]:
            scale = 1.0 / (others if x == top else 1.0 - draft[x])
            place = np.searchsorted(kinks, scale, side="right")
            rate += (draft[x] - target[x]) * (full[place] + scale * open_[place])
    return rate


@compiled
def _fill_paths(p, q, uniforms, paths):  # type: ignore[no-untyped-def]
    """paths [paths, ranks]: expected acceptance from rank 1 on, along each sampled path."""
    for path in range(len(paths)):
        target, draft = p.copy(), q.copy()
        tried = np.zeros(len(p), np.bool_)
        survival = 1.0
        for rank in range(1, paths.shape[1]):
            x = draw(np.maximum(draft - target, 0.0), uniforms[path, rank - 1])
            if x < 0:
                break
            tried[x] = True
            survival *= _reject(target, draft)
            if survival == 0.0:
                break
            fill_untried(draft, tried)
            paths[path, rank] = survival * np.minimum(target, draft).sum()


@compiled
def _reject(target, draft):  # type: ignore[no-untyped-def]
    """Update R in place after a rejection; return its chance.  R is undefined where that is 0."""
    left = 0.0
    for y in range(len(target)):
        target[y] = max(target[y] - draft[y], 0.0)
        left += target[y]
    if left > 0.0:
        target /= left
    return left
