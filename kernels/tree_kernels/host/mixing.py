"""Values mixed by weights, a few rows of them at a time, in registers.

A compiler keeps the sums of such loops in the first cache, and adds to them there; with vectors
that are written out a value is read once for all rows, and nothing is written before the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.cgutils import unpack_tuple
from numba.extending import intrinsic

from .by_name import DONE, called_by_name, integers_at
from .products import AHEAD, LANES, MOST_ROWS, add_product, ask_memory, write_cases

MOST_VECTORS = 4
"""Vectors of entries at once: so many sums of each row have a register each (`MOST_ROWS`)."""

_INT, _INT32, _FLOAT, _POINTER = ir.IntType(64), ir.IntType(32), ir.FloatType(), ir.PointerType()
_VECTOR = ir.VectorType(_FLOAT, LANES)


@intrinsic
def _mix_vectors(typing_context: Any, num_rows: Any, num_vectors: Any, numbers: Any) -> Any:
    """Mix some entries of all values for a few rows of weights.

    num_rows     1 to `MOST_ROWS`
    num_vectors  1 to `MOST_VECTORS`, of `LANES` entries each
    numbers      seven integers: how many values, at least one; then, three times, the address of
                 a first row and the entries between the starts of two, of the weights, of the
                 values and of the outcome
    """

    def written(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        places = unpack_tuple(builder, arguments[2], 7)
        which = builder.add(builder.mul(arguments[0], _INT(MOST_VECTORS + 1)), arguments[1])
        cases = {
            (MOST_VECTORS + 1) * rows + vectors: partial(
                _write_mixing, builder, rows, vectors, places
            )
            for rows in range(1, MOST_ROWS + 1)
            for vectors in range(1, MOST_VECTORS + 1)
        }
        write_cases(builder, which, cases)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.UniTuple(types.int64, 7)), written


def _write_mixing(
    builder: ir.IRBuilder, num_rows: int, num_vectors: int, numbers: Sequence[Any]
) -> None:
    """The code of `_mix_vectors` for so many rows and vectors."""
    num_values, weights, weights_step, values, values_step, out, out_step = numbers

    def moved(address: Any, entries: Any) -> Any:
        return builder.add(address, builder.mul(entries, _INT(4)))

    def at(address: Any, entries: Any) -> Any:
        return builder.inttoptr(moved(address, entries), _POINTER)

    zeros = ir.Constant(_VECTOR, [_FLOAT(0.0)] * LANES)
    to_all = ir.Constant(ir.VectorType(_INT32, LANES), [_INT32(0)] * LANES)
    before, loop = builder.block, builder.append_basic_block("loop")
    builder.branch(loop)
    builder.position_at_end(loop)
    place = builder.phi(_INT)
    sums = [[builder.phi(_VECTOR) for _ in range(num_vectors)] for _ in range(num_rows)]
    shares = []
    for row in range(num_rows):
        own = at(weights, builder.add(builder.mul(weights_step, _INT(row)), place))
        one = builder.insert_element(zeros, builder.load(own, typ=_FLOAT), _INT32(0))
        shares.append(builder.shuffle_vector(one, zeros, to_all))
    first = builder.mul(values_step, place)
    grown: list[list[Any]] = [[] for _ in sums]
    for part in range(num_vectors):
        entries = moved(values, builder.add(first, _INT(part * LANES)))
        read = builder.load(builder.inttoptr(entries, _POINTER), align=4, typ=_VECTOR)
        ask_memory(builder, builder.add(entries, _INT(AHEAD)))
        for row, share in enumerate(shares):
            grown[row].append(add_product(builder, share, read, sums[row][part]))
    after = builder.add(place, _INT(1))
    place.add_incoming(_INT(0), before)
    place.add_incoming(after, loop)
    for phis, ends in zip(sums, grown, strict=True):
        for phi, end in zip(phis, ends, strict=True):
            phi.add_incoming(zeros, before)
            phi.add_incoming(end, loop)
    done = builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed("<", after, num_values), loop, done)
    builder.position_at_end(done)
    for row, ends in enumerate(grown):
        for part, end in enumerate(ends):
            there = builder.add(builder.mul(out_step, _INT(row)), _INT(part * LANES))
            builder.store(end, at(out, there), align=4)


@called_by_name(9)
def mix_rows(address: int) -> int:
    """`mix`, of addresses and sizes."""
    (
        weights, num_rows, num_values, weights_step, values, size, values_step, sums, sums_step
    ) = integers_at(address, 9)  # fmt: skip
    whole = size - size % LANES
    num_blocks = (num_rows + MOST_ROWS - 1) // MOST_ROWS
    at_once = (num_rows + num_blocks - 1) // max(num_blocks, 1)
    for start in range(0, whole, MOST_VECTORS * LANES):
        num_vectors = min(MOST_VECTORS, (whole - start) // LANES)
        for row in range(0, num_rows, max(at_once, 1)):
            read, entries = weights + 4 * weights_step * row, values + 4 * start
            out = sums + 4 * (sums_step * row + start)
            numbers = num_values, read, weights_step, entries, values_step, out, sums_step
            _mix_vectors(min(at_once, num_rows - row), num_vectors, numbers)
    return DONE


@njit(cache=True)
def mix(weights: np.ndarray, values: np.ndarray, sums: np.ndarray) -> None:
    """sums = weights values.

    weights  float [q, t], rows in one piece, t at least 1
    values   float [t, d], likewise
    sums     float [q, d], likewise: the outcome
    """
    (num_rows, num_values), size = weights.shape, values.shape[1]
    read, entries = np.int64(weights.ctypes.data), np.int64(values.ctypes.data)
    written, step = np.int64(sums.ctypes.data), sums.strides[0] // 4
    steps = weights.strides[0] // 4, values.strides[0] // 4
    mix_rows((read, num_rows, num_values, steps[0], entries, size, steps[1], written, step))
    _mix_rest(weights, values, sums, size - size % LANES)


@njit(cache=True, fastmath={"reassoc", "contract"})
def _mix_rest(weights: np.ndarray, values: np.ndarray, sums: np.ndarray, whole: int) -> None:
    """The same for the entries from `whole` on."""
    for row in range(len(sums)):
        for entry in range(whole, values.shape[1]):
            total = np.float32(0)
            for place in range(len(values)):
                total += weights[row, place] * values[place, entry]
            sums[row, entry] = total
