"""Compiled functions that are found by name, in this process and in one that finds all compiled."""

import runpy
import subprocess
import sys

import pytest

MODULE = """
from numba import njit

from tree_kernels.host.by_name import DONE, called_by_name, integers_at, rows_at


@called_by_name(4)
def _fill(address):
    out, step, first, apart = integers_at(address, 4)
    if first < 0:
        raise ValueError("too few")
    rows = rows_at(out, 2, step)
    for row in range(2):
        for place in range(3):
            rows[row, place] = first + apart * (3 * row + place)
    return DONE


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
from filling import fill, fill_twice

out = np.zeros((2, 5), np.float32)
fill_twice(out[:, 1:4])
assert out.tolist() == [[0, 7, 17, 27, 0], [0, 37, 47, 57, 0]], out
print(sum(fill_twice.stats.cache_hits.values()))
try:
    fill(out, -1)
except MemoryError as error:
    print(error)
"""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_it_is_called_with_its_integers_and_heard_from_code_that_was_kept_too(
    tmp_path, monkeypatch, capsys
):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    (tmp_path / "filling.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    runpy.run_path(str(program))
    del sys.modules["filling"]
    assert capsys.readouterr().out.split("\n")[:2] == ["0", "filling._fill failed"]
    run = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout.split("\n")[:2] == ["1", "filling._fill failed"]
