"""Pair look-ahead rejection at one node, compiled: how it decides, and how often it accepts.

The names are those of `LookAhead`: u, e, A, S, give, take, Z and K.  The rates are the exact twin
of `LookAhead.masses`: no single precision, and every path of rejected pairs where they are few.
"""

from __future__ import annotations

import numpy as np

from ..compiling import compiled
from .rejected_paths import draw, fill_untried, rates_over_paths
from .rejection import SWEEPS


def lookahead_rates(
    p: np.ndarray, q: np.ndarray, num_children: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(rates, standard errors), float64 [P, num_children]; see `rates_over_paths`."""
    uniforms = (rng, num_children)
    return rates_over_paths(p, q, num_children, uniforms, _add_enumerated, _fill_paths)


@compiled
def rejected_pair(target, draft, tried, first, second):  # type: ignore[no-untyped-def]
    """Take the children (a, y), drawn from D, where e(a) > 0, for rejected; R and D are updated.

    target, draft  float64 [V]  R and D, each summing to 1
    tried          bool [V]     tokens tried earlier; a and y join them

    Returns (give(a) take(y), D(a) - A(a) give(a) K): y is accepted first with the one as its
    chance, and a then with the chance R(a) over the other.
    """
    pairs = np.empty((4, len(target)))
    given, taken = _fill_handover(target, draft, tried, pairs)
    chance = 0.0
    if pairs[0, first] > 0.0 and pairs[1, second] > 0.0:
        chance = pairs[2, first] / pairs[0, first] * (pairs[3, second] / pairs[1, second])
    weight = draft[first] - pairs[2, first] * taken
    before = target.copy()
    if _reject(target, draft, pairs[3], given) == 0.0:
        for x in range(len(target)):  # by rounding alone: exactly, none would be rejected
            target[x] = before[x]
    tried[first] = tried[second] = True
    fill_untried(draft, tried)
    return chance, weight


@compiled
def _add_enumerated(target, draft, tried, weight, rank, rates):  # type: ignore[no-untyped-def]
    """Add what every path of rejected pairs contributes from `rank` on to `rates`."""
    rates[rank] += weight * np.minimum(target, draft).sum()
    if rank + 1 == len(rates):
        return
    pairs = np.empty((4, len(target)))
    given, taken = _fill_handover(target, draft, tried, pairs)
    rates[rank + 1] += weight * given * taken
    if rank + 2 == len(rates):
        return
    residual = target.copy()
    if _reject(residual, draft, pairs[3], given) == 0.0:
        return
    rejected = _first_rejected(target, draft, pairs, taken)
    for a in np.flatnonzero(rejected):
        partner = _second_rejected(pairs, a)
        partner *= weight * rejected[a] / max(partner.sum(), 1e-300)
        for y in np.flatnonzero(partner):
            tried[a] = tried[y] = True
            rest = draft.copy()
            fill_untried(rest, tried)
            _add_enumerated(residual, rest, tried, partner[y], rank + 2, rates)
            tried[a] = tried[y] = False


@compiled
def _fill_paths(p, q, uniforms, paths):  # type: ignore[no-untyped-def]
    """paths [paths, ranks]: expected acceptance along each sampled path of rejected pairs."""
    num_children = paths.shape[1]
    pairs = np.empty((4, len(p)))
    for path in range(len(paths)):
        target, draft = p.copy(), q.copy()
        tried = np.zeros(len(p), np.bool_)
        survival = 1.0
        for rank in range(0, num_children, 2):
            paths[path, rank] = survival * np.minimum(target, draft).sum()
            if rank + 1 == num_children:
                break
            given, taken = _fill_handover(target, draft, tried, pairs)
            paths[path, rank + 1] = survival * given * taken
            if rank + 2 >= num_children:
                break
            a = draw(_first_rejected(target, draft, pairs, taken), uniforms[path, rank])
            if a < 0:
                break
            y = draw(_second_rejected(pairs, a), uniforms[path, rank + 1])
            survival *= _reject(target, draft, pairs[3], given)
            if y < 0 or survival == 0.0:
                break
            tried[a] = tried[y] = True
            fill_untried(draft, tried)


@compiled(fastmath={"reassoc"}, error_model="numpy")
def _fill_handover(target, draft, tried, pairs):  # type: ignore[no-untyped-def]
    """Fill A (0 where nothing is to be rejected), S, A give and S take, the rows of `pairs`,
    float64 [4, V]; return (Z, K), both 0 if nothing is handed on."""
    giving, following, handed, taken = pairs[0], pairs[1], pairs[2], pairs[3]
    top = draft.argmax()
    beside = 0.0  # 1 - D(top), without the cancellation
    for y in range(len(draft)):
        beside += draft[y] if y != top else 0.0
    for y in range(len(draft)):
        following[y] = draft[y]
    if beside <= 0.0:
        beside = draft[top]
        untried = max(len(draft) - tried.sum() - 1, 1)
        for y in range(len(draft)):
            following[y] = 0.0 if tried[y] or y == top else 1.0 / untried
    for a in range(len(draft)):
        left = beside if a == top else 1.0 - draft[a]
        giving[a] = draft[a] / left if draft[a] > target[a] else 0.0
    sum_handed, sum_taken = 0.0, 1.0
    for _ in range(SWEEPS):
        before, sum_handed = sum_taken, 0.0
        for a in range(len(draft)):
            handed[a] = min(giving[a], max(draft[a] - target[a], 0.0) / before)
            sum_handed += handed[a]
        if sum_handed == 0.0:
            break
        sum_taken = 0.0
        for y in range(len(draft)):
            taken[y] = min(following[y], max(target[y] - draft[y], 0.0) / sum_handed)
            sum_taken += taken[y]
        if sum_taken in (0.0, before):
            break
    if sum_handed == 0.0 or sum_taken == 0.0:
        pairs[2:] = 0.0
        return 0.0, 0.0
    return sum_handed, sum_taken


@compiled
def _first_rejected(target, draft, pairs, taken):  # type: ignore[no-untyped-def]
    """float64 [V]: the chance of each token to be rejected as the first of a pair."""
    return np.maximum(np.maximum(draft - target, 0.0) - pairs[2] * taken, 0.0)


@compiled
def _second_rejected(pairs, first):  # type: ignore[no-untyped-def]
    """float64 [V]: the weight of each token to be rejected behind `first`."""
    partner = np.maximum(pairs[1] - pairs[2, first] / pairs[0, first] * pairs[3], 0.0)
    partner[first] = 0.0
    return partner


@compiled
def _reject(target, draft, taken, given):  # type: ignore[no-untyped-def]
    """Update R in place after both were rejected; return the chance of that, 0 if nothing is left.

    R is left undefined where the chance is 0.
    """
    left = 0.0
    for y in range(len(target)):
        target[y] = max(max(target[y] - draft[y], 0.0) - taken[y] * given, 0.0)
        left += target[y]
    if left > 0.0:
        target /= left
    return left
