"""How often is each child accepted when the children are drawn independently from the draft?

Plain speculative sampling (one child), naive matching, recursive rejection (SpecInfer) and
K-sequential selection (SpecTr).  All exact; p, q float64 [P, V], and back comes float64
[P, num_children], by rank, unconditional.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq


def chain_rates(p: np.ndarray, q: np.ndarray, num_children: int) -> np.ndarray:
    """One child x, accepted with probability min(1, p(x) / q(x)) (Leviathan et al.; Chen et al.).

    acceptance = sum min(p, q): draw by draw q(x) min(1, p(x) / q(x)).
    """
    return np.minimum(p, q).sum(axis=-1, keepdims=True)


def naive_rates(p: np.ndarray, q: np.ndarray, num_children: int) -> np.ndarray:
    """The target draws y; accepted is the first child that equals it.

    acceptance[r] = sum over y of p(y) q(y) (1 - q(y))^r: child r is y and none before it is.
    """
    rates = np.empty((len(p), num_children))
    first_match = p * q
    for rank in range(num_children):
        rates[:, rank] = first_match.sum(axis=-1)
        first_match *= 1.0 - q
    return rates


def rrs_rates(p: np.ndarray, q: np.ndarray, num_children: int) -> np.ndarray:
    """Recursive rejection: child x is accepted with probability min(1, R(x) / q(x)).

    R starts as p and becomes norm((R - q)+) at each rejection, whatever was rejected.  Given that
    all earlier ones were rejected, child r is accepted with probability b[r] = sum min(R, q), and
    1 - b[r] = sum (R - q)+, which does not cancel: acceptance[r] = b[r] prod over j < r of 1 - b[j]
    """
    rates = np.zeros((len(p), num_children))
    survival = np.ones(len(p))
    residual = p
    for rank in range(num_children):
        rates[:, rank] = survival * np.minimum(residual, q).sum(axis=-1)
        residual = np.maximum(residual - q, 0.0)
        left = residual.sum(axis=-1)
        survival = survival * left
        residual /= np.where(left > 0.0, left, 1.0)[:, None]
    return rates


def kseq_rates(p: np.ndarray, q: np.ndarray, num_children: int) -> np.ndarray:
    """K-sequential selection: each child is accepted with probability min(1, p(x) / (g q(x))).

    b(g) = sum min(q, p / g) is the chance of each child, so acceptance[r] = b (1 - b)^r.  Token x
    comes out of that with chance min(q(x), p(x) / g) (1 - (1 - b)^k) / b, which must not exceed
    p(x): hence the smallest g >= 1 with 1 - (1 - b)^k <= g b, which depends on k.
    """
    rates = np.empty((len(p), num_children))
    ranks = np.arange(num_children)
    for row, target, draft in zip(rates, p, q, strict=True):
        factor = kseq_factor(target, draft, num_children)
        accepted = np.minimum(draft, target / factor).sum()
        row[:] = accepted * _excess(target, draft, factor) ** ranks
    return rates


def kseq_factor(p: np.ndarray, q: np.ndarray, num_children: int) -> float:
    """The factor g of K-sequential selection, in 1..num_children; p, q float64 [V].

    The root of (1 - g b) - (1 - b)^k, which falls in g from >= 0 at 1 to <= 0 at k.  Both terms are
    taken as sums of positive parts: where q is p up to rounding, 1 - b from b would be noise.
    """

    def surplus(factor: float) -> float:
        lack = float(np.maximum(p - factor * q, 0.0).sum())
        return lack - _excess(p, q, factor) ** num_children

    if surplus(1.0) <= 0.0:
        return 1.0
    if surplus(float(num_children)) >= 0.0:
        return float(num_children)
    tolerance = 4 * float(np.finfo(float).eps)
    return float(brentq(surplus, 1.0, num_children, xtol=tolerance, rtol=tolerance))


def _excess(p: np.ndarray, q: np.ndarray, factor: float) -> float:
    """1 - b: the chance that one child is not accepted."""
    return float(np.maximum(q - p / factor, 0.0).sum())
