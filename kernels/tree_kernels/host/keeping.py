"""Rows of a cache that an accepted path is made of: moved by one compiled pass on the host.

Behind a pass of a large target all that a step needs has left the processor's caches, code too: one
call of a few instructions then takes less than the four calls of torch that do the same.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def move_rows(store: np.ndarray, start: int, rows: np.ndarray) -> None:
    """Move rows start + r, for r in `rows`, of every layer to `start` and behind, in place.

    store  [L, B, Hkv, S, D]  of any type
    rows   int64 [d]          strictly increasing, not negative: none is written before it is read

    Slow twin: `reference.keep_rows_`.
    """
    layers, texts, heads, _, size = store.shape
    for layer in range(layers):
        for text in range(texts):
            for head in range(heads):
                for place in range(len(rows)):
                    for i in range(size):
                        moved = store[layer, text, head, start + rows[place], i]
                        store[layer, text, head, start + place, i] = moved
