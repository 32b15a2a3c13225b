"""Products of few rows with weights that come from memory, as fast as it gives them.

What a compiler makes of plain loops asks memory for nothing while it multiplies: for four rows that
doubles the time of the whole, for one of them it adds a third where two threads read.  So vectors
are written out: four rows of the weight meet a few of x in registers, while the next four are on
their way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import njit, types
from numba.core.cgutils import get_or_insert_function, unpack_tuple
from numba.extending import intrinsic

from .by_name import DONE, called_by_name, integers_at, rows_at

LONG_VECTORS = bool(get_host_cpu_features().get("avx512f"))
"""Has the processor 32 vector registers of 512 bits, not 16 of 256?"""
LANES, LINE = 16 if LONG_VECTORS else 8, 16
"""Floats of 32 bits in a vector, and in what memory gives at once."""
AT_ONCE = 4
"""Rows of a weight."""
MOST_ROWS = 6 if LONG_VECTORS else 3
"""Rows of x that meet them: sums of so many by four, and what is multiplied, have a register
each."""
MOST_ADDED = 512
"""Floats of a row that are added up at a time: so many of eight rows of x, and of two times four
of a weight, stay in the first cache."""

AHEAD = 8192
"""Bytes of a weight between what is multiplied and what memory is asked for, at least."""

FLOAT32, FLOAT16, BFLOAT16, INT8 = range(4)
"""How a weight is written; `BFLOAT16` is the first half of `FLOAT32`, and `INT8` are whole numbers,
by which a scale of each row is multiplied afterwards."""
BYTES = 4, 2, 2, 1
"""An entry's size in each of these."""

_INT, _INT32, _FLOAT, _POINTER = ir.IntType(64), ir.IntType(32), ir.FloatType(), ir.PointerType()
_VECTOR, _SUMS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_FLOAT, AT_ONCE)
_INTEGERS = ir.VectorType(_INT32, LANES)
_SHORT, _HALVES = ir.VectorType(ir.IntType(16), LANES), ir.VectorType(ir.HalfType(), LANES)
_WHOLE = ir.VectorType(ir.IntType(8), LANES)


@intrinsic
def _multiply_four(typing_context: Any, written_as: Any, num_rows: Any, numbers: Any) -> Any:
    """Multiply a few rows of x with four of a weight, and add the products to the outcome.

    written_as  the weight's way of writing
    num_rows    1 to `MOST_ROWS`
    numbers     eight integers: how many entries are added up, a multiple of `LINE`; then, three
                times, the address of a first row and the entries between the starts of two, of the
                weight, of x and of the outcome; the address of the first of four rows of the weight
                that memory is asked for
    """

    def written(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        places = unpack_tuple(builder, arguments[2], 8)
        which = builder.add(builder.mul(arguments[0], _INT(MOST_ROWS + 1)), arguments[1])
        cases = {
            (MOST_ROWS + 1) * kind + rows: partial(_write_products, builder, rows, kind, places)
            for kind in range(len(BYTES))
            for rows in range(1, MOST_ROWS + 1)
        }
        write_cases(builder, which, cases)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.UniTuple(types.int64, 8)), written


def write_cases(builder: ir.IRBuilder, which: Any, cases: Mapping[int, Callable[[], None]]) -> None:
    """The code of a case for each number that `which` may be, written by what it is mapped to."""
    end = builder.append_basic_block("end")
    switch = builder.switch(which, end)
    for number, write in cases.items():
        block = builder.append_basic_block("case")
        switch.add_case(_INT(number), block)
        builder.position_at_end(block)
        write()
        builder.branch(end)
    builder.position_at_end(end)


