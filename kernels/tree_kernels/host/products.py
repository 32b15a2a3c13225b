"""Products of few rows with weights that come from memory, as fast as it gives them.

What a compiler makes of plain loops asks memory for nothing while it multiplies: for one row that
takes no time, for four it doubles that of the whole.  So for more than one the vectors are written
out: four rows of the weight meet up to four of x in registers, while the next four are on their
way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.cgutils import get_or_insert_function, unpack_tuple
from numba.extending import intrinsic

LANES, LINE = 8, 16
"""Floats of 32 bits in a vector, and in what memory gives at once."""
AT_ONCE = 4
"""Rows of a weight, and most of x."""
MOST_ADDED = 768
"""Floats of a row that are added up at a time: so many of eight rows of x, and of two times four
of a weight, stay in the first cache."""

_INT, _INT32, _FLOAT, _POINTER = ir.IntType(64), ir.IntType(32), ir.FloatType(), ir.PointerType()
_VECTOR = ir.VectorType(_FLOAT, LANES)


def _multiply_four(num_rows: int) -> Any:
    """The intrinsic that multiplies so many rows of x with four of a weight, and writes the sums.

    It takes seven integers: how many floats are added up, a multiple of `LINE`; then, three times,
    the address of a first row and the floats between the starts of two, of the weight, of x and of
    the outcome, to which the sums are added.
    """

    @intrinsic
    def multiply_four(typing_context: Any, numbers: Any) -> Any:
        return types.void(types.UniTuple(types.int64, 7)), _written

    def _written(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        numbers = unpack_tuple(builder, arguments[0], 7)
        width, weight, weight_step, x, x_step, out, out_step = numbers
        called = {
            name: get_or_insert_function(builder.module, ir.FunctionType(kind, takes), full)
            for name, kind, takes, full in (
                ("fma", _VECTOR, [_VECTOR] * 3, f"llvm.fmuladd.v{LANES}f32"),
                ("sum", _FLOAT, [_FLOAT, _VECTOR], f"llvm.vector.reduce.fadd.v{LANES}f32"),
                ("ask", ir.VoidType(), [_POINTER, *[_INT32] * 3], "llvm.prefetch.p0"),
            )
        }

        def moved(address: Any, floats: Any) -> Any:
            return builder.add(address, builder.shl(floats, _INT(2)))

        def at(address: Any, floats: Any) -> Any:
            return builder.inttoptr(moved(address, floats), _POINTER)

        def row(address: Any, step: Any, number: int) -> Any:
            return moved(address, builder.mul(step, _INT(number)))

        own, following = (
            [row(weight, weight_step, first + each) for each in range(AT_ONCE)]
            for first in (0, AT_ONCE)
        )
        rows = [row(x, x_step, each) for each in range(num_rows)]
        before, loop = builder.block, builder.append_basic_block("loop")
        builder.branch(loop)
        builder.position_at_end(loop)
        place = builder.phi(_INT)
        place.add_incoming(_INT(0), before)
        zeros = ir.Constant(_VECTOR, [_FLOAT(0.0)] * LANES)
        sums = [[builder.phi(_VECTOR) for _ in own] for _ in rows]
        grown = [list(each) for each in sums]
        for part in range(0, LINE, LANES):
            here = builder.add(place, _INT(part))
            read = [builder.load(at(each, here), align=4, typ=_VECTOR) for each in rows]
            for which, each in enumerate(own):
                entries = builder.load(at(each, here), align=4, typ=_VECTOR)
                for number, other in enumerate(read):
                    added = [entries, other, grown[number][which]]
                    grown[number][which] = builder.call(called["fma"], added)
        for each in following:
            builder.call(called["ask"], [at(each, place), _INT32(0), _INT32(3), _INT32(1)])
        after = builder.add(place, _INT(LINE))
        place.add_incoming(after, loop)
        for phis, ends in zip(sums, grown, strict=True):
            for phi, end in zip(phis, ends, strict=True):
                phi.add_incoming(zeros, before)
                phi.add_incoming(end, loop)
        done = builder.append_basic_block("done")
        builder.cbranch(builder.icmp_signed("<", after, width), loop, done)
        builder.position_at_end(done)
        for number, ends in enumerate(grown):
            for which, end in enumerate(ends):
                total = builder.call(called["sum"], [_FLOAT(0.0), end], fastmath=("reassoc",))
                there = at(row(out, out_step, number), _INT(which))
                so_far = builder.load(there, align=4, typ=_FLOAT)
                builder.store(builder.fadd(so_far, total), there)
        return context.get_dummy_value()

    return multiply_four


_one, _two, _three, _four = (_multiply_four(num_rows) for num_rows in range(1, AT_ONCE + 1))


@njit(cache=True)
def multiply(weight: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """out = x weight^T.

    weight  float [o, i], in C order
    x       float [n, i], rows in one piece
    out     float [n, o], likewise
    """
    height, width = weight.shape
    num_rows, whole = len(x), 0
    if num_rows > 1 and width % LINE == 0:
        whole = height - height % AT_ONCE
        _multiply_many(weight, x, out, whole)
    for row in range(num_rows):
        _multiply_one(weight[whole:], x[row], out[row, whole:])


@njit(cache=True)
def _multiply_many(weight: np.ndarray, x: np.ndarray, out: np.ndarray, height: int) -> None:
    """`multiply` with the first `height` rows of the weight, a multiple of `AT_ONCE`."""
    num_rows, width = x.shape
    out[:, :height] = 0
    x_step, out_step = x.strides[0] // 4, out.strides[0] // 4
    num_parts = (width + MOST_ADDED - 1) // MOST_ADDED
    longest = (width // LINE + num_parts - 1) // num_parts * LINE
    for start in range(0, width, longest):
        added = min(longest, width - start)
        for first in range(0, height, AT_ONCE):
            own = weight.ctypes.data + 4 * (width * first + start)
            for row in range(0, num_rows, AT_ONCE):
                read = x.ctypes.data + 4 * (x_step * row + start)
                written = out.ctypes.data + 4 * (out_step * row + first)
                numbers = added, own, width, read, x_step, written, out_step
                if num_rows - row == 1:
                    _one(numbers)
                elif num_rows - row == 2:
                    _two(numbers)
                elif num_rows - row == 3:
                    _three(numbers)
                else:
                    _four(numbers)


@njit(cache=True, fastmath={"reassoc", "contract"})
def _multiply_one(weight: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """The same for one row, for which plain loops are as fast as memory; it gives four streams
    faster than one."""
    height, width = weight.shape
    for first in range(0, height - 3, 4):
        a = b = c = d = np.float32(0)
        for place in range(width):
            a += weight[first, place] * x[place]
            b += weight[first + 1, place] * x[place]
            c += weight[first + 2, place] * x[place]
            d += weight[first + 3, place] * x[place]
        out[first], out[first + 1], out[first + 2], out[first + 3] = a, b, c, d
    for last in range(height - height % 4, height):
        a = np.float32(0)
        for place in range(width):
            a += weight[last, place] * x[place]
        out[last] = a
