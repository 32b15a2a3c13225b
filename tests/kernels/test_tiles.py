"""Products on matrix tiles give what those of 64 bits give, up to the rounding of sums."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tree_kernels.host import tile_code
from tree_kernels.host.tile_code import ALONE, DEPTH, SIDE, allowed
from tree_kernels.host.tiles import (
    BLOCK,
    MOST_ADDED,
    TILED_BFLOAT16,
    TILED_INT8,
    in_tiles,
    multiply_tiles,
)

WRITTEN_AS = {torch.bfloat16: TILED_BFLOAT16, torch.int8: TILED_INT8}
on_tiles = pytest.mark.skipif(not allowed(), reason="this processor or system has no matrix tiles")


def product_of(weight: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The row that names a weight, and its entries in the order of tiles, which are to be kept."""
    bits = weight.view(torch.int8 if weight.dtype == torch.int8 else torch.int16)
    kept = in_tiles(bits.numpy())
    return np.array([kept.ctypes.data, *weight.shape, WRITTEN_AS[weight.dtype]]), kept


def test_tiles_lie_in_the_order_in_which_they_are_read():
    for dtype, shape in ((np.int16, (2 * BLOCK, MOST_ADDED + 64)), (np.int8, (BLOCK, 96))):
        weight = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
        expected = []
        for start in range(0, shape[1], MOST_ADDED):
            columns = range(start, min(start + MOST_ADDED, shape[1]), DEPTH)
            for first, column in product(range(0, shape[0], BLOCK), columns):
                for row in range(first, first + BLOCK):
                    entries = weight[row, column : column + DEPTH].tolist()
                    if dtype == np.int8:
                        entries = entries[::2] + entries[1::2]
                    expected += entries
        assert in_tiles(weight).tolist() == expected


@on_tiles
@pytest.mark.parametrize("num_rows", [0, 1, ALONE, ALONE + 1, 15, 16, 17, 32, 33, 48, 63, 64, 80])
@pytest.mark.parametrize("shape", [(64, 32), (64, 64), (128, MOST_ADDED + 32), (192, 96)], ids=str)
@pytest.mark.parametrize("dtype", WRITTEN_AS, ids=str)
def test_all_shapes_and_nothing_beside(dtype, shape, num_rows):
    """Rows of x and of the outcome are pieces of longer ones, which stay as they are."""
    generator = torch.Generator().manual_seed(num_rows)
    weight = torch.randn(shape, generator=generator).mul_(30).to(dtype)
    longer = torch.randn((num_rows, shape[1] + 3), generator=generator).numpy()
    x, out = longer[:, 1:-2], np.full((num_rows, shape[0] + 2), 7, np.float32)
    named, _kept = product_of(weight)
    multiply_tiles(named, x, out[:, 1:-1], 0)
    exact = weight.double().numpy().T
    assert (np.abs(out[:, 1:-1] - x @ exact) <= 1e-6 * (np.abs(x) @ np.abs(exact))).all()
    assert (out[:, [0, -1]] == 7).all()


@on_tiles
@pytest.mark.parametrize("num_rows", [3, 20])
@pytest.mark.parametrize("dtype", WRITTEN_AS, ids=str)
def test_some_rows_of_the_weight_give_the_same_as_among_all(dtype, num_rows):
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn((4 * BLOCK, 64), generator=generator).mul_(30).to(dtype)
    x = torch.randn((num_rows, 64), generator=generator).numpy()
    named, _kept = product_of(weight)
    whole, part = (np.zeros((num_rows, rows), np.float32) for rows in (len(weight), 2 * BLOCK))
    multiply_tiles(named, x, whole, 0)
    multiply_tiles(named, x, part, 2 * BLOCK)
    assert (part == whole[:, 2 * BLOCK :]).all()


@on_tiles
@pytest.mark.parametrize("num_rows", [1, ALONE, SIDE, 40])
@pytest.mark.parametrize("dtype", WRITTEN_AS, ids=str)
def test_no_bit_of_x_is_lost(dtype, num_rows):
    """Where each row of the weight is a power of two times a unit vector, nothing is rounded."""
    weight = torch.zeros((64, 64))
    weight[torch.arange(64), torch.arange(64).flip(0)] = 2.0 ** (torch.arange(64) % 7)
    generator = np.random.default_rng(num_rows)
    x = generator.standard_normal((num_rows, 64)) * 10.0 ** generator.uniform(-20, 20, 64)
    x = x.astype(np.float32)
    x[0, :3] = 2**24 - 1, -(2**24) + 1, 0
    named, _kept = product_of(weight.to(dtype))
    out = np.empty((num_rows, 64), np.float32)
    multiply_tiles(named, x, out, 0)
    assert (out == x @ weight.numpy().T).all()


@on_tiles
def test_what_is_no_number_stays_none():
    named, _kept = product_of(torch.ones((64, 32), dtype=torch.bfloat16))
    x, out = np.ones((2, 32), np.float32), np.empty((2, 64), np.float32)
    x[1, 5] = np.nan
    multiply_tiles(named, x, out, 0)
    assert (out[0] == 32).all()
    assert np.isnan(out[1]).all()


ON_ITS_OWN = """
import numpy as np
from tree_kernels.host.tile_code import allowed
from tree_kernels.host.tiles import TILED_INT8, in_tiles, multiply_tiles
assert allowed()
weight = np.arange(64 * 2048).reshape(64, 2048).astype(np.int8)
kept = in_tiles(weight)
named = np.array([kept.ctypes.data, 64, 2048, TILED_INT8])
for rows in (3, 40):
    x, out = np.ones((rows, 2048), np.float32), np.empty((rows, 64), np.float32)
    multiply_tiles(named, x, out, 0)
    assert (out == weight.sum(1, dtype=np.float32)).all(), rows
"""


@on_tiles
def test_nothing_is_read_that_was_given_back():
    """The system's allocator overwrites here what is given back to it."""
    settings = os.environ | {"MALLOC_PERTURB_": "165"}
    done = subprocess.run(
        [sys.executable, "-c", ON_ITS_OWN], env=settings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-500:]


def test_a_system_that_refuses_is_believed(monkeypatch):
    monkeypatch.setattr(tile_code, "KNOWN", True)
    for answer, expected in ((0, True), (-1, False)):
        library = SimpleNamespace(syscall=lambda *asked, answer=answer: answer)
        monkeypatch.setattr(ctypes, "CDLL", lambda name, library=library: library)
        assert allowed.__wrapped__() == expected
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    assert not allowed.__wrapped__()
    monkeypatch.setattr(tile_code, "KNOWN", False)
    assert not allowed.__wrapped__()
