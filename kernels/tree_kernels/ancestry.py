"""Nodes that join a tree while it is drafted: one compiled pass on the host."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def add_below(
    parents: np.ndarray, depths: np.ndarray, ancestors: np.ndarray, start: int, above: np.ndarray
) -> None:
    """Write down nodes from `start` on, the children of `above`, all of them before it.

    parents    int64 [capacity]
    depths     int64 [capacity]
    ancestors  bool [capacity, capacity]: is the second an ancestor of the first, or the same?
    above      int64 [new]
    """
    for place in range(len(above)):
        node, parent = start + place, above[place]
        parents[node], depths[node] = parent, depths[parent] + 1
        ancestors[node, :start] = ancestors[parent, :start]
