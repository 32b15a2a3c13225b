"""The Triton kernels without a GPU: Triton's interpreter runs them in a process of its own, for it
has to be chosen before the first kernel is defined."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
INSIDE = {
    "tests/runtime/test_tree_attention.py": "24_nodes and llama or some_nodes and qwen2",
    "tests/runtime/test_cache.py": "moved_alike",
}
"""Tests of the kernels inside models.  Of the families, which hand the kernels the same shapes, one
each: interpreting is slow."""


def version_of(package: ModuleType) -> tuple[int, int]:
    major, minor, *_ = package.__version__.split(".")
    return int(major), int(minor)


@pytest.mark.parametrize(
    ("which", "least", "inside"),
    [("not soak", 200, 14), pytest.param("soak", 50, 0, marks=pytest.mark.soak)],
)
def test_the_interpreted_kernels_pass_their_tests(which, least, inside):
    triton = pytest.importorskip(
        "triton", reason="Triton is not installed: its interpreter runs these tests"
    )
    if version_of(triton) < (3, 7) and version_of(np) >= (2, 4):
        pytest.skip("Triton's interpreter makes numbers of arrays as NumPy does no more since 2.4")
    paths = [str(ROOT), str(ROOT / "kernels"), os.environ.get("PYTHONPATH", "")]
    named = [
        *("-p", "no:cacheprovider", "-o", "addopts=-v", "-m", which),
        "tests/kernels/interpreted",
        *INSIDE,
        "-k",
        " or ".join(["interpreted", *INSIDE.values()]),
    ]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *named],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    passed = [line.split("::")[0] for line in result.stdout.splitlines() if " PASSED" in line]
    assert len(passed) > least
    assert sum(file in INSIDE for file in passed) == inside
