"""The Triton kernels without a GPU: Triton's interpreter runs them in a process of its own, for it
has to be chosen before the first kernel is defined."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_interpreted_kernels_pass_their_tests():
    pytest.importorskip(
        "triton", reason="Triton is not installed: its interpreter runs these tests"
    )
    paths = [str(ROOT), str(ROOT / "kernels"), os.environ.get("PYTHONPATH", "")]
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "tests/kernels/interpreted",
        ],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    assert " passed" in result.stdout or "[100%]" in result.stdout
