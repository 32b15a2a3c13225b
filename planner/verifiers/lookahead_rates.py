"""How often does pair look-ahead rejection accept each child?  Compiled; see `LookAhead`.

The names are those of its docstring: u, e, A, S, give, take, Z and K.  This is the exact twin of
`LookAhead.masses`: no single precision anywhere, and every path of rejected pairs where they are
few.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .rejected_paths import MAX_ENUMERATED, draw, fill_untried, mean_and_error, path_uniforms
from .rejection import SWEEPS


def lookahead_rates(
    p: np.ndarray, q: np.ndarray, num_children: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(rates, standard errors), float64 [P, num_children]: by rank, unconditional.

    p, q  float64 [P, V]

    The first pair is exact; so is the rest where all its paths are enumerated.
    """
    rates = np.zeros((len(p), num_children))
    errors = np.zeros_like(rates)
    enumerable = p.shape[1] ** num_children <= MAX_ENUMERATED
    for i in range(len(p)):
        if enumerable or num_children <= 2:
            nothing_tried = np.zeros(p.shape[1], np.bool_)
            _add_enumerated(p[i], q[i], nothing_tried, 1.0, 0, rates[i])
            continue
        uniforms = path_uniforms(rng, num_children)
        paths = np.zeros_like(uniforms)
        _fill_paths(p[i], q[i], uniforms, paths)
        rates[i], errors[i] = mean_and_error(paths)
    return rates, errors


@njit(cache=True)
def _add_enumerated(target, draft, tried, weight, rank, rates):  # type: ignore[no-untyped-def]
    """Add what every path of rejected pairs contributes from `rank` on to `rates`."""
    rates[rank] += weight * np.minimum(target, draft).sum()
    if rank + 1 == len(rates):
        return
    vocabulary = len(target)
    pairs = np.zeros((4, vocabulary))
    share, second, give, take = pairs[0], pairs[1], pairs[2], pairs[3]
    given, taken = _fill_handover(target, draft, tried, pairs)
    rates[rank + 1] += weight * given * taken
    if rank + 2 == len(rates):
        return
    residual = target.copy()
    if _reject(residual, draft, second, take, given) == 0.0:
        return
    for a in range(vocabulary):
        rejected = max(draft[a] - target[a], 0.0) - share[a] * give[a] * taken
        if rejected <= 0.0:
            continue
        partner = second * (1.0 - give[a] * take)
        partner[a] = 0.0
        for y in range(vocabulary):
            if partner[y] > 0.0:
                gone = tried.copy()
                gone[a] = gone[y] = True
                rest = draft.copy()
                fill_untried(rest, gone)
                share_of_pair = weight * rejected * (partner[y] / partner.sum())
                _add_enumerated(residual, rest, gone, share_of_pair, rank + 2, rates)


@njit(cache=True)
def _fill_paths(p, q, uniforms, paths):  # type: ignore[no-untyped-def]
    """paths [paths, ranks]: expected acceptance along each sampled path of rejected pairs."""
    num_children, vocabulary = paths.shape[1], len(p)
    pairs = np.zeros((4, vocabulary))
    share, second, give, take = pairs[0], pairs[1], pairs[2], pairs[3]
    for path in range(len(paths)):
        target, draft = p.copy(), q.copy()
        tried = np.zeros(vocabulary, np.bool_)
        survival = 1.0
        for rank in range(0, num_children, 2):
            paths[path, rank] = survival * np.minimum(target, draft).sum()
            if rank + 1 == num_children:
                break
            given, taken = _fill_handover(target, draft, tried, pairs)
            paths[path, rank + 1] = survival * given * taken
            if rank + 2 >= num_children:
                break
            rejected = np.maximum(np.maximum(draft - target, 0.0) - share * give * taken, 0.0)
            a = draw(rejected, uniforms[path, rank])
            if a < 0:
                break
            partner = second * (1.0 - give[a] * take)
            partner[a] = 0.0
            y = draw(partner, uniforms[path, rank + 1])
            survival *= _reject(target, draft, second, take, given)
            if y < 0 or survival == 0.0:
                break
            tried[a] = tried[y] = True
            fill_untried(draft, tried)


@njit(cache=True)
def _fill_handover(target, draft, tried, pairs):  # type: ignore[no-untyped-def]
    """Fill A, S, give and take, the rows of `pairs`, float64 [4, V]; return (Z, K), (0, 0) if
    nothing is handed on."""
    share, second, give, take = pairs[0], pairs[1], pairs[2], pairs[3]
    vocabulary = len(target)
    top = draft.argmax()
    others = 0.0  # 1 - D(top), without the cancellation
    for y in range(vocabulary):
        if y != top:
            others += draft[y]
    second[:] = draft
    if others <= 0.0:
        others = draft[top]
        untried = max(vocabulary - tried.sum() - 1, 1)
        for y in range(vocabulary):
            second[y] = 0.0 if tried[y] or y == top else 1.0 / untried
    for a in range(vocabulary):
        left = others if a == top else 1.0 - draft[a]
        share[a] = draft[a] / left if draft[a] > target[a] else 0.0
    give[:] = 0.0
    take[:] = 0.0
    given, taken = 0.0, 1.0
    for _ in range(SWEEPS):
        given = 0.0
        for a in range(vocabulary):
            if share[a] > 0.0:
                excess, wanted = draft[a] - target[a], share[a] * taken
                give[a] = 1.0 if excess >= wanted else excess / wanted
                given += share[a] * give[a]
        taken = 0.0
        for y in range(vocabulary):
            lack = target[y] - draft[y]
            if lack > 0.0:
                wanted = second[y] * given
                take[y] = 1.0 if lack >= wanted else lack / wanted
                taken += second[y] * take[y]
        if given == 0.0 or taken == 0.0:
            give[:] = 0.0
            take[:] = 0.0
            return 0.0, 0.0
    return given, taken


@njit(cache=True)
def _reject(target, draft, second, take, given):  # type: ignore[no-untyped-def]
    """Update R in place after both were rejected; return the chance of that, 0 if nothing is left.

    R is left undefined where the chance is 0.
    """
    left = 0.0
    for y in range(len(target)):
        target[y] = max(max(target[y] - draft[y], 0.0) - second[y] * take[y] * given, 0.0)
        left += target[y]
    if left > 0.0:
        for y in range(len(target)):
            target[y] /= left
    return left
