"""How often is each child accepted, for given target and draft distributions?

A verifier pairs a way to sample children with a way to verify them; here is what each yields at one
node, computed rather than counted.  The table below holds one function per verifier:
(p [P, V], q [P, V], num_children, rng) -> float64 [P, num_children].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..plan import VERIFIER_TRAITS
from ..schema import PlannerError
from .checks import count, distributions
from .rejection import rrsw_rates
from .transport_bound import bound

_DEFAULT_SEED = 0


def acceptance_rates(
    p: Any, q: Any, verifier: str, num_children: int, rng: np.random.Generator | None = None
) -> np.ndarray:
    """P(the child of rank r is the accepted one), for each pair of distributions.

    p, q          float64 [..., V]  target and draft, as processed for sampling
    verifier      "topk": exact.
                  "rrsw": ranks 0 and 1 exact; the ranks after them depend on which tokens were
                  rejected: all of these are enumerated where that is cheap (V^num_children up to a
                  million), else 32 paths of rejected tokens are sampled, and the mean is unbiased.
    num_children  1..V, and no more than the verifier allows
    rng           for the sampled paths; None: the same ones every time

    Returns float64 [..., num_children], by rank, unconditional: the sum is the chance that any
    child is accepted.  Raises PlannerError.
    """
    p, q = _pair(p, q)
    if verifier not in COUPLINGS:
        raise PlannerError(f"verifier: got {verifier!r}, expected one of {', '.join(COUPLINGS)}")
    most = VERIFIER_TRAITS[verifier].max_children if verifier in VERIFIER_TRAITS else None
    most = p.shape[-1] if most is None else min(most, p.shape[-1])
    num_children = count(num_children, "num_children", 1, most)
    rng = np.random.default_rng(_DEFAULT_SEED) if rng is None else rng
    rows = COUPLINGS[verifier](_rows(p), _rows(q), num_children, rng)
    return rows.reshape(*p.shape[:-1], num_children)


def optimal_acceptance(p: Any, q: Any, num_children: int, replacement: bool) -> np.ndarray:
    """The most that any verifier can accept of children drawn from q: optimal transport.

    p, q          float64 [..., V]  target and draft
    num_children  at least 1; without replacement at most V
    replacement   are children drawn independently?  If not, and q runs out of tokens, the rest are
                  drawn evenly from those left.

    Returns float64 [...]: the largest possible chance that one of the children is accepted while
    the output follows p exactly.  Raises PlannerError.
    """
    p, q = _pair(p, q)
    most = None if replacement else p.shape[-1]
    num_children = count(num_children, "num_children", 1, most)
    pairs = zip(_rows(p), _rows(q), strict=True)
    values = [bound(one, other, num_children, replacement) for one, other in pairs]
    return np.array(values).reshape(p.shape[:-1])


def topk_rates(
    p: np.ndarray, q: np.ndarray, num_children: int, rng: np.random.Generator
) -> np.ndarray:
    """Children: the most probable tokens under q, ties by index.  Accepted if the target draws it.

    acceptance[r] = p(the r-th most probable token under q).
    """
    order = np.argsort(-q, axis=-1, kind="stable")[:, :num_children]
    return np.take_along_axis(p, order, axis=-1)


COUPLINGS: dict[str, Callable[[np.ndarray, np.ndarray, int, np.random.Generator], np.ndarray]] = {
    "rrsw": rrsw_rates,
    "topk": topk_rates,
}


def _pair(p: Any, q: Any) -> tuple[np.ndarray, np.ndarray]:
    p, q = distributions(p, "p"), distributions(q, "q")
    if p.shape != q.shape:
        raise PlannerError(f"q: got shape {q.shape}, expected that of p, {p.shape}")
    return p, q


def _rows(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, array.shape[-1])
