"""The private option of numba that compiled policies are faster with, and a numba without it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from planner.policies.compiled import slots

FORGET = """
from numba.core.cpu import CPUTargetOptions
for each in CPUTargetOptions.__mro__:
    if "_nrt" in vars(each):
        del each._nrt
"""
USE = """
from planner.policies.compiled import slots
from planner.policies.compiled.memory import new_memory
heap = slots.heap_in.py_func(new_memory(3, 2), 0)
slots.push(heap, 0.25, 1)
slots.push(heap, 0.5, 2)
print("_nrt" in slots.push.targetoptions, slots.pop(heap))
"""


def test_this_numba_knows_it():
    assert slots.push.targetoptions["_nrt"] is False


@pytest.mark.parametrize(("before", "known"), [("", True), (FORGET, False)])
def test_without_it_the_same_is_decided(before, known, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", before + USE],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == f"{known} (0.5, 2)\n", done.stderr
