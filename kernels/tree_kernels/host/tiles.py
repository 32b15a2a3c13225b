"""Products with weights of few bits on a processor's matrix tiles, where it has them.

A tile holds numbers of 8 significant bits (bfloat16), and their products are added up in 32.  Whole
numbers of 8 bits are such numbers, too, and a float of 32 bits, which has 24, is the sum of three:
its first eight bits, the next and the last.  Products of these are exact in 32 bits, so that
nothing is rounded here but sums, as anywhere.  Even with three times the work, 16 rows of x are
multiplied while the weight comes from memory.

Memory gives most where it is read as it lies.  So a weight is kept in the order in which tiles are
read (`in_tiles`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .by_name import DONE, called_by_name, integers_at, rows_at
from .tile_code import (
    ALONE,
    DEPTH,
    HIGH,
    LINE_BYTES,
    LINES,
    PARTS,
    SIDE,
    TILE,
    add_rows,
    give_back,
    multiply_high,
    pack,
    pack_first,
    set_up,
    turn,
    turn_alone,
)

TILED_BFLOAT16, TILED_INT8 = 4, 5
"""How a weight is written, beside the ways of `products`: in the order of tiles."""
BLOCK = HIGH * SIDE
"""Rows of a weight that meet a tile of x."""
MOST_ADDED = 1024
"""Numbers of a row that are added up at a time: what 64 rows of x come to stays in the second
cache."""


def in_tiles(weight: np.ndarray) -> np.ndarray:
    """The entries of a weight in the order in which tiles are read, in a line.

    weight  [o, i], int16 (the bits of bfloat16) or int8; o a multiple of `BLOCK`, i of `DEPTH`

    For every `MOST_ADDED` columns, for every `BLOCK` of rows, for every `DEPTH` of these columns:
    `HIGH` tiles.  In each row of a tile of int8 the even entries come first.
    """
    parts = []
    for start in range(0, weight.shape[1], MOST_ADDED):
        columns = weight[:, start : start + MOST_ADDED]
        tiles = columns.reshape(-1, BLOCK, columns.shape[1] // DEPTH, DEPTH).swapaxes(1, 2)
        if weight.dtype == np.int8:
            tiles = tiles.reshape(*tiles.shape[:-1], SIDE, 2).swapaxes(-1, -2)
        parts.append(tiles.reshape(-1))
    return np.concatenate(parts)


@njit(cache=True)
def _packed(given: tuple[int, int, int, int]) -> np.ndarray:
    """Tiles of x: for every 16 rows, for every `DEPTH` numbers, one for each of the `PARTS`.

    given  the address of x, its rows and columns, and the entries between the starts of two rows
    """
    address, num_rows, width, step = given
    x, num_tiles = rows_at(address, num_rows, step), (num_rows + SIDE - 1) // SIDE
    packed, last = np.empty(num_tiles * width // DEPTH * PARTS * TILE, np.int8), num_rows % SIDE
    below = np.zeros((SIDE, DEPTH), np.float32)
    to = np.int64(packed.ctypes.data)
    for tile in range(num_tiles):
        for start in range(0, width, DEPTH):
            read, apart = np.int64(address + 4 * (tile * SIDE * step + start)), 4 * step
            if num_rows - tile * SIDE < SIDE:
                for row in range(last):
                    for place in range(DEPTH):
                        below[row, place] = x[num_rows - last + row, start + place]
                read, apart = np.int64(below.ctypes.data), 4 * DEPTH
            pack((read, apart, to))
            to += PARTS * TILE
    return packed


@njit(cache=True)
def _packed_alone(given: tuple[int, int, int, int]) -> np.ndarray:
    """Tiles of at most `ALONE` rows of x: for every `DEPTH` numbers one, with each row's first
    part, from `ALONE` on the second, and then the third."""
    address, num_rows, width, step = given
    x = rows_at(address, num_rows, step)
    packed = np.empty(width // DEPTH * TILE, np.int8)
    rows = np.zeros((SIDE, DEPTH), np.float32)
    bits, to = rows.view(np.int32), np.int64(packed.ctypes.data)
    for start in range(0, width, DEPTH):
        for row in range(num_rows):
            for place in range(DEPTH):
                rest = x[row, start + place]
                for part in range(PARTS):
                    rows[part * ALONE + row, place] = rest
                    bits[part * ALONE + row, place] &= -65536
                    rest -= rows[part * ALONE + row, place]
        pack_first((np.int64(rows.ctypes.data), np.int64(4 * DEPTH), to))
        to += TILE
    return packed


@called_by_name(11)
def _multiply_tiles(address: int) -> int:
    """`multiply_tiles`, of addresses and sizes; there is at least one row of x."""
    (
        weight, all_rows, widen, skipped, x, num_rows, width, x_step, out, out_step, height
    ) = integers_at(address, 11)  # fmt: skip
    products = rows_at(out, num_rows, out_step)
    for row in range(num_rows):
        for place in range(height):
            products[row, place] = 0
    num_tiles, parts = (num_rows + SIDE - 1) // SIDE, 1 if num_rows <= ALONE else PARTS
    size, given = 1 if widen else 2, (x, num_rows, width, x_step)
    packed = _packed_alone(given) if num_rows <= ALONE else _packed(given)
    room = np.empty(3 * HIGH * TILE, np.int8)
    case = np.int64(min(num_tiles, len(LINES)) - 1)
    set_up((np.int64(room.ctypes.data),))
    for start in range(0, width, MOST_ADDED):
        depth = min(MOST_ADDED, width - start) // DEPTH
        for first in range(0, height, BLOCK):
            own = weight + size * (all_rows * start + (skipped + first) * depth * DEPTH)
            asked = own + BLOCK * DEPTH * size * (1 if num_tiles == 1 else depth)
            for tile in range(num_tiles):
                row, x_tile = SIDE * tile, tile * (width // DEPTH) + start // DEPTH
                # Taken here: numba gives an array back once nothing names it any more.
                read, sums = packed.ctypes.data, np.int64(room.ctypes.data)
                numbers = depth, own, read + TILE * parts * x_tile, asked, sums
                multiply_high((parts, case, widen), numbers)
                asked += LINES[case] * LINE_BYTES * size // 2
                for each in range(HIGH):
                    rows = sums + each * TILE
                    if num_rows <= ALONE:
                        turn_alone((rows,))
                    else:
                        turn((rows,))
                    there = out + 4 * (row * out_step + first + SIDE * each)
                    add_rows((rows, there, 4 * out_step, min(SIDE, num_rows - row)))
    give_back((np.int64(room.ctypes.data),))
    return DONE


@njit(cache=True)
def multiply_tiles(product: np.ndarray, x: np.ndarray, out: np.ndarray, skipped: int) -> None:
    """out = x weight^T, of a weight in the order of `in_tiles`; where tiles are `allowed`.

    product  int64 [4]: the weight's address, rows, columns and way of writing
    x        float [n, i], rows in one piece
    out      float [n, o], likewise: of o rows of the weight, a multiple of `BLOCK`
    skipped  rows of the weight before these, a multiple of `BLOCK`
    """
    if len(x) > 0:
        (num_rows, width), height = x.shape, out.shape[1]
        read, written = np.int64(x.ctypes.data), np.int64(out.ctypes.data)
        _multiply_tiles(
            (
                product[0], product[1], np.int64(product[3] == TILED_INT8), skipped,
                read, num_rows, width, x.strides[0] // 4, written, out.strides[0] // 4, height,
            )
        )  # fmt: skip
