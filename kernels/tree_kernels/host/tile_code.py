"""Instructions for a processor's matrix tiles (Intel's AMX), and what surrounds them on vectors.

A tile has 16 rows of 64 bytes.  One instruction multiplies a tile of 16 rows of 32 numbers with one
of 16 columns of 32, which are written as pairs, and adds the 256 products up in a third.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import config, types
from numba.core.cgutils import get_or_insert_function, unpack_tuple
from numba.extending import intrinsic

from .products import ask_memory, turned, write_cases

KNOWN = (
    platform.machine() == "x86_64"
    and config.CPU_NAME is None
    and config.CPU_FEATURES is None
    and all(get_host_cpu_features().get(each) for each in ("amx-tile", "amx-bf16", "avx512bw"))
)
"""Can code for tiles be made?  Whether it may run, `allowed` says."""
SIDE, DEPTH = 16, 32
"""Rows or columns of a tile, and numbers in each of its rows."""
TILE = 2 * SIDE * DEPTH
"""Bytes of a tile."""
HIGH = 4
"""Tiles of a weight, one below the other, that meet a tile of x."""
PARTS = 3
"""Numbers of 8 significant bits whose sum is a float of 32 bits."""
ALONE = SIDE // PARTS
"""So many rows of x have all their parts in one tile."""
LINE_BYTES = 64
"""Bytes that memory gives at once."""

_LINUX_CALL, _ASK_FOR_STATE, _TILE_STATE = 158, 0x1023, 18
_INT, _INT32, _BYTE = ir.IntType(64), ir.IntType(32), ir.IntType(8)
_FLOAT, _POINTER, _VOID = ir.FloatType(), ir.PointerType(), ir.VoidType()
_SHORTS, _INTEGERS = ir.VectorType(ir.IntType(16), 2 * SIDE), ir.VectorType(_INT32, SIDE)
_VECTOR, _WHOLE = ir.VectorType(_FLOAT, SIDE), ir.VectorType(_BYTE, SIDE)
_FIRST_BITS = ir.Constant(_INTEGERS, [_INT32(0xFFFF0000)] * SIDE)
_LAYOUT = bytes([1, 0, *[0] * 14, *[2 * DEPTH, 0] * 8, *[0] * 16, *[SIDE] * 8, *[0] * 8])
"""How the eight tiles are set up: all of `SIDE` rows of 64 bytes."""


@cache
def allowed() -> bool:
    """May this process use tiles?  Linux has to be asked first, once."""
    if not KNOWN:
        return False
    try:
        refused: int = ctypes.CDLL(None).syscall(_LINUX_CALL, _ASK_FOR_STATE, _TILE_STATE)
    except (OSError, AttributeError):
        return False
    return refused == 0


def _called(builder: ir.IRBuilder, name: str, kinds: Sequence[Any], given: Sequence[Any]) -> None:
    kind = ir.FunctionType(_VOID, kinds)
    builder.call(get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), given)


def _at(builder: ir.IRBuilder, address: Any, offset: int = 0) -> Any:
    return builder.inttoptr(builder.add(address, _INT(offset)), _POINTER)


def _row(builder: ir.IRBuilder, address: Any, number: int, step: Any) -> Any:
    """The address so many steps of bytes on."""
    return builder.add(address, builder.mul(_INT(number), step))


def _written_by(count: int, write: Callable[..., None]) -> Any:
    """An intrinsic that takes so many integers, with the code of `write(builder, *integers)`."""

    def typed(typing_context: Any, numbers: Any) -> tuple[Any, Any]:
        def written(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            if KNOWN:
                write(builder, *unpack_tuple(builder, arguments[0], count))
            return context.get_dummy_value()

        return types.void(types.UniTuple(types.int64, count)), written

    return intrinsic(typed)


def _write_loop(builder: ir.IRBuilder, count: Any, write: Callable[[Any], None]) -> None:
    """The code of `write(number)` for numbers from 0 up to a count, at least once."""
    before, loop = builder.block, builder.append_basic_block("loop")
    done = builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    number = builder.phi(_INT)
    number.add_incoming(_INT(0), before)
    write(number)
    after = builder.add(number, _INT(1))
    number.add_incoming(after, builder.block)
    builder.cbranch(builder.icmp_signed("<", after, count), loop, done)
    builder.position_at_end(done)


def _write_set_up(builder: ir.IRBuilder, room: Any) -> None:
    """The tiles as `_LAYOUT`, which is written to an address first."""
    place = _at(builder, room)
    builder.store(
        ir.Constant(ir.ArrayType(_BYTE, len(_LAYOUT)), bytearray(_LAYOUT)), place, align=1
    )
    _called(builder, "ldtilecfg", [_POINTER], [place])


def _write_given_back(builder: ir.IRBuilder, room: Any) -> None:
    """Nothing in the tiles any more, so that nobody has to keep it."""
    _called(builder, "tilerelease", [], [])


def _write_products(
    builder: ir.IRBuilder, parts: int, lines: int, widen: bool, numbers: Sequence[Any]
) -> None:
    """The code of `multiply_high` for one of its cases."""
    depth, weight, x, asked, room = numbers
    size, lines = (TILE // 2, lines // 2) if widen else (TILE, lines)
    tiles = [_BYTE(number) for number in range(HIGH + 1 + PARTS)]
    sums, own, read = tiles[:HIGH], tiles[HIGH], tiles[HIGH + 1 :]
    wide = builder.add(room, _INT(HIGH * TILE))

    def move(name: str, tile: Any, address: Any) -> None:
        given = [tile, builder.inttoptr(address, _POINTER), _INT(2 * DEPTH)]
        _called(builder, name, [_BYTE, _POINTER, _INT], given)

    def multiply(number: Any, first: Any, beside: Callable[[int], None]) -> None:
        """Tiles at an address with those of x at a place; something else is done beside each."""
        place = builder.add(x, builder.mul(number, _INT(parts * TILE)))
        for part in range(parts):
            move("tileloadd64", read[part], builder.add(place, _INT(part * TILE)))
        for each, tile in enumerate(sums):
            move("tileloadd64", own, builder.add(first, _INT(each * TILE)))
            for part in range(parts):
                _called(builder, "tdpbf16ps", [_BYTE] * 3, [tile, own, read[part]])
            beside(each)

    def slot(number: Any) -> Any:
        odd = builder.and_(number, _INT(1))
        return builder.add(wide, builder.mul(odd, _INT(HIGH * TILE)))

    def write(number: Any) -> None:
        along = builder.mul(number, _INT(HIGH * size))
        own_tiles, following = builder.add(weight, along), builder.add(asked, along)

        def ask(each: int) -> None:
            for line in range(each * lines // HIGH, (each + 1) * lines // HIGH):
                ask_memory(builder, builder.add(following, _INT(line * LINE_BYTES)))

        def widened(each: int) -> None:
            place = builder.add(own_tiles, _INT(each * size))
            _write_widening(builder, place, builder.add(slot(number), _INT(each * TILE)))
            ask(each)

        if widen:  # those before meanwhile, for what is written cannot be read at once
            before = builder.sub(number, _INT(1))
            multiply(_not_below_zero(builder, before), slot(before), widened)
        else:
            multiply(number, own_tiles, ask)

    for tile in sums:
        _called(builder, "tilezero", [_BYTE], [tile])
    for each, tile in enumerate(sums if widen else []):
        move("tilestored64", tile, builder.add(slot(_INT(1)), _INT(each * TILE)))
    _write_loop(builder, depth, write)
    if widen:
        last = builder.sub(depth, _INT(1))
        multiply(last, slot(last), lambda each: None)
    for each, tile in enumerate(sums):
        move("tilestored64", tile, builder.add(room, _INT(each * TILE)))


def _not_below_zero(builder: ir.IRBuilder, number: Any) -> Any:
    return builder.select(builder.icmp_signed("<", number, _INT(0)), _INT(0), number)


LINES = 64, 32, 16
"""So many are asked of memory while `HIGH` tiles of 16 bits meet one of x, where there are one, two
or more of x; a half while they are of 8 bits."""


@intrinsic
def multiply_high(typing_context: Any, case: Any, numbers: Any) -> Any:
    """Multiply `HIGH` tiles of a weight, and those beside them, with a tile of x for each.

    case     three integers: one or `PARTS`, which x has; the place in `LINES`, 0 for one part; 1
             for a weight of 8 bits, which is made one of 16 on the way, else 0
    numbers  five integers: how many tiles are added up; the address of the weight's first; that of
             those of x; that of the first line that memory is asked for; that of room for the sums,
             floats [`HIGH`, 16 rows of the weight, 16 of x], and behind them for twice `HIGH` tiles
    """

    def written(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        parts, place, widen = unpack_tuple(builder, arguments[0], 3)
        places = unpack_tuple(builder, arguments[1], 5)
        which = builder.add(builder.mul(parts, _INT(len(LINES))), place)
        which = builder.add(builder.mul(which, _INT(2)), widen)
        cases = {
            (parts * len(LINES) + place) * 2 + wide: partial(
                _write_products, builder, parts, LINES[place], wide > 0, places
            )
            for parts in (1, PARTS)
            for place in range(len(LINES) if parts > 1 else 1)
            for wide in (0, 1)
        }
        if KNOWN:
            write_cases(builder, which, cases)
        return context.get_dummy_value()

    of = types.UniTuple(types.int64, 3), types.UniTuple(types.int64, 5)
    return types.void(*of), written


def _high_halves(builder: ir.IRBuilder, pair: Sequence[Any]) -> Any:
    """The first 16 bits of each of 32 floats, as 16 integers of 32 bits."""
    halves = [builder.bitcast(each, _SHORTS) for each in pair]
    odd = ir.Constant(ir.VectorType(_INT32, DEPTH), [_INT32(2 * each + 1) for each in range(DEPTH)])
    return builder.bitcast(builder.shuffle_vector(*halves, odd), _INTEGERS)


def _write_packing(parts: int, builder: ir.IRBuilder, x: Any, step: Any, to: Any) -> None:
    """Tiles of 16 rows of x by 32 floats, from an address and so many bytes apart, to another: of
    each of the first `parts` numbers that floats are the sum of, each row's a column of pairs."""
    rest = [
        [
            builder.load(_at(builder, _row(builder, x, row, step), 4 * place), align=4, typ=_VECTOR)
            for place in (0, SIDE)
        ]
        for row in range(SIDE)
    ]
    for part in range(parts):
        pairs = [_high_halves(builder, row) for row in rest]
        for column, each in enumerate(turned(builder, pairs)):
            builder.store(each, _at(builder, to, part * TILE + 2 * DEPTH * column), align=4)
        for row in rest:
            for place, each in enumerate(row):
                taken = builder.and_(builder.bitcast(each, _INTEGERS), _FIRST_BITS)
                row[place] = builder.fsub(each, builder.bitcast(taken, _VECTOR))


