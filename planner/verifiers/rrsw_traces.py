"""Recursive rejection without replacement along a text, compiled: the twin of what
`RecursiveRejection.masses_entered` says of it, by the same random numbers.

R and D are kept without being scaled, each with the factor that makes it sum to what it should.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..compiling import compiled
from .namespace import TINY

BLOCK = 64
"""Tokens whose excess is summed up together, so that most of them need not be gone through one by
one when one is drawn."""


def rrsw_traces(
    entered: float, p: np.ndarray, q: np.ndarray, tokens: np.ndarray, draws: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(expected, emitted, entering), float64 [N, ranks] each, as in `Traced`.

    p, q    float64 [N, V]  rows summing to 1
    tokens  int64 [N]
    draws   float64 [N, 1] for each rank but the last: which token is rejected
    """
    uniforms = np.concatenate([*draws, np.zeros((len(p), 1))], axis=-1)
    expected, emitted, entering = np.zeros((3, *uniforms.shape))
    _fill_traces(entered, (p, q, tokens, uniforms), (expected, emitted, entering))
    return expected, emitted, entering


@compiled(nogil=True)
def _fill_traces(entered, nodes, traces):  # type: ignore[no-untyped-def]
    p, q, tokens, uniforms = nodes
    expected, emitted, entering = traces
    size = p.shape[1]
    excess, sums = np.zeros(size), np.zeros((size + BLOCK - 1) // BLOCK)
    for i in range(len(p)):
        token, target, draft = tokens[i], entered * p[i], q[i].copy()
        p_emitted = max(entered * p[i, token], TINY)
        tried = np.zeros(size, np.bool_)
        of_target = of_draft = survival = 1.0
        for rank in range(uniforms.shape[1]):
            wanted, drawn = target[token] * of_target, draft[token] * of_draft
            both, lack = _fill_excess(target, of_target, draft, of_draft, excess, sums)
            expected[i, rank] = survival * both / entered
            emitted[i, rank] = survival * min(wanted, drawn) / p_emitted
            entering[i, rank] = min(wanted, drawn) / max(drawn, TINY)
            if rank + 1 == uniforms.shape[1]:
                break
            gone = _drawn(excess, sums, uniforms[i, rank])
            if entered < 1.0:
                lack += (1.0 - entered) / max(survival, TINY)
            survival *= lack
            of_target = 1.0 / max(lack, TINY)
            tried[gone], draft[gone] = True, 0.0
            of_draft = _fill_if_empty(draft, tried)


@compiled(nogil=True, fastmath={"reassoc"}, error_model="numpy")
def _fill_excess(target, of_target, draft, of_draft, excess, sums):  # type: ignore[no-untyped-def]
    """`target` becomes (R - D)+, `excess` (D - R)+, and `sums` its sums by block; returns the sums
    of min(R, D) and of (R - D)+."""
    both = lack = 0.0
    for block in range(len(sums)):
        total = 0.0
        for y in range(block * BLOCK, min(block * BLOCK + BLOCK, len(target))):
            r, d = target[y] * of_target, draft[y] * of_draft
            least = r if r < d else d
            both += least
            lack += r - least
            target[y] = r - least
            excess[y] = d - least
            total += d - least
        sums[block] = total
    return both, lack


@compiled(nogil=True)
def _drawn(weights, sums, uniform):  # type: ignore[no-untyped-def]
    """The token at `uniform` (0..1) of the law proportional to `weights`, whose sums by block are
    given; the last one where there is no weight."""
    left, block = uniform * sums.sum(), 0
    while block + 1 < len(sums) and left >= sums[block]:
        left -= sums[block]
        block += 1
    for y in range(block * BLOCK, len(weights)):
        left -= weights[y]
        if left < 0.0:
            return y
    return len(weights) - 1


@compiled(nogil=True, fastmath={"reassoc"})
def _fill_if_empty(draft, tried):  # type: ignore[no-untyped-def]
    """The factor that makes D sum to 1; where nothing is left of it, it becomes even over what was
    not tried."""
    total = 0.0
    for y in range(len(draft)):
        total += draft[y]
    if total > 0.0:
        return 1.0 / total
    for y in range(len(draft)):
        draft[y] = 0.0 if tried[y] else 1.0
    return 1.0 / max(draft.sum(), 1.0)
