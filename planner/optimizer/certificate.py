"""How far from the best can a plan be?  A rate that no static tree within the limits exceeds.

The rate of a tree of n nodes is E / C tokens per millisecond: E the sum of reach over its nodes,
C = verify(n) + overhead(n) + draft_root + the sum of draft(b) over the levels below the root that
have b > 0 expanded nodes (nodes with children).  As in Dinkelbach (1967), no tree exceeds the rate
L if and only if  E - L C <= 0  for all of them.  From above, by level (the relaxation is ours): a
tree that gives m[l] children to b[l] nodes of level l, down to level D, has

    E - L C  <=  1 + W(0, m[0]) + ... + W(D, m[D]) - L (verify(n) + overhead(n) + draft_root)    (*)
    W(l, m) = max over b of  G(l, b, m) - L draft(b);      W(0, m) = G(0, 1, m)
    G(l, b, m) = max over c[1] + ... + c[b] = m, c >= 1, of  sum over r of  f[l, r] S(l, c[r])

where S(l, c) is the sum of the rates of c siblings below a node of level l, and f[l, 1] >= f[l, 2]
>= ... dominates what nodes of level l reach: in any tree the r largest reaches of the level sum to
no more than f[l, 1] + ... + f[l, r], for every r.  Only the nesting of the levels is given up: the
b nodes of most reach are expanded at every level, whether or not one tree can have all of them.

Proof of (*).  A node of reach x with c children adds x S(l, c) to E, and c to n - 1 = m[0] + ... +
m[D].  Of a level's b expanded nodes let x[1] >= x[2] >= ... be the reaches, and s[1] >= s[2] >= ...
their S(l, c), sorted too.  Paired off like this they sum to no less than as they are, and

    sum of x[r] s[r] = sum over r of (s[r] - s[r+1]) (x[1] + ... + x[r]),      s[b+1] = 0

has no negative weights, so that it does not fall when f replaces x: it is at most G(l, b, m).

Proof that f dominates.  Let a[l, 1] >= a[l, 2] >= ... be the steps of the least concave function
nowhere below A(j) = the largest sum of j rates among siblings below a node of level l, over all
numbers of siblings.  Let f[0] = (1), and f[l+1] the products f[l, i] a[l, k], sorted.  A sequence u
dominates v if and only if  sum (u - t)+ >= sum (v - t)+  for every t (Hardy, Littlewood, Polya).
If f[l] dominates the reaches x of its level, and a[l] the rates w of every family of siblings, then
over all children the sum of (x w - t)+ is at most that of (x a[k] - t)+, for w is dominated by a,
and this at most that of (f[i] a[k] - t)+, for x is dominated by f.  (Where siblings make no
difference, a[l] is the sorted rates, and f[l] the largest reaches of the complete tree.)

Where siblings make a difference, a is what no one family has.  There the trees are told apart by
the number of children of the root, each kind under the law with that one family at the root (the
others' rates 0), and the bound is the largest over all kinds: the root's part of a is then exact.

In G, S is replaced by the least concave function above it, so that the best c are found greedily.
A tree of n nodes with b expanded on level l >= 1 has a root, a node on each of the levels 1..l-1,
b on level l and b below: 2 b <= n - l.  Sizes and widths that were not measured are not admissible.

The largest right side of (*) over m[0], m[1], ... of sum n - 1 is a programme over levels, for all
n at once: O(n^2 d) for n nodes and d levels.  Dinkelbach's steps raise L until none is positive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiling import compiled
from ..estimates.law import AcceptanceLaw
from ..estimates.step_costs import StepCosts
from .problem import Limits

_EPS = float(np.finfo(np.float64).eps)


def upper_bound(law: AcceptanceLaw, costs: StepCosts, limits: Limits) -> float:
    """Tokens per millisecond that no static tree within the limits can exceed.

    Proven (see above) for all trees whose size and widths were measured, under the law and the
    costs given; the lone root, at one token per `autoregressive_ms`, is one of them.  No tree need
    attain it.

    Method: Dinkelbach, "On nonlinear fractional programming", Management Science 13 (1967), over a
    relaxation by level that is ours.
    """
    alone = 1 / costs.autoregressive_ms
    first = max(2, costs.verify.first, costs.overhead.first)
    last = min(limits.max_nodes, costs.max_nodes)
    if first > last or limits.max_depth < 1:
        return alone
    law = law.limited(last - 1)
    num_levels = min(limits.max_depth, last - 1)
    last = min(last, _capacity(law.num_ranks, num_levels))
    if first > last:
        return alone
    bound = alone
    for part in _by_root(law):
        bound = _raise_bound(_relaxation(part, costs, last, num_levels), first, bound)
    return float(bound * (1 + _rounding(last, num_levels, law.num_ranks)))


def _by_root(law: AcceptanceLaw) -> list[AcceptanceLaw]:
    """Laws of which each tree obeys one: where siblings matter, one per number below the root."""
    if law.by_rank_alone:
        return [law]
    deeper = law.rates[1:] if len(law.rates) > 1 else law.rates
    parts = []
    for count in range(law.num_ranks):
        root = np.zeros_like(law.rates[:1])
        root[0, count] = law.rates[0, count]
        parts.append(AcceptanceLaw(np.concatenate([root, deeper])))
    return parts


class _Relaxation(NamedTuple):
    """The numbers that the right side of (*) is made of."""

    reach: np.ndarray
    """float64 [num_levels, widest]: f, falling along each row."""
    num_reached: np.ndarray
    """int64 [num_levels]: how many entries of the row there are nodes for; the others are 0."""
    steps: np.ndarray
    """float64 [num_levels, num_ranks]: what each further child adds to S, made concave."""
    draft_ms: np.ndarray
    """float64 [widest + 1]: a draft pass, by width; inf where unknown."""
    fixed_ms: np.ndarray
    """float64 [last + 1]: verification, overhead and the draft pass at the root, by size."""


def _relaxation(law: AcceptanceLaw, costs: StepCosts, last: int, num_levels: int) -> _Relaxation:
    widest = max(1, (last - 1) // 2)
    levels = np.minimum(np.arange(num_levels), len(law.rates) - 1)
    reach, num_reached = _dominating_reach(_dominating_rates(law)[levels], widest)
    return _Relaxation(
        reach=reach,
        num_reached=num_reached,
        steps=_steps_of_children(law)[levels],
        draft_ms=costs.draft.table(widest),
        fixed_ms=costs.verify.table(last) + costs.overhead.table(last) + costs.draft_root.ms,
    )


def _steps_of_children(law: AcceptanceLaw) -> np.ndarray:
    """float64 [depths, num_ranks]: steps of the least concave function of c >= 1 above S."""
    tokens = np.cumsum(law.rates[:, 0], axis=1) if law.by_rank_alone else law.rates.sum(axis=2)
    return np.column_stack([tokens[:, 0], *_concave_steps(tokens).T])


def _dominating_rates(law: AcceptanceLaw) -> np.ndarray:
    """a, float64 [depths, num_ranks]."""
    largest = np.cumsum(-np.sort(-law.rates, axis=2), axis=2).max(axis=1)
    return _concave_steps(np.pad(largest, ((0, 0), (1, 0))))


def _dominating_reach(rates: np.ndarray, widest: int) -> tuple[np.ndarray, np.ndarray]:
    """(f float64 [num_levels, widest], entries in use by level int64 [num_levels])."""
    reach = np.zeros((len(rates), widest))
    num_reached = np.zeros(len(rates), np.int64)
    level = np.ones(1)
    for depth, below in enumerate(rates):
        num_reached[depth] = len(level)
        reach[depth, : len(level)] = level
        level = np.sort(np.outer(level, below), axis=None)[::-1][:widest]
    return reach, num_reached


def _concave_steps(values: np.ndarray) -> np.ndarray:
    """Steps of the least concave function nowhere below each row: [rows, k] -> [rows, k - 1]."""
    steps = np.zeros((len(values), values.shape[1] - 1))
    for row, out in zip(values, steps, strict=True):
        _fill_concave_steps(row, out)
    return steps


def _capacity(num_ranks: int, depth: int) -> int:
    """Nodes of the complete tree."""
    return sum(num_ranks**level for level in range(depth + 1))


def _rounding(last: int, num_levels: int, num_ranks: int) -> float:
    """The share of itself by which rounding can have lowered the bound.

    Tokens and milliseconds of (*) are sums of fewer than 2 (last + num_levels) terms, none of them
    negative.  Differences of sums of rates are off by up to num_ranks roundings of 1, at each of
    num_ranks children at each level of nodes whose reaches sum to at most 1.
    """
    return 4 * _EPS * (2 * (last + num_levels) + num_levels * num_ranks**2)


@compiled
def _raise_bound(relaxation, first, rate):  # type: ignore[no-untyped-def]
    """The least rate >= `rate` at which (*) is positive for no size from `first` on."""
    last = len(relaxation.fixed_ms) - 1
    while True:
        value, draft_ms = _best_by_size(relaxation, rate)
        worst, raised = 0.0, rate
        for size in range(first, last + 1):
            excess = value[size] - rate * relaxation.fixed_ms[size]
            if excess > worst:
                worst = excess
                raised = rate + excess / (relaxation.fixed_ms[size] + draft_ms[size])
        if worst <= 0.0:
            return rate
        rate = max(raised, rate * (1.0 + 1e-15))


@compiled
def _best_by_size(relaxation, rate):  # type: ignore[no-untyped-def]
    """(largest 1 + sum of W by size, -inf for none; milliseconds of the draft passes in it)."""
    last = len(relaxation.fixed_ms) - 1
    best, best_ms = np.full(last + 1, -np.inf), np.zeros(last + 1)
    above, above_ms = np.full(last + 1, -np.inf), np.zeros(last + 1)
    above[1] = 1.0
    for level in range(len(relaxation.reach)):
        gain, gain_ms = _best_by_children(relaxation, level, rate)
        value, value_ms = np.full(last + 1, -np.inf), np.zeros(last + 1)
        for children in range(1, last):
            if gain[children] == -np.inf:
                continue
            for size in range(children + level + 1, last + 1):
                total = above[size - children] + gain[children]
                if total > value[size]:
                    value[size] = total
                    value_ms[size] = above_ms[size - children] + gain_ms[children]
        for size in range(2, last + 1):
            if value[size] > best[size]:
                best[size], best_ms[size] = value[size], value_ms[size]
        above, above_ms = value, value_ms
    return best, best_ms


@compiled
def _best_by_children(relaxation, level, rate):  # type: ignore[no-untyped-def]
    """(W(level, m) by m, -inf for none; milliseconds of the draft pass in it)."""
    last = len(relaxation.fixed_ms) - 1
    reach, steps = relaxation.reach[level], relaxation.steps[level]
    gain, gain_ms = np.full(last, -np.inf), np.zeros(last)
    widest = 1 if level == 0 else min((last - level) // 2, relaxation.num_reached[level])
    firsts = 0.0  # tokens of the first children
    others, merged = np.zeros(last), np.zeros(last)  # those of the best further ones, each
    num_others = 0
    for b in range(1, widest + 1):
        firsts += reach[b - 1] * steps[0]
        num_others = _merge(others, num_others, reach[b - 1], steps, last - 1 - b, merged)
        others, merged = merged, others
        draft_ms = relaxation.draft_ms[b] if level > 0 else 0.0
        if draft_ms == np.inf:
            continue
        value = firsts - rate * draft_ms
        for m in range(b, b + num_others + 1):
            if m > b:
                value += others[m - b - 1]
            if value > gain[m]:
                gain[m], gain_ms[m] = value, draft_ms
    return gain, gain_ms


@compiled
def _merge(falling, length, reach, steps, most, merged):  # type: ignore[no-untyped-def]
    """The `most` largest of `falling[:length]` and reach * steps[1:], falling; return how many."""
    i, k, count = 0, 1, 0
    while count < most and (i < length or k < len(steps)):
        if k == len(steps) or (i < length and falling[i] >= reach * steps[k]):
            merged[count] = falling[i]
            i += 1
        else:
            merged[count] = reach * steps[k]
            k += 1
        count += 1
    return count


@compiled
def _fill_concave_steps(values, steps):  # type: ignore[no-untyped-def]
    corners = np.zeros(len(values), np.int64)  # places where the concave function touches
    count = 0
    for place in range(len(values)):
        while count > 1:
            a, b = corners[count - 2], corners[count - 1]
            if (values[b] - values[a]) * (place - a) > (values[place] - values[a]) * (b - a):
                break
            count -= 1
        corners[count] = place
        count += 1
    for corner in range(1, count):
        a, b = corners[corner - 1], corners[corner]
        steps[a:b] = (values[b] - values[a]) / (b - a)