def _write_turning(parts: int, builder: ir.IRBuilder, room: Any) -> None:
    """Transpose a tile of sums where it lies, whose columns are rows of x; of one that has their
    `parts` beside each other, add these up."""
    places = [_at(builder, room, 4 * SIDE * row) for row in range(SIDE)]
    rows = turned(builder, [builder.load(each, align=4, typ=_VECTOR) for each in places])
    if parts > 1:
        rows = [
            builder.fadd(builder.fadd(rows[row + 2 * ALONE], rows[row + ALONE]), rows[row])
            for row in range(ALONE)
        ]
    for place, each in zip(places, rows, strict=False):
        builder.store(each, place, align=4)


def _write_adding(builder: ir.IRBuilder, rows: Any, out: Any, step: Any, count: Any) -> None:
    """Add so many rows of 16 floats to others, that many bytes apart."""

    def write(number: Any) -> None:
        there = _at(builder, builder.add(out, builder.mul(number, step)))
        here = _at(builder, builder.add(rows, builder.mul(number, _INT(4 * SIDE))))
        so_far, added = (builder.load(each, align=4, typ=_VECTOR) for each in (there, here))
        builder.store(builder.fadd(so_far, added), there, align=4)

    _write_loop(builder, count, write)


def _write_widening(builder: ir.IRBuilder, entries: Any, to: Any) -> None:
    """A tile of whole numbers of 8 bits, from one address, as one of 16 bits to another."""
    sixteen = ir.Constant(_INTEGERS, [_INT32(16)] * SIDE)
    for row in range(SIDE):
        even, odd = (
            builder.load(_at(builder, entries, row * DEPTH + place), align=1, typ=_WHOLE)
            for place in (0, SIDE)
        )
        even, odd = (
            builder.bitcast(builder.sitofp(builder.sext(each, _INTEGERS), _VECTOR), _INTEGERS)
            for each in (even, odd)
        )
        both = builder.or_(builder.lshr(even, sixteen), builder.and_(odd, _FIRST_BITS))
        builder.store(both, _at(builder, to, 2 * DEPTH * row), align=4)


set_up = _written_by(1, _write_set_up)
give_back = _written_by(1, _write_given_back)
pack = _written_by(3, partial(_write_packing, PARTS))
pack_first = _written_by(3, partial(_write_packing, 1))
turn = _written_by(1, partial(_write_turning, 1))
turn_alone = _written_by(1, partial(_write_turning, PARTS))
add_rows = _written_by(4, _write_adding)
