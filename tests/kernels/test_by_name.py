"""Compiled functions that are found by name, in this process and in one that finds all compiled."""

import subprocess
import sys

MODULE = """
from numba import njit

from tree_kernels.host.by_name import called_by_name, floats_at, integers_at, rows_at


@called_by_name(4)
def _fill(address):
    out, step, first, apart = integers_at(address, 4)
    rows = rows_at(out, 2, step)
    for row in range(2):
        for place in range(3):
            rows[row, place] = first + apart * (3 * row + place)


@njit(cache=True)
def fill(out, first):
    _fill((out.ctypes.data, out.strides[0] // 4, first, 10))


@njit(cache=True)
def fill_twice(out):
    fill(out, 100)
    fill(out, 7)
"""
PROGRAM = """
import numpy as np
from filling import fill_twice

out = np.zeros((2, 5), np.float32)
fill_twice(out[:, 1:4])
assert out.tolist() == [[0, 7, 17, 27, 0], [0, 37, 47, 57, 0]], out
print(sum(fill_twice.stats.cache_hits.values()))
"""


def test_it_is_called_with_its_integers_from_code_that_was_kept_too(tmp_path):
    (tmp_path / "filling.py").write_text(MODULE)
    hits = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for _ in range(2)
    ]
    assert hits == ["0", "1"]
