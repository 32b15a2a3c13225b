"""How often is each child accepted, for given distributions?  Checked here, computed in
`Verifier.rates`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..documents.arguments import count, distributions, numbers
from ..documents.document import PlannerError
from . import verifier_named
from .transport import optimal_with_replacement, optimal_without_replacement

_DEFAULT_SEED = 0
_CHUNK = 1 << 20
"""Numbers of p that are worked on at a time: some ten arrays of 8 MB."""


@dataclass(frozen=True)
class EstimatedAcceptance:
    """P(the child of rank r is the accepted one), and how far that may be off."""

    rates: np.ndarray
    """float64 [..., num_children]: unconditional; the sum is the chance that any is accepted."""
    standard_errors: np.ndarray
    """float64 [..., num_children]: 0 where the rate is exact."""


def acceptance_rates(
    p: Any, q: Any, verifier: str, num_children: int, rng: np.random.Generator | None = None
) -> np.ndarray:
    """P(the child of rank r is the accepted one), for each pair of distributions.

    p, q          float [..., V]  target and draft, as processed for sampling
    verifier      a name in `VERIFIERS`.  All are exact, but for "rrsw", "traversal", which is the
                  same at one node, and "lookahead" beyond the first two ranks: these depend on
                  which tokens were rejected.  All paths of rejected tokens are enumerated where
                  that is cheap (V^num_children up to a million), else 32 are sampled, and the mean
                  is unbiased.
    num_children  at least 1 and no more than the verifier allows: chain 1, spechub 2, and V unless
                  the children are drawn independently
    rng           for the sampled paths; None: the same ones every time

    Returns float64 [..., num_children], by rank, unconditional: the sum is the chance that any
    child is accepted.  For "kseq" and "spechub" a rank's rate depends on how many children there
    are; for the others it does not.  Raises PlannerError.

    Example: one child accepts the overlap of the two distributions.

    >>> acceptance_rates([0.1, 0.6, 0.3], [0.5, 0.3, 0.2], "chain", 1)
    array([0.6])
    """
    return estimated_acceptance(p, q, verifier, num_children, rng).rates


def estimated_acceptance(
    p: Any, q: Any, verifier: str, num_children: int, rng: np.random.Generator | None = None
) -> EstimatedAcceptance:
    """`acceptance_rates` with the standard error of what was sampled; same arguments."""
    p, q = _pair(p, q)
    method = verifier_named(verifier)
    num_children = count(num_children, "num_children", 1, most_children(verifier, p.shape[-1]))
    rng = np.random.default_rng(_DEFAULT_SEED) if rng is None else rng
    parts = [method.rates(*part, num_children, rng) for part in _chunks(p, q)]
    shape = (*p.shape[:-1], num_children)
    rates, errors = (np.concatenate(arrays).reshape(shape) for arrays in zip(*parts, strict=True))
    return EstimatedAcceptance(rates, errors)


def optimal_acceptance(p: Any, q: Any, num_children: int, replacement: bool) -> np.ndarray:
    """The most that any verifier can accept of children drawn from q: optimal transport.

    p, q          float [..., V]  target and draft
    num_children  at least 1; without replacement at most V
    replacement   are children drawn independently?  If not, and q runs out of tokens, the rest are
                  drawn evenly from those left.

    Returns float64 [...]: the largest possible chance that one of the children is accepted while
    the output follows p exactly.  Raises PlannerError.
    """
    p, q = _pair(p, q)
    most = None if replacement else p.shape[-1]
    num_children = count(num_children, "num_children", 1, most)
    bound = optimal_with_replacement if replacement else optimal_without_replacement
    values = [bound(*part, num_children, num_children) for part in _chunks(p, q)]
    return np.concatenate(values).reshape(p.shape[:-1])


def most_children(verifier: str, vocabulary: int) -> int | None:
    """Most children of a node that the verifier can serve over this many tokens; None: any."""
    method = verifier_named(verifier)
    if method.law == "independent":
        return method.max_children
    return min(method.max_children or vocabulary, vocabulary)


def _pair(p: Any, q: Any) -> tuple[np.ndarray, np.ndarray]:
    p, q = numbers(p, "p"), numbers(q, "q")
    if p.shape != q.shape:
        raise PlannerError(f"q: got shape {q.shape}, expected that of p, {p.shape}")
    return p, q


def _chunks(p: np.ndarray, q: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """A few rows at a time, checked, as float64 [rows, V]: all at once would fill the memory."""
    vocabulary = p.shape[-1]
    rows = max(1, _CHUNK // vocabulary)
    p, q = p.reshape(-1, vocabulary), q.reshape(-1, vocabulary)
    for start in range(0, len(p), rows):
        part = slice(start, start + rows)
        yield distributions(p[part], "p"), distributions(q[part], "q")
