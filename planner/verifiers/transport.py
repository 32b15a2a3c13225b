"""The most that any verifier could accept at one node: optimal transport as a minimum cut.

    alpha* = 1 + min over token sets H of  p(H) - P(all children lie in H)

and the minimising H is a prefix of the tokens sorted by q / p, largest first: one sort.
(Hu et al., ICLR 2025, "Towards optimal multi-draft speculative decoding".)

Tokens of the same ratio may come in any order.  What P gains per unit of q by the last token to
enter H is never more than what the next one would bring (their q-convexity), so where a smallest
cut has x but not y of the same ratio, neither dropping x nor adding y changes its value.  It stays
a smallest cut with all of the group added, and that set is a prefix in whatever order they come.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numba import njit

_LOG_STEP = 0.2
_NEGLIGIBLE = 40.0


def bound(p: np.ndarray, q: np.ndarray, num_children: int, replacement: bool) -> float:
    """Optimal acceptance of `num_children` children drawn from q; p, q float64 [V]."""
    order = _order(p, q, num_children, replacement)
    p, q = p[order], q[order]
    if replacement:
        inside = np.minimum(np.cumsum(q), 1.0) ** num_children
    else:
        inside = _inside_without_replacement(q, num_children)
    cut = float((np.cumsum(p) - inside).min())
    return min(max(1.0 + min(cut, 0.0), 0.0), 1.0)


def _order(p: np.ndarray, q: np.ndarray, num_children: int, replacement: bool) -> np.ndarray:
    """int64 [V]: tokens by falling q / p; those that the draft never proposes come last."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(p > 0, q / p, np.where(q > 0, np.inf, 0.0))
    if replacement or np.count_nonzero(q) > num_children:
        return np.argsort(-ratio)
    return np.lexsort((p, -ratio))  # the last tokens may be drawn, evenly: p ascending


def _inside_without_replacement(q: np.ndarray, num_children: int) -> np.ndarray:
    """float64 [V]: P(all children lie among the first j+1 tokens), drawn without replacement.

    q  float64 [V]  zeros last; if children outnumber the others, the rest are drawn evenly
    """
    support = int((q > 0).sum())
    inside = np.zeros(len(q))
    if support <= num_children:
        evenly = num_children - support
        ways = comb(len(q) - support, evenly)
        for size in range(support, len(q) + 1):
            inside[size - 1] = comb(size - support, evenly) / ways
        return inside
    q = q[:support]
    inside[support - 1 :] = 1.0
    if num_children == 1:
        inside[: support - 1] = np.cumsum(q)[:-1]
    elif num_children == 2:
        top = int(q.argmax())
        _fill_inside_by_pairs(q, top, q[:top].sum() + q[top + 1 :].sum(), inside)
    else:
        outside = np.append(np.cumsum(q[:0:-1])[::-1], 0.0)  # mass after each prefix, not 1 - mass
        log_s = np.arange(np.log(1e-4), np.log(_NEGLIGIBLE / outside[-2]), _LOG_STEP)
        _fill_inside(q, outside, np.exp(log_s), num_children, inside)
    return inside


@njit(cache=True)
def _fill_inside_by_pairs(q, top, rest, inside):  # type: ignore[no-untyped-def]
    """First child in H, less those whose second is not:  q(H) - q(outside) sum of q / (1 - q) on H.

    `rest` is 1 - q[top], summed over the other tokens: q[top] may be nearly 1.
    """
    outside = 0.0
    for j in range(len(q) - 1, 0, -1):
        outside += q[j]
        inside[j - 1] = outside
    within = 0.0
    followed = 0.0
    for j in range(len(q) - 1):
        within += q[j]
        followed += q[j] / (rest if j == top else 1.0 - q[j])
        inside[j] = within - inside[j] * followed


@njit(cache=True)
def _fill_inside(q, outside, times, num_children, inside):  # type: ignore[no-untyped-def]
    """Exponential clocks: token x rings at rate q(x); the first k to ring are the children.

    All lie in H iff k tokens of H rang before the first one outside did, at rate a = 1 - q(H):
    integral over s of a exp(-a s) P[at least k of H rang by s], by the trapezoid rule in log s.
    The integrand vanishes as s^(k+1) and as exp(-a s) at the ends: for k >= 3 what is cut off is
    below 1e-16, and the rule's own error below 1e-11.
    """
    rang = np.zeros(num_children)
    for s in times:
        rang[:] = 0.0  # P[exactly i of H rang by s], i < k
        rang[0] = 1.0
        enough = 0.0
        for j in range(len(q) - 1):
            drawn = -np.expm1(-q[j] * s)
            enough += rang[num_children - 1] * drawn
            for i in range(num_children - 1, 0, -1):
                rang[i] += drawn * (rang[i - 1] - rang[i])
            rang[0] -= drawn * rang[0]
            inside[j] += _LOG_STEP * s * outside[j] * np.exp(-outside[j] * s) * enough
