"""The most that any verifier could accept at one node: optimal transport as a minimum cut.

    alpha*(k) = 1 + min over token sets H of  p(H) - P(all k children lie in H)

and the minimising H is a prefix of the tokens sorted by q / p, largest first: one sort for every
number of children.  (Hu et al., ICLR 2025, "Towards optimal multi-draft speculative decoding".)

Tokens of the same ratio may come in any order.  What P gains per unit of q by the last token to
enter H is never more than what the next one would bring (their q-convexity), so where a smallest
cut has x but not y of the same ratio, neither dropping x nor adding y changes its value.  It stays
a smallest cut with all of the group added, and that set is a prefix in whatever order they come.

One text serves arrays and tensors, but for three children and more without replacement: compiled
for the one, many positions at once for the other, since profiles hold thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import expm1, log

import numpy as np

from ..compiling import compiled
from .namespace import Array, at, converted, fill_at, in_chunks, namespace, replaced_at, sums_from
from .rejection import TINY, rows_to_one

MAX_CLOCKS = {"cpu": 1 << 12, "cuda": 1 << 17}
"""Clocks (positions x nodes) that are advanced together, token by token."""

MIN_ROWS = 64
"""Fewer positions at once would not be worth a walk through the vocabulary."""

BLOCK = 16
"""Tokens between two summations over the nodes."""

LOG_STEP, FINE_STEP = 0.3, 0.2
"""Between nodes, for tensors and for arrays."""

FIRST = 2e-4
"""The first node in time: until then at most FIRST^3 / 6 of three children were drawn."""

LAST = 80.0
"""The last node, over the mean time until the slowest child is drawn: e^-80 are late."""

Bound = Callable[[Array, Array, Sequence[int]], Array]
"""(p, q float64 [N, V], rows sorted as by `_sorted`, numbers of children) -> [N, numbers]"""


def optimal_with_replacement(p: Array, q: Array, num_children: int, least: int = 1) -> Array:
    """Best acceptance of `least`..`num_children` children drawn from q independently.

    p, q  float [N, V], arrays or tensors

    Returns float64 [N, num_children + 1 - least], non-decreasing along each row.  Exact.
    """
    return _in_chunks(_independent, p, q, range(least, num_children + 1))


def optimal_without_replacement(p: Array, q: Array, num_children: int, least: int = 1) -> Array:
    """Best acceptance of `least`..`num_children` <= V children, none drawn twice.

    p, q  float [N, V], arrays or tensors; where q has fewer tokens than there are children, the
          other children are drawn evenly from those left

    Returns float64 [N, num_children + 1 - least], non-decreasing along each row up to its error.
    Exact up to two children; beyond, by quadrature, at some thirty times the cost.  The error is
    below 1e-11 for arrays; for tensors it grows with the number of children, to below 1e-10 for
    five and some 1e-9 for eight.
    """
    counts = range(least, num_children + 1)
    few, more = [k for k in counts if k <= 2], [k for k in counts if k > 2]
    parts = [_in_chunks(_one_or_two, p, q, few)] if few else []
    if more:
        parts.append(_in_chunks(_three_or_more, p, q, more, min_rows=MIN_ROWS))
    return namespace(p).concatenate(parts, -1)


def _in_chunks(
    bound: Bound, p: Array, q: Array, counts: Sequence[int], *, min_rows: int = 1
) -> Array:
    chunks = in_chunks((p, q), least=min_rows)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return namespace(p).concatenate([bound(*_sorted(*part), counts) for part in chunks])


def _sorted(p: Array, q: Array) -> tuple[Array, Array]:
    """Both as float64 distributions, by q / p falling; tokens without q last, by p rising."""
    xp = namespace(p)
    p, q = rows_to_one(converted(p, "float64")), rows_to_one(converted(q, "float64"))
    ratio = q / p
    ratio = xp.negative(xp.clip(ratio, TINY, None, out=ratio), out=ratio)
    order = xp.argsort(xp.where(q > 0, ratio, p), -1)
    return at(p, order), at(q, order)


def _accepted(cut: Array) -> Array:
    """1 + the smallest cut, that of no tokens at all (0) included; cut float64 [N, V] -> [N]."""
    xp = namespace(cut)
    return xp.clip(1 + xp.clip(xp.amin(cut, -1), None, 0), 0, None)


def _independent(p: Array, q: Array, counts: Sequence[int]) -> Array:
    """P(all in H) = q(H)^k."""
    xp = namespace(q)
    before, mass = p.cumsum(-1), xp.clip(q.cumsum(-1), None, 1)
    inside, found = xp.ones_like(mass), []
    for count in range(1, counts[-1] + 1):
        inside *= mass
        if count in counts:
            found.append(_accepted(before - inside))
    return xp.stack(found, -1)


def _one_or_two(p: Array, q: Array, counts: Sequence[int]) -> Array:
    before, found = p.cumsum(-1), []
    for count in counts:
        inside = q.cumsum(-1) if count == 1 else _both_inside(q)
        found.append(_with_exhausted(_accepted(before - inside), before, q, count))
    return namespace(q).stack(found, -1)


def _both_inside(q: Array) -> Array:
    """P(both in H) = q(H) - (1 - q(H)) times the sum over H of q / (1 - q)."""
    xp = namespace(q)
    top = q.argmax(-1, keepdims=True)
    beside = replaced_at(q, top, 0.0).sum(-1, keepdims=True)  # 1 - q(top), not cancelled
    left = fill_at(1 - q, top, beside)
    followed = xp.divide(q, xp.clip(left, TINY, None, out=left), out=left).cumsum(-1)
    followed *= sums_from(q)[..., 1:]
    return xp.subtract(q.cumsum(-1), followed, out=followed)


def _three_or_more(p: Array, q: Array, counts: Sequence[int]) -> Array:
    before = p.cumsum(-1)
    by_clocks = _by_compiled_clocks if isinstance(q, np.ndarray) else _by_clocks_together
    found = by_clocks(before, q, counts)
    for column, count in enumerate(counts):
        found[:, column] = _with_exhausted(found[:, column], before, q, count)
    return found


def _with_exhausted(found: Array, before: Array, q: Array, num_children: int) -> Array:
    """`found` [N], but right for rows whose tokens are all drawn, the other children evenly.

    With S tokens in q, P(all in a prefix of n) = C(n - S, k - S) / C(V - S, k - S), 0 if n < S.
    """
    rows = (q > 0).sum(-1) <= num_children
    if not bool(rows.any()):
        return found
    xp = namespace(q)
    tokens = (q[rows] > 0).sum(-1, keepdims=True)
    further = xp.ones_like(q[rows]).cumsum(-1) - tokens
    inside = converted(further >= 0, "float64")
    for drawn in range(num_children):
        share = xp.clip(further - drawn, 0, None) / (q.shape[-1] - tokens - drawn)
        inside *= xp.where(tokens + drawn < num_children, share, 1.0)
    found[rows] = _accepted(before[rows] - inside)
    return found


# ------------------------------------------------------- three children and more, as clocks


def _by_compiled_clocks(before: np.ndarray, q: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """One position after the other, by finer nodes; see `_by_clocks`."""
    found = np.ones((len(q), len(counts)))
    for row, support in enumerate(np.count_nonzero(q, axis=-1)):
        drawable = q[row, :support]
        outside = sums_from(drawable)[1:]
        for column, count in enumerate(counts):
            if support > count:
                log_s = np.arange(np.log(1e-4), np.log(LAST / 2 / outside[-2]), FINE_STEP)
                inside = np.zeros(support)
                inside[-1] = 1.0
                fill_inside(drawable, outside, np.exp(log_s), count, inside)
                found[row, column] = _accepted(before[row, :support] - inside)
    return found


@compiled
def fill_inside(q, outside, times, num_children, inside):  # type: ignore[no-untyped-def]
    """`inside` float64 [V] of zeros but for its last entry, made P(all in H) of each prefix H.

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
            inside[j] += FINE_STEP * s * outside[j] * np.exp(-outside[j] * s) * enough


