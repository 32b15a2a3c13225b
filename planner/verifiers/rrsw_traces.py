"""Recursive rejection without replacement along a text, compiled: the twin of what
`RecursiveRejection.masses_entered` says of it, by the same random numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..compiling import compiled
from .compiled_rejection import BLOCK, drawn_at, fill_excess, fill_if_empty
from .namespace import TINY


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
            both, lack = fill_excess(target, of_target, draft, of_draft, excess, sums)
            expected[i, rank] = survival * both / entered
            emitted[i, rank] = survival * min(wanted, drawn) / p_emitted
            entering[i, rank] = min(wanted, drawn) / max(drawn, TINY)
            if rank + 1 == uniforms.shape[1]:
                break
            gone = drawn_at(excess, sums, uniforms[i, rank])
            if entered < 1.0:
                lack += (1.0 - entered) / max(survival, TINY)
            survival *= lack
            of_target = 1.0 / max(lack, TINY)
            tried[gone], draft[gone] = True, 0.0
            of_draft = fill_if_empty(draft, tried)
