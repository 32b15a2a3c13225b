"""How often does recursive rejection without replacement accept each child?  Compiled.

The exact twin of `RecursiveRejection.masses`: ranks 0 and 1 in closed form, and the rest over every
path of rejected tokens where they are few.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .rejected_paths import MAX_ENUMERATED, draw, fill_untried, mean_and_error, path_uniforms


def rrsw_rates(
    p: np.ndarray, q: np.ndarray, num_children: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(rates, standard errors), float64 [P, num_children]: by rank, unconditional.

    p, q  float64 [P, V]

    Ranks 0 and 1 are exact; so are the rest where all their paths are enumerated.
    """
    rates = np.zeros((len(p), num_children))
    errors = np.zeros_like(rates)
    enumerable = p.shape[1] ** num_children <= MAX_ENUMERATED
    for i in range(len(p)):
        if num_children > 2 and enumerable:
            _fill_enumerated(p[i], q[i], rates[i])
            continue
        rates[i, 0] = np.minimum(p[i], q[i]).sum()
        if num_children > 1:
            rates[i, 1] = _second_rate(p[i], q[i])
        if num_children > 2:
            uniforms = path_uniforms(rng, num_children - 1)
            paths = np.zeros((len(uniforms), num_children))
            _fill_paths(p[i], q[i], uniforms, paths)
            mean, error = mean_and_error(paths)
            rates[i, 2:], errors[i, 2:] = mean[2:], error[2:]
    return rates, errors


def _second_rate(p: np.ndarray, q: np.ndarray) -> float:
    """sum over x of (q - p)+(x) * g(1 / (1 - q(x))), g(s) = sum over y of min(R1(y), s q(y)).

    R1 = norm((p - q)+) is the same whatever x was.  g is piecewise linear in s with a kink at each
    R1(y) / q(y): one sort and two running sums.
    """
    excess, lack = np.maximum(q - p, 0.0), np.maximum(p - q, 0.0)
    if lack.sum() == 0.0:
        return 0.0
    residual = lack / lack.sum()
    top = int(q.argmax())
    others = np.delete(q, top).sum()
    if others == 0.0:  # the draft is exhausted: evenly over the untried tokens
        return float(excess[top] * np.minimum(np.delete(residual, top), 1 / (len(q) - 1)).sum())
    left = 1.0 - q
    left[top] = others  # the one place where the difference would cancel
    rejected = excess > 0
    scale = 1.0 / left[rejected]
    useful = (residual > 0) & (q > 0)
    kinks = residual[useful] / q[useful]
    order = np.argsort(kinks)
    full = np.concatenate(([0.0], np.cumsum(residual[useful][order])))
    open_ = np.concatenate((np.cumsum(q[useful][order][::-1])[::-1], [0.0]))
    place = np.searchsorted(kinks[order], scale, side="right")
    return float((excess[rejected] * (full[place] + scale * open_[place])).sum())


@njit(cache=True)
def _fill_enumerated(p, q, rates):  # type: ignore[no-untyped-def]
    """Every sequence of rejected tokens, depth first; one level of the stack per rank."""
    num_children, vocabulary = len(rates), len(p)
    target = np.zeros((num_children, vocabulary))
    draft = np.zeros((num_children, vocabulary))
    tried = np.zeros(vocabulary, np.bool_)
    weight = np.zeros(num_children)
    token = np.zeros(num_children, np.int64)  # the one rejected at each level; the next to try
    target[0], draft[0], weight[0] = p, q, 1.0
    rates[:] = 0.0
    rates[0] = np.minimum(p, q).sum()
    rank = 0
    while rank >= 0:
        x = token[rank]
        if x > 0:
            tried[x - 1] = False
        while x < vocabulary and draft[rank, x] <= target[rank, x]:
            x += 1
        if x == vocabulary or rank + 1 == num_children:
            rank -= 1
            continue
        tried[x] = True
        token[rank] = x + 1
        weight[rank + 1] = weight[rank] * (draft[rank, x] - target[rank, x])
        target[rank + 1] = target[rank]
        draft[rank + 1] = draft[rank]
        if _reject(target[rank + 1], draft[rank + 1], tried) > 0.0:
            rank += 1
            token[rank] = 0
            rates[rank] += weight[rank] * np.minimum(target[rank], draft[rank]).sum()


@njit(cache=True)
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
            survival *= _reject(target, draft, tried)
            if survival == 0.0:
                break
            paths[path, rank] = survival * np.minimum(target, draft).sum()


@njit(cache=True)
def _reject(target, draft, tried):  # type: ignore[no-untyped-def]
    """Update R and D in place after the last of `tried` was rejected; the chance of a rejection.

    Returns 0 and leaves both undefined where rounding leaves nothing to sample from.
    """
    left = 0.0
    for y in range(len(target)):
        target[y] = max(target[y] - draft[y], 0.0)
        left += target[y]
    if left > 0.0:
        for y in range(len(target)):
            target[y] /= left
        fill_untried(draft, tried)
    return left