def _by_clocks_together(before: Array, q: Array, counts: Sequence[int]) -> Array:
    """Positions whose slowest child is alike share their nodes."""
    slowest = _slowest(q, counts[-1])
    found = q.new_ones(len(q), len(counts))
    rows = (q > 0).sum(-1).gt(3).nonzero()[:, 0]
    rows = rows[slowest[rows].argsort(descending=True)]
    while len(rows):
        nodes = _nodes(float(slowest[rows[0]]), q)
        most = MAX_CLOCKS.get(q.device.type, MAX_CLOCKS["cuda"])
        now, rows = rows.tensor_split([max(1, most // len(nodes))])
        found[now] = _by_clocks(before[now], q[now], nodes, counts)
    return found


def _slowest(q: Array, num_children: int) -> Array:
    """float64 [N]: 1 / q outside the most probable tokens: how long the last child may take.

    Of a row with no more tokens than children it is that of the last that chance decides on.
    """
    values, tokens = q.topk(num_children - 1)
    earlier = (q > 0).sum(-1, keepdim=True) - 2
    keep = namespace(q).arange(num_children - 1, device=q.device) >= earlier
    rest = q.scatter(-1, tokens, values * keep).sum(-1)
    return 1 / rest.clamp_min_(1e-290)


def _nodes(slowest: float, like: Array) -> Array:
    """Times for all that decides about a child: float64 [T], evenly spaced in their logarithm."""
    num_nodes = int(log(LAST * slowest / FIRST) / LOG_STEP) + 2
    steps = namespace(like).arange(num_nodes, dtype=like.dtype, device=like.device)
    return FIRST * (LOG_STEP * steps).exp()


def _by_clocks(before: Array, q: Array, nodes: Array, counts: Sequence[int]) -> Array:
    """Exponential clocks: token x rings at rate q(x); the first k to ring are the children.

    All lie in H iff k tokens of H rang before the first one outside did, at rate a = 1 - q(H):

        P(all in H) = 1 - integral over s of a exp(-a s) P[fewer than k of H rang by s]

    by the trapezoid rule in log s.  The integrand vanishes at late times; before the first node,
    where nothing rang, it is a (1 - a s), and the nodes left out there form geometric series.

    before  float64 [N, V]  p(H) of each prefix
    q       float64 [N, V]
    nodes   float64 [T]
    counts  k, in a row

    Returns float64 [N, counts].
    """
    xp, outside = namespace(q), sums_from(q)[:, 1:]
    weights = LOG_STEP * nodes
    # rang[b, n, k, t]: at least k of the tokens up to the b-th of the block rang
    rang = q.new_zeros(BLOCK + 1, len(q), counts[-1] + 1, len(nodes))
    rang[:, :, 0] = 1
    least = q.new_zeros(len(q), len(counts))
    for start in range(0, int((q > 0).sum(-1).max()), BLOCK):
        block = slice(start, min(start + BLOCK, q.shape[-1]))
        drawn = (q[:, block].T[..., None] * nodes).neg_().expm1_().neg_()
        for place in range(len(drawn)):
            last = rang[place]
            xp.lerp(last[:, 1:], last[:, :-1], drawn[place, :, None], out=rang[place + 1, :, 1:])
        a = outside[:, block].T[..., None]
        rate = (a * nodes).neg_().exp_().mul_(a * weights)  # [B, N, T]
        both = (rang[1 : len(drawn) + 1, :, counts[0] :] @ rate[..., None])[..., 0]
        inside = 1 - _before_first(a) - rate.sum(-1, keepdim=True) + both
        xp.minimum(least, (before[:, block].T[..., None] - inside).amin(0), out=least)
        rang[0] = rang[len(drawn)]
    return (1 + least).clamp_(0, 1)


def _before_first(a: Array) -> Array:
    """The share that the nodes FIRST exp(-i LOG_STEP), i >= 1, would add; `a` [...] -> [...]."""
    flat = LOG_STEP * FIRST / expm1(LOG_STEP)
    slope = LOG_STEP * FIRST**2 / expm1(2 * LOG_STEP)
    return a * (flat - a * slope)
