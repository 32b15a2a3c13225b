"""How a call of tree attention is cut into programs: a table of tiles, and a number of splits."""

from __future__ import annotations

from dataclasses import dataclass

MAX_SPLITS = 128
"""`combine` holds all splits of a row at once."""


@dataclass(frozen=True)
class Config:
    """The shape of one program of `attend`, and how the compiler schedules it.

    block_m          rows of a tile: pairs of a node and a query head; 16 or a larger power of two
    block_n          keys of a full prefix block; 32 or a larger power of two
    num_stages       blocks of keys and values under way while one is worked on
    programs_per_sm  programs that fit at once, by their registers and shared memory
    """

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    programs_per_sm: int

    def __post_init__(self) -> None:
        for name, least in (("block_m", 16), ("block_n", 32), ("num_warps", 1)):
            number = getattr(self, name)
            if number < least or number & (number - 1):
                raise ValueError(f"{name}: got {number}, expected a power of two, {least} or more")
        for name in ("num_stages", "programs_per_sm"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: got {getattr(self, name)}, expected at least 1")


@dataclass(frozen=True)
class Row:
    """One line of the table: the calls it serves, and how."""

    element_size: int  # bytes
    head_dim: int  # largest
    num_rows: int | None  # largest n G; None: any
    shared: int  # bytes that a program takes, on the architecture that takes most
    config: Config


# The first line that fits a call and its device serves.  All compile without spilled registers;
# `tests/kernels/test_compile.py` reads that and the shared memory off the machine code.
TABLE = (
    Row(2, 64, 16, 71_680, Config(16, 128, 4, 3, 3)),
    Row(2, 64, 32, 77_824, Config(32, 128, 4, 3, 2)),
    Row(2, 64, 128, 73_728, Config(64, 64, 4, 4, 3)),
    Row(2, 64, None, 114_688, Config(128, 128, 8, 3, 1)),
    Row(2, 64, None, 57_344, Config(64, 64, 4, 3, 3)),
    Row(2, 128, 16, 104_448, Config(16, 64, 4, 4, 2)),
    Row(2, 128, 16, 71_680, Config(16, 64, 4, 3, 2)),
    Row(2, 128, 32, 77_824, Config(32, 64, 4, 3, 2)),
    Row(2, 128, 128, 114_688, Config(64, 64, 4, 3, 2)),
    Row(2, 128, 128, 81_920, Config(64, 64, 4, 2, 2)),
    Row(2, 128, None, 229_376, Config(128, 128, 8, 3, 1)),
    Row(2, 128, None, 131_072, Config(128, 64, 8, 3, 1)),
    Row(2, 128, None, 98_304, Config(128, 64, 8, 2, 1)),
    Row(2, 256, 16, 75_776, Config(16, 64, 8, 2, 2)),
    Row(2, 256, None, 163_840, Config(64, 64, 8, 2, 1)),
    Row(2, 256, None, 98_560, Config(64, 32, 4, 2, 1)),
    Row(4, 128, None, 43_072, Config(16, 32, 4, 2, 2)),
    Row(4, 256, None, 84_160, Config(16, 32, 8, 2, 2)),
)


def choose_config(num_rows: int, head_dim: int, element_size: int, shared: int) -> Config:
    """The first line of the table for n G rows of a head dimension, elements of so many bytes.

    shared  bytes of shared memory that the device gives a program

    Raises ValueError where no line serves.
    """
    for row in TABLE:
        few = row.num_rows is None or num_rows <= row.num_rows
        same = element_size == row.element_size
        if few and same and head_dim <= row.head_dim and row.shared <= shared:
            return row.config
    raise ValueError(
        f"query: got a head dimension of {head_dim} and {element_size} bytes an element on a "
        f"device with {shared} bytes of shared memory, expected a head dimension of at most 256, "
        "2 or 4 bytes, and room for such a tile"
    )


def choose_splits(num_programs: int, num_blocks: int, num_slots: int) -> int:
    """The number of splits that the work list of every tile is cut into.

    num_programs  programs without splitting: tiles x key-value heads x texts
    num_blocks    blocks of keys in the longest list that may come
    num_slots     programs that the device runs at once

    Programs run in waves, and a wave that is not full wastes slots: returns the least number that
    keeps at least 90 % of the slots that the best number keeps busy, for every split costs traffic.
    """
    most = max(1, min(num_blocks, MAX_SPLITS, -(-num_slots // num_programs)))

    def busy(splits: int) -> float:
        waves = splits * num_programs / num_slots
        return waves / -(-splits * num_programs // num_slots)

    enough = 0.9 * max(busy(splits) for splits in range(1, most + 1))
    return next(splits for splits in range(1, most + 1) if busy(splits) >= enough)
