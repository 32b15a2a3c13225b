"""Do the kernels touch memory that is not their own?  Small cases under compute-sanitizer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import torch

from tree_kernels import verified

from .bench import Bench, Skipped
from .correctness import compared, draws, small_kernels, title, walks
from .results import Row
from .shapes import Case, HeadCounts

SANITIZED = "sanitizer:cases"
TOOLS = ("memcheck", "racecheck")
"""The sanitizer's tools: memory that is not one's own, and shared memory that is written and read
without waiting."""


API = {"memcheck": ("--report-api-errors", "no"), "racecheck": ()}


def run(bench: Bench) -> None:
    """A row for each of `TOOLS`: "right" or not, or why nobody knows."""
    places = (None, "/usr/local/cuda/bin")  # None: as the shell looks
    program = next(filter(None, (shutil.which("compute-sanitizer", path=p) for p in places)), None)
    if program is None:
        raise Skipped("compute-sanitizer is not installed here")
    for tool in TOOLS:
        bench.check_time(5)
        bench.attempt({"what": tool}, lambda tool=tool: _sanitized(bench, program, tool))


def cases(bench: Bench) -> None:
    """The calls that the sanitizer looks at: sizes that fill no block; splits and what combines
    them; a tile for warp groups; lists of blocks; and the kernels around."""
    dtype = torch.float32 if bench.dry else torch.float16
    odd, group = HeadCounts("odd", 6, 2, 80), HeadCounts("group", 8, 2, 128)
    shapes = [Case(odd, 37, 9)]
    if not bench.dry:
        shapes += [Case(group, 1500, 3), Case(group, 70, 64), Case(group, 33, 260)]
    for case in shapes:
        bench.add({"what": title(case), **compared(bench, case, dtype)})
    bench.add({"what": "bits, kept rows, walk", **small_kernels(bench)})
    bench.add({"what": "draws with replacement", **draws(bench)})
    for method in verified.METHODS:
        bench.add({"what": f"children {method}", **walks(bench, method, 1)})


def _sanitized(bench: Bench, program: str, tool: str) -> Row:
    """Every tensor in an allocation of its own: an access past one of many tensors in torch's
    large ones would pass for right.  What torch itself asks the driver in vain is no fault."""
    rows = bench.results.path.with_suffix(".sanitized")
    command = [program, "--tool", tool, *API[tool], sys.executable, "-m",
               "benchmarks.gpu", "--child", SANITIZED, "--seconds", str(bench.left()),
               "-o", str(rows)] + ["--dry-run"] * bench.dry  # fmt: skip
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=bench.left(), check=False,
            env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
        )  # fmt: skip
        computed = rows.exists() and '"right"' in rows.read_text()
    except subprocess.TimeoutExpired:
        return {"note": "broken off: out of time"}
    finally:
        rows.unlink(missing_ok=True)
    lines = [line for line in result.stdout.splitlines() if "SUMMARY" in line]
    none = bool(lines) and any(word in lines[-1] for word in (": 0 errors", ": 0 hazards"))
    if not lines or (none and not computed):
        return {"note": f"could not run here: {(result.stdout + result.stderr).strip()[-120:]!r}"}
    return {"right": none, "note": lines[-1].strip("= ")}
