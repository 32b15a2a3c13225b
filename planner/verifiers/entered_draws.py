"""Children drawn given the token that comes out, compiled: the twin of what
`Rejection.draw_entered` says of it, by the same random numbers."""

from __future__ import annotations

import numpy as np

from ..compiling import compiled
from .compiled_rejection import BLOCK, drawn_at, fill_excess, fill_if_empty, fill_sums
from .namespace import TINY


def entered_draws(
    entered: np.ndarray,
    p: np.ndarray,
    q: np.ndarray,
    tokens: np.ndarray,
    uniforms: np.ndarray,
    *,
    distinct: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(children int64 [w, k], ranks int64 [w], entering float64 [w, k]): see `draw_entered`.

    entered   float64 [w]
    p, q      float [w, V]       of any sum
    tokens    int64 [w]          -1: the walk does not end there
    uniforms  float64 [k, 2, w]  in [0, 1): whether the token is the child of each rank, and else
                                 which one is
    distinct  is a child that was tried gone from the draft?
    """
    children = np.empty((len(tokens), len(uniforms)), np.int64)
    ranks, entering = np.full(len(tokens), -1), np.empty(children.shape)
    laws, found = (entered, p, q, tokens), (children, ranks, entering)
    _fill_draws(laws, uniforms, distinct, found)
    return found


@compiled(nogil=True, error_model="numpy")
def _fill_draws(laws, uniforms, distinct, found):  # type: ignore[no-untyped-def]
    entered, p, q, tokens = laws
    children, ranks, entering = found
    size = p.shape[1]
    target, draft, excess = np.zeros(size), np.zeros(size), np.zeros(size)
    sums = np.zeros((size + BLOCK - 1) // BLOCK)
    for i in range(len(tokens)):
        target[:], draft[:], token = p[i], q[i], tokens[i]
        tried = np.zeros(size, np.bool_)
        of_target, of_draft = entered[i] / max(target.sum(), TINY), 1.0 / max(draft.sum(), TINY)
        missing = 1.0 - entered[i]
        for rank in range(len(uniforms)):
            coin, uniform = uniforms[rank, 0, i], uniforms[rank, 1, i]
            least = 0.0
            if token >= 0:
                least = min(target[token] * of_target, draft[token] * of_draft)
            _, lack = fill_excess(target, of_target, draft, of_draft, excess, sums)
            of_target = 1.0
            searching = ranks[i] < 0
            if searching and token >= 0 and _is_heads(target[token], least, coin):
                child, ranks[i] = token, rank
            else:
                rejected = searching and sums.sum() > 0.0
                if not rejected:
                    fill_sums(draft, sums)
                child = drawn_at(excess if rejected else draft, sums, uniform)
            children[i, rank] = child
            chance = draft[child] * of_draft
            residual = target[child] + (chance - excess[child])
            entering[i, rank] = min(residual / max(chance, TINY), 1.0)
            left = lack + missing
            if left > 0.0:
                of_target = 1.0 / max(left, TINY)
            else:  # they are equal up to rounding: the target's stays
                target[:] = draft * of_draft - excess
            missing /= max(left, TINY)
            if distinct:
                tried[child], draft[child] = True, 0.0
                of_draft = fill_if_empty(draft, tried)


@compiled(nogil=True)
def _is_heads(tails, heads, uniform):  # type: ignore[no-untyped-def]
    """The coin's word at `uniform`; a fair one where neither side has any weight."""
    if tails + heads == 0.0:
        return uniform >= 0.5
    return uniform * (tails + heads) >= tails
