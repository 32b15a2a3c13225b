"""Nodes that join a tree while it is drafted: one compiled pass on the host."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def add_below(
    parents: np.ndarray, depths: np.ndarray, ancestors: np.ndarray, start: int, end: int
) -> int:
    """Write down nodes `start` to `end` - 1, whose `parents` are written and come before them.

    Returns the depth of the deepest of them, 0 if there are none.

    parents    int64 [capacity]
    depths     int64 [capacity]
    ancestors  bool [capacity, capacity]: is the second an ancestor of the first, or the same?  Rows
               of nodes to come may hold anything in front of their own node, and nothing behind it
    """
    deepest = 0
    for node in range(start, end):
        parent = parents[node]
        depths[node] = depths[parent] + 1
        deepest = max(deepest, depths[node])
        for other in range(node):
            ancestors[node, other] = ancestors[parent, other]
        ancestors[node, node] = True
    return deepest
