"""The four arrays in which a compiled policy keeps its step; each policy knows its own rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NUM_WHOLES, NUM_REALS, NUM_FLAGS = 11, 8, 2
ANSWER = slice(4, 6)
"""Rows of the whole numbers: nodes asked for, and how many children of each."""


class Memory(NamedTuple):
    """Rows of 2 num_nodes + 1 places; what they are for, the policies say."""

    wholes: np.ndarray
    """int64 [11, places]"""
    reals: np.ndarray
    """float64 [8, places]"""
    flags: np.ndarray
    """bool [2, places]"""
    drawn: np.ndarray
    """float64 [num_nodes, max_children]; only what is revealed may be read"""


def new_memory(num_nodes: int, max_children: int) -> Memory:
    """The arrays of a step that has not been started."""
    places = 2 * num_nodes + 1
    return Memory(
        np.zeros((NUM_WHOLES, places), np.int64),
        np.zeros((NUM_REALS, places)),
        np.zeros((NUM_FLAGS, places), bool),
        np.full((num_nodes, max_children), np.nan),
    )
