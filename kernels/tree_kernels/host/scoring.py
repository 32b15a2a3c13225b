"""Scores of many queries with keys: keys are turned, and then mixed by queries, as values are.

The product of a query and a key ends with the sum of a vector's entries, which for heads of usual
size takes as long as all before.  Of keys that are turned, whose first entries lie side by side, as
many scores are one vector, and nothing is left to be added up; turning them pays for eight queries
and more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.cgutils import unpack_tuple
from numba.extending import intrinsic

from .by_name import DONE, called_by_name, integers_at
from .mixing import MOST_VECTORS, mix_rows
from .products import AHEAD, LANES, ask_memory, turned

BLOCK = MOST_VECTORS * LANES
"""Keys that are turned at a time."""
ENOUGH = 8
"""Queries for which it pays."""

_INT, _POINTER = ir.IntType(64), ir.PointerType()
_VECTOR = ir.VectorType(ir.FloatType(), LANES)


@intrinsic
def _turn_keys(typing_context: Any, numbers: Any) -> Any:
    """Turn `LANES` entries of as many keys.

    numbers  four integers: the addresses of the first and of where it goes, and of each the entries
             between the starts of two rows
    """

    def written(context: Any, builder: ir.IRBuilder, signature: Any, given: Any) -> Any:
        keys, to, keys_step, to_step = unpack_tuple(builder, given[0], 4)

        def row(address: Any, number: int, step: Any) -> Any:
            return builder.add(address, builder.mul(step, _INT(4 * number)))

        starts = [row(keys, number, keys_step) for number in range(LANES)]
        read = [
            builder.load(builder.inttoptr(each, _POINTER), align=4, typ=_VECTOR) for each in starts
        ]
        for each in starts:
            ask_memory(builder, builder.add(each, _INT(AHEAD)))
        for number, entries in enumerate(turned(builder, read)):
            place = builder.inttoptr(row(to, number, to_step), _POINTER)
            builder.store(entries, place, align=4)
        return context.get_dummy_value()

    return types.void(types.UniTuple(types.int64, 4)), written


@called_by_name(9)
def _score(address: int) -> int:
    """`score`, of addresses and sizes; so many keys as are a multiple of `LANES`."""
    (
        queries, num_rows, size, queries_step, keys, num_keys, keys_step, scores, scores_step
    ) = integers_at(address, 9)  # fmt: skip
    room = np.empty((size, BLOCK), np.float32)
    for start in range(0, num_keys, BLOCK):
        to, width = np.int64(room.ctypes.data), min(BLOCK, num_keys - start)
        for key in range(0, width, LANES):
            first = keys + 4 * keys_step * (start + key)
            for entry in range(0, size, LANES):
                place = to + 4 * (BLOCK * entry + key)
                _turn_keys((first + 4 * entry, place, keys_step, BLOCK))
        out = scores + 4 * start
        mix_rows((queries, num_rows, size, queries_step, to, width, BLOCK, out, scores_step))
    return DONE


@njit(cache=True)
def score(queries: np.ndarray, keys: np.ndarray, scores: np.ndarray) -> int:
    """The first columns of scores = queries keys^T; returns of how many keys.

    queries  float [q, d], rows in one piece
    keys     float [t, d], likewise
    scores   float [q, t], likewise

    Of none where they are too few queries, or d is no multiple of `LANES`.
    """
    (num_rows, size), num_keys = queries.shape, len(keys) - len(keys) % LANES
    if num_rows < ENOUGH or size % LANES != 0:
        return 0
    steps = queries.strides[0] // 4, keys.strides[0] // 4, scores.strides[0] // 4
    read, own = np.int64(queries.ctypes.data), np.int64(keys.ctypes.data)
    written = np.int64(scores.ctypes.data)
    _score((read, num_rows, size, steps[0], own, num_keys, steps[1], written, steps[2]))
    return num_keys
