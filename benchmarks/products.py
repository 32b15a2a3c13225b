"""Products of few rows: what they cost on vectors, on matrix tiles, and with a packed weight.

    python -m benchmarks.products [-o FILE] [--page FILE]

Weights of one shape, one behind another, so many that they come from memory; every way multiplies
the same rows with all of them, in turns, in one thread.  Times are medians of the turns, for one
weight.  The packed weight is oneDNN's, of 32 bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from runtime.large_pages import large_zeros
from runtime.packed import packed_product
from tree_kernels.host.products import BFLOAT16, INT8, multiply_fours
from tree_kernels.host.tile_code import allowed
from tree_kernels.host.tiles import TILED_BFLOAT16, TILED_INT8, in_tiles, multiply_tiles

from .outputs import markdown, parser_of, publish

ROW_COUNTS = 1, 2, 4, 6, 8, 16, 32, 64, 128
SHAPES = (2048, 2048), (2048, 8192)
WRITTEN_AS = {
    torch.bfloat16: (BFLOAT16, TILED_BFLOAT16, torch.int16),
    torch.int8: (INT8, TILED_INT8, torch.int8),
}
BYTES = 1 << 28
"""All weights of 16 bits together."""


@dataclass(frozen=True)
class ProductRow:
    """Microseconds that out [n, o] = x [n, i] weight [o, i]^T takes."""

    weight: str
    outputs: int
    inputs: int
    rows: int
    vectors: float
    tiles: float
    packed: float


def measured(dtype: torch.dtype, shape: tuple[int, int], num_turns: int) -> list[ProductRow]:
    """The rows of one kind of weight, for every number of rows of x."""
    on_vectors, on_tiles, bits = WRITTEN_AS[dtype]
    count = BYTES // (2 * shape[0] * shape[1])
    generator = torch.Generator().manual_seed(0)
    entries = torch.randn(shape, generator=generator).mul_(30).to(dtype)
    ordered = torch.from_numpy(in_tiles(entries.view(bits).numpy())).view(dtype).view(shape)
    plain, tiled = (large_zeros((count, *shape), dtype).copy_(each) for each in (entries, ordered))
    packed = [packed_product(entries.float(), None) for _ in range(count)]
    named = [np.array([each.data_ptr(), *shape, on_tiles]) for each in tiled]

    def ways_of(x: Tensor) -> list[Callable[[int], object]]:
        given, out = x.numpy(), np.empty((len(x), shape[0]), np.float32)
        return [
            lambda number: multiply_fours(plain[number].data_ptr(), on_vectors, given, out),
            lambda number: multiply_tiles(named[number], given, out, 0),
            lambda number: packed[number](x),
        ]

    rows = []
    for num_rows in tqdm(ROW_COUNTS, desc=f"{dtype} {shape}"):
        ways = ways_of(torch.randn((num_rows, shape[1]), generator=generator))
        rows.append(ProductRow(str(dtype)[6:], *shape, num_rows, *timed(ways, count, num_turns)))
    return rows


@torch.inference_mode()
def timed(ways: Sequence[Callable[[int], object]], count: int, num_turns: int) -> list[float]:
    """Microseconds of each way's product, by turns over all weights."""
    turns: list[list[float]] = [[] for _ in ways]
    for _ in range(num_turns + 1):
        for way, seconds in zip(ways, turns, strict=True):
            start = time.perf_counter()
            for number in range(count):
                way(number)
            seconds.append((time.perf_counter() - start) / count)
    return [round(1e6 * median(seconds[1:]), 1) for seconds in turns]


def table(rows: Sequence[ProductRow]) -> str:
    """A line for each weight and number of rows."""
    head = ["weight", "rows", "vectors, µs", "tiles, µs", "packed, 32 bits, µs",
            "tiles, over one row on vectors"]  # fmt: skip
    lines = []
    for row in rows:
        lone = next(
            each.vectors
            for each in rows
            if (each.weight, each.inputs, each.rows) == (row.weight, row.inputs, 1)
        )
        lines.append(
            [
                f"{row.weight}, {row.outputs} × {row.inputs}",
                str(row.rows),
                *(f"{each:.0f}" for each in (row.vectors, row.tiles, row.packed)),
                f"{row.tiles / lone:.2f}",
            ]
        )
    return markdown(head, lines)


def main() -> None:
    arguments = parser_of(__doc__ or "", {"turns": (9, "of which the median counts")}).parse_args()
    if not allowed():
        raise SystemExit("got a processor without matrix tiles (AMX, bfloat16); use one that has")
    torch.set_num_threads(1)
    rows = []
    for dtype in WRITTEN_AS:
        for shape in SHAPES:
            rows += measured(dtype, shape, arguments.turns)
    publish(rows, table(rows), "products", arguments.output, arguments.page)
    print(table(rows))


if __name__ == "__main__":
    main()
