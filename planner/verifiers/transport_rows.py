"""The most that any verifier could accept, at many nodes and for every number of children at once.

    alpha*(k) = 1 + min over token sets H of  p(H) - P(all k children lie in H)

and the minimising H is a prefix of the tokens sorted by q / p, largest first: one sort for every
number of children (Hu et al., ICLR 2025, "Towards optimal multi-draft speculative decoding").

This is the fast twin of `transport.bound` for torch tensors, on a GPU too: profiles hold the
optimum at thousands of positions.  Tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Callable
from math import expm1, log

from .namespace import Array, in_chunks, namespace
from .rejection import TINY, rows_to_one

MAX_CLOCKS = {"cpu": 1 << 12, "cuda": 1 << 17}
"""Clocks (positions x nodes) that are advanced together, token by token."""

MIN_ROWS = 64
"""Fewer positions at once would not be worth a walk through the vocabulary."""

BLOCK = 16
"""Tokens between two summations over the nodes."""

LOG_STEP = 0.3
FIRST = 2e-4
"""The first node in time: until then at most FIRST^3 / 6 of three children were drawn."""

LAST = 80.0
"""The last node, over the mean time until the slowest child is drawn: e^-80 are late."""

Bound = Callable[[Array, Array, int], Array]
"""(p, q float64 [N, V], rows sorted as by `_sorted`, num_children) -> [N, num_children]"""


def optimal_with_replacement(p: Array, q: Array, num_children: int) -> Array:
    """Best acceptance of 1..num_children children drawn from q independently.

    p, q  float tensors [N, V]

    Returns float64 [N, num_children], non-decreasing along each row.  Exact.
    """
    return _in_chunks(_independent, p, q, num_children)


def optimal_without_replacement(p: Array, q: Array, num_children: int) -> Array:
    """Best acceptance of 1..num_children <= V children, none drawn twice.

    p, q  float tensors [N, V]; where q has fewer tokens than there are children, the other children
          are drawn evenly from those left

    Returns float64 [N, num_children], non-decreasing along each row up to its error.  Exact up to
    two children; beyond, by quadrature, at some thirty times the cost: its error grows with the
    number of children, to below 1e-10 for five and some 1e-9 for eight.
    """
    few = _in_chunks(_one_or_two, p, q, min(num_children, 2))
    if num_children <= 2:
        return few
    more = _in_chunks(_three_or_more, p, q, num_children, min_rows=MIN_ROWS)
    return namespace(p).cat((few, more), -1)


def _in_chunks(bound: Bound, p: Array, q: Array, num_children: int, *, min_rows: int = 1) -> Array:
    chunks = in_chunks((p, q), least=min_rows)
    return namespace(p).cat([bound(*_sorted(*part), num_children) for part in chunks])


def _sorted(p: Array, q: Array) -> tuple[Array, Array]:
    """Both as float64 distributions, by q / p falling; tokens without q last, by p rising."""
    p, q = rows_to_one(p.double()), rows_to_one(q.double())
    order = (q / p).clamp_min_(TINY).where(q > 0, -p).argsort(dim=-1, descending=True)
    return p.gather(-1, order), q.gather(-1, order)


def _accepted(cut: Array) -> Array:
    """1 + the smallest cut, that of no tokens at all (0) included; cut float64 [N, V] -> [N]."""
    return (1 + cut.amin(-1).clamp_(max=0)).clamp_(min=0)


def _independent(p: Array, q: Array, num_children: int) -> Array:
    """P(all in H) = q(H)^k."""
    before, mass = p.cumsum(-1), q.cumsum(-1).clamp_(max=1)
    inside, found = mass.clone(), []
    for _ in range(num_children):
        found.append(_accepted(before - inside))
        inside *= mass
    return namespace(p).stack(found, -1)


def _one_or_two(p: Array, q: Array, num_children: int) -> Array:
    """P(both in H) = q(H) - (1 - q(H)) times the sum over H of q / (1 - q)."""
    before, mass = p.cumsum(-1), q.cumsum(-1)
    found = [_accepted(before - mass)]
    if num_children == 2:
        top = q.argmax(-1, keepdim=True)
        beside = q.scatter(-1, top, 0.0).sum(-1, keepdim=True)  # 1 - q(top), not cancelled
        left = (1 - q).scatter_(-1, top, beside).clamp_min_(TINY)
        inside = mass - _outside(q) * (q / left).cumsum(-1)
        found.append(_with_exhausted(_accepted(before - inside), before, q, 2))
    return namespace(p).stack(found, -1)


def _three_or_more(p: Array, q: Array, num_children: int) -> Array:
    """float64 [N, num_children - 2]"""
    before = p.cumsum(-1)
    slowest = _slowest(q, num_children)
    found = q.new_ones(len(q), num_children - 2)
    rows = (q > 0).sum(-1).gt(3).nonzero()[:, 0]
    rows = rows[slowest[rows].argsort(descending=True)]  # alike together: they share their nodes
    while len(rows):
        nodes = _nodes(float(slowest[rows[0]]), q)
        most = MAX_CLOCKS.get(q.device.type, MAX_CLOCKS["cuda"])
        now, rows = rows.tensor_split([max(1, most // len(nodes))])
        found[now] = _by_clocks(before[now], q[now], nodes, num_children)
    for index in range(num_children - 2):
        found[:, index] = _with_exhausted(found[:, index], before, q, index + 3)
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


def _by_clocks(before: Array, q: Array, nodes: Array, num_children: int) -> Array:
    """Exponential clocks: token x rings at rate q(x); the first k to ring are the children.

    All lie in H iff k tokens of H rang before the first one outside did, at rate a = 1 - q(H):

        P(all in H) = 1 - integral over s of a exp(-a s) P[fewer than k of H rang by s]

    by the trapezoid rule in log s.  The integrand vanishes at late times; before the first node,
    where nothing rang, it is a (1 - a s), and the nodes left out there form geometric series.

    before  float64 [N, V]  p(H) of each prefix
    q       float64 [N, V]
    nodes   float64 [T]

    Returns float64 [N, num_children - 2], for 3 children and more.
    """
    xp, outside = namespace(q), _outside(q)
    weights = LOG_STEP * nodes
    # rang[b, n, k, t]: at least k of the tokens up to the b-th of the block rang
    rang = q.new_zeros(BLOCK + 1, len(q), num_children + 1, len(nodes))
    rang[:, :, 0] = 1
    least = q.new_zeros(len(q), num_children - 2)
    for start in range(0, int((q > 0).sum(-1).max()), BLOCK):
        block = slice(start, min(start + BLOCK, q.shape[-1]))
        drawn = (q[:, block].T[..., None] * nodes).neg_().expm1_().neg_()
        for place in range(len(drawn)):
            last = rang[place]
            xp.lerp(last[:, 1:], last[:, :-1], drawn[place, :, None], out=rang[place + 1, :, 1:])
        a = outside[:, block].T[..., None]
        rate = (a * nodes).neg_().exp_().mul_(a * weights)  # [B, N, T]
        both = (rang[1 : len(drawn) + 1, :, 3:] @ rate[..., None])[..., 0]
        inside = 1 - _before_first(a) - rate.sum(-1, keepdim=True) + both
        xp.minimum(least, (before[:, block].T[..., None] - inside).amin(0), out=least)
        rang[0] = rang[len(drawn)]
    return (1 + least).clamp_(0, 1)


def _before_first(a: Array) -> Array:
    """The share that the nodes FIRST exp(-i LOG_STEP), i >= 1, would add; `a` [...] -> [...]."""
    flat = LOG_STEP * FIRST / expm1(LOG_STEP)
    slope = LOG_STEP * FIRST**2 / expm1(2 * LOG_STEP)
    return a * (flat - a * slope)


def _outside(q: Array) -> Array:
    """float64 [N, V]: the mass behind each prefix, summed from the end, not 1 - mass."""
    behind = q.flip(-1).cumsum(-1).flip(-1)
    return namespace(q).cat((behind[:, 1:], q.new_zeros(len(q), 1)), -1)


def _with_exhausted(found: Array, before: Array, q: Array, num_children: int) -> Array:
    """`found` [N], but right for rows whose tokens are all drawn, the other children evenly.

    With S tokens in q, P(all in a prefix of n) = C(n - S, k - S) / C(V - S, k - S), 0 if n < S.
    """
    support = (q > 0).sum(-1)
    rows = (support <= num_children).nonzero()[:, 0]
    if not len(rows):
        return found
    tokens = support[rows, None]
    xp = namespace(q)
    further = xp.arange(1.0, q.shape[-1] + 1, dtype=q.dtype, device=q.device) - tokens
    inside = (further >= 0).to(q.dtype)
    for drawn in range(num_children):
        share = (further - drawn).clamp_(min=0) / (q.shape[-1] - tokens - drawn)
        inside *= xp.where(tokens + drawn < num_children, share, 1.0)
    return found.index_copy(0, rows, _accepted(before[rows] - inside))