def _write_products(
    builder: ir.IRBuilder, num_rows: int, written_as: int, numbers: Sequence[Any]
) -> None:
    """The code of `_multiply_four` for so many rows."""
    width, weight, weight_step, x, x_step, out, out_step, asked = numbers
    size = BYTES[written_as]

    def moved(address: Any, entries: Any, size: int = 4) -> Any:
        return builder.add(address, builder.mul(entries, _INT(size)))

    def at(address: Any, entries: Any, size: int = 4) -> Any:
        return builder.inttoptr(moved(address, entries, size), _POINTER)

    def row(address: Any, step: Any, number: int, size: int = 4) -> Any:
        return moved(address, builder.mul(step, _INT(number)), size)

    own, following = (
        [row(first, weight_step, each, size) for each in range(AT_ONCE)]
        for first in (weight, asked)
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
            entries = _read_entries(builder, at(each, here, size), written_as)
            for number, other in enumerate(read):
                grown[number][which] = add_product(builder, entries, other, grown[number][which])
    for each in following:
        ask_memory(builder, moved(each, place, size))
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
        there = builder.inttoptr(row(out, out_step, number), _POINTER)
        so_far = builder.load(there, align=4, typ=_SUMS)
        builder.store(builder.fadd(so_far, _sums_of(builder, ends)), there, align=4)


def add_product(builder: ir.IRBuilder, one: Any, other: Any, so_far: Any) -> Any:
    """one other + so_far, of vectors of `LANES`."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    fma = get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f32")
    return builder.call(fma, [one, other, so_far])


def ask_memory(builder: ir.IRBuilder, address: Any) -> None:
    """Have the second cache get what lies at an address; it may be none.

    Not the first one, where what is multiplied now for more rows of x than fit at once has to stay.
    """
    kind = ir.FunctionType(ir.VoidType(), [_POINTER, *[_INT32] * 3])
    ask = get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(ask, [builder.inttoptr(address, _POINTER), _INT32(0), _INT32(2), _INT32(1)])


def turned(builder: ir.IRBuilder, rows: Sequence[Any]) -> list[Any]:
    """A square of vectors, its rows made its columns: in turn, blocks of 1, 2, 4 … change places
    across the diagonal."""
    rows, side, size = list(rows), len(rows), 1
    kind = ir.VectorType(_INT32, side)
    while size < side:
        upper = [place if not place & size else side + place - size for place in range(side)]
        lower = [place + size if not place & size else side + place for place in range(side)]
        masks = [ir.Constant(kind, [_INT32(each) for each in ways]) for ways in (upper, lower)]
        for first in range(side):
            if not first & size:
                pair = rows[first], rows[first + size]
                rows[first], rows[first + size] = (
                    builder.shuffle_vector(*pair, mask) for mask in masks
                )
        size *= 2
    return rows


def _sums_of(builder: ir.IRBuilder, vectors: Sequence[Any]) -> Any:
    """The sum of each of four vectors, as a vector of four.

    A vector holds pieces, at first one.  Until these are of one entry, the second half of each is
    added to the first, by which those of two vectors find room in one.
    """
    pieces, size = 1, LANES
    while size > 1:
        others = vectors[1::2] or vectors
        pieces *= 2 if len(vectors) > 1 else 1
        size //= 2
        first = [2 * size * piece + place for piece in range(pieces) for place in range(size)]
        halves = [
            ir.Constant(ir.VectorType(_INT32, len(first)), [_INT32(each + half) for each in first])
            for half in (0, size)
        ]
        vectors = [
            builder.fadd(*(builder.shuffle_vector(one, other, half) for half in halves))
            for one, other in zip(vectors[::2], others, strict=True)
        ]
    return vectors[0]


def _read_entries(builder: ir.IRBuilder, place: Any, written_as: int) -> Any:
    """`LANES` of a weight, as floats of 32 bits."""
    if written_as == FLOAT32:
        return builder.load(place, align=4, typ=_VECTOR)
    if written_as == INT8:
        whole = builder.load(place, align=1, typ=_WHOLE)
        return builder.sitofp(builder.sext(whole, _INTEGERS), _VECTOR)
    short = builder.load(place, align=2, typ=_SHORT)
    if written_as == FLOAT16:
        return builder.fpext(builder.bitcast(short, _HALVES), _VECTOR)
    sixteen = ir.Constant(_INTEGERS, [_INT32(16)] * LANES)
    return builder.bitcast(builder.shl(builder.zext(short, _INTEGERS), sixteen), _VECTOR)


@intrinsic(prefer_literal=True)
def _write_long(typing_context: Any, written_as: Any, place: Any, to: Any) -> Any:
    """Write `LANES` of a weight, from one address, as floats of 32 bits to another, and ask memory
    for those that come `AHEAD`."""
    kind = written_as.literal_value

    def written(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        place, to = (builder.inttoptr(each, _POINTER) for each in arguments[1:])
        builder.store(_read_entries(builder, place, kind), to, align=4)
        ask_memory(builder, builder.add(arguments[1], _INT(AHEAD)))
        return context.get_dummy_value()

    return types.void(written_as, types.int64, types.int64), written


@njit(cache=True)
def _write_four(weight: tuple[int, int, int], as_floats: np.ndarray, added: int) -> None:
    """Four rows of a weight that is read more than once.

    weight     address, entries between the starts of two rows, way of writing, not `FLOAT32`
    as_floats  float [4, at least `added`]: the outcome
    """
    address, step, written_as = weight
    to, to_step = as_floats.ctypes.data, as_floats.strides[0]
    for row in range(AT_ONCE):
        for place in range(0, added, LANES):
            own = address + BYTES[written_as] * (step * row + place)
            there = to + to_step * row + 4 * place
            if written_as == FLOAT16:
                _write_long(FLOAT16, own, there)
            elif written_as == BFLOAT16:
                _write_long(BFLOAT16, own, there)
            else:
                _write_long(INT8, own, there)


@called_by_name(9)
def _multiply_fours(address: int) -> int:
    """`multiply_fours`, of addresses and sizes."""
    (
        weight, written_as, x, num_rows, width, x_step, out, out_step, height
    ) = integers_at(address, 9)  # fmt: skip
    rows, products = rows_at(x, num_rows, x_step), rows_at(out, num_rows, out_step)
    size = BYTES[written_as]
    for row in range(num_rows):  # assigning slices would bring code that takes long to compile
        for place in range(height):
            products[row, place] = 0
    # Rows that lie a power of two apart would have the same few places in the first cache.
    apart = np.empty((num_rows, width + LINE), np.float32)
    for row in range(num_rows):
        for place in range(width):
            apart[row, place] = rows[row, place]
    num_parts = (width + MOST_ADDED - 1) // MOST_ADDED
    longest = (width // LINE + num_parts - 1) // num_parts * LINE
    num_blocks = (num_rows + MOST_ROWS - 1) // MOST_ROWS
    rows_at_once = (num_rows + num_blocks - 1) // num_blocks
    again = written_as != FLOAT32 and num_blocks > 1
    as_floats = np.empty((AT_ONCE, longest if again else 0), np.float32)
    ahead = max(1, AHEAD // (size * width * AT_ONCE)) * AT_ONCE * width
    for first in range(0, height, AT_ONCE):  # a weight is read in the order in which it lies
        for start in range(0, width, longest):
            added = min(longest, width - start)
            own, step, kind = weight + size * (width * first + start), width, written_as
            asked = own + size * ahead
            if again:
                _write_four((own, width, written_as), as_floats, added)
                own, step, kind = as_floats.ctypes.data, longest, FLOAT32
                asked = own
            for row in range(0, num_rows, rows_at_once):
                read = apart.ctypes.data + 4 * ((width + LINE) * row + start)
                written = out + 4 * (out_step * row + first)
                numbers = added, own, step, read, width + LINE, written, out_step, asked
                _multiply_four(kind, min(rows_at_once, num_rows - row), numbers)
    return DONE


@njit(cache=True)
def multiply_fours(weight: int, written_as: int, x: np.ndarray, out: np.ndarray) -> None:
    """`multiply` into all columns, where i is a multiple of `LINE` and o one of `AT_ONCE`, with the
    weight that an address leads to."""
    num_rows, width = x.shape
    if num_rows > 0:
        read, written = np.int64(x.ctypes.data), np.int64(out.ctypes.data)
        steps, height = (x.strides[0] // 4, out.strides[0] // 4), out.shape[1]
        _multiply_fours(
            (weight, written_as, read, num_rows, width, steps[0], written, steps[1], height)
        )


@njit(cache=True)
def multiply(weight: np.ndarray, x: np.ndarray, out: np.ndarray, first: int) -> None:
    """o columns of `out` from the first on = x weight^T.

    weight  float [o, i], in C order
    x       float [n, i], rows in one piece
    out     float [n, at least first + o], likewise
    """
    height, width = weight.shape
    whole = 0
    if width % LINE == 0:
        whole = height - height % AT_ONCE
        address, columns = np.int64(weight.ctypes.data), out[:, first : first + whole]
        multiply_fours(address, np.int64(FLOAT32), x, columns)
    for row in range(len(x)):
        _multiply_rest(weight[whole:], x[row], out[row, first + whole :])


@njit(cache=True, fastmath={"reassoc", "contract"})
def _multiply_rest(weight: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """The same for one row, and for rows of any number and width."""
    for row in range(len(weight)):
        total = np.float32(0)
        for place in range(len(x)):
            total += weight[row, place] * x[place]
        out[row] = total
