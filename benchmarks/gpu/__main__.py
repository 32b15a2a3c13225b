"""Runs the parts one after the other, each in a process of its own, and prints what came out."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from .results import Results

PARTS = {
    "limits": 20,
    "correctness": 90,
    "law": 60,
    "sanitizer": 70,
    "pipeline": 150,
    "steps": 60,
    "contest": 120,
    "speed": 60,
    "comparison": 60,
    "tuning": 30,
}
"""Part -> the most seconds that it may take, in order of importance."""

TOTAL_SECONDS = sum(PARTS.values())
ROOT = Path(__file__).parent.parent.parent
GRACE_SECONDS = 10
"""A part that does not end by itself is ended so long after its time."""


def main(arguments: Sequence[str] | None = None) -> int:
    start = time.monotonic()
    options = _parser().parse_args(arguments)
    if options.child:
        return _child(options)
    if not options.dry_run and (fault := _unfit()):
        print(f"benchmarks.gpu: {fault}", file=sys.stderr)
        return 1
    output = options.output or _default_output(options.dry_run)
    output.parent.mkdir(parents=True, exist_ok=True)
    for file in (output, output.with_suffix(".log")):
        file.unlink(missing_ok=True)
    end = start + options.seconds
    for part in options.part or PARTS:
        _run_part(part, output, min(PARTS[part], end - time.monotonic()), options.dry_run)
    from .goals import table

    results = Results(output)
    if options.dry_run:
        print("a dry run on the CPU: everything runs, and no time says anything about the kernel\n")
    print(table(results))
    print(f"\nwrote {output}")
    return 0 if _right(results) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=sys.modules[__package__].__doc__
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; repeatable")
    parser.add_argument(
        "--dry-run", action="store_true", help="tiny shapes by the reference on the CPU"
    )
    parser.add_argument("--seconds", type=float, default=TOTAL_SECONDS, help="time for everything")
    parser.add_argument("-o", "--output", type=Path, help="default: benchmarks/results/gpu-NAME")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser


def _unfit() -> str | None:
    """Why this machine is none for this benchmark, in one line; None if it is one."""
    missing = [name for name in ("torch", "triton") if find_spec(name) is None]
    if missing:
        return f"got no {' and no '.join(missing)}, expected both installed beside {sys.executable}"
    import torch

    if not torch.cuda.is_available() or torch.version.cuda is None:
        return "got no NVIDIA GPU, expected one; --dry-run tries everything on the CPU"
    from tree_kernels import available

    return available(torch.device("cuda"), torch.bfloat16, 128)


def _default_output(dry: bool) -> Path:
    if dry:
        return ROOT / "build" / "gpu-dry-run.json"
    import torch

    name = re.sub(r"[^a-z0-9]+", "-", torch.cuda.get_device_name().lower()).strip("-")
    return ROOT / "benchmarks" / "results" / f"gpu-{name}.json"


def _run_part(part: str, output: Path, seconds: float, dry: bool) -> None:
    """`part` in a process of its own; its end is written down here if it cannot do so itself."""
    if seconds < 1:
        Results(output).end(part, "out of time", 0)
        return
    print(f"{part}, at most {seconds:.0f} s ...", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "benchmarks.gpu", "--child", part, "-o", str(output)]
    command += ["--seconds", str(seconds)] + ["--dry-run"] * dry
    start = time.monotonic()
    if fault := _fault(command, seconds + GRACE_SECONDS, output.with_suffix(".log")):
        Results(output).end(part, f"failed: {fault}", time.monotonic() - start)


def _fault(command: list[str], seconds: float, log: Path) -> str | None:
    """How `command` failed, in one line; None if it did not.  Nothing that it started outlives it:
    what goes on beside the next part would spoil its times.  All that it says goes to the log."""
    with log.open("a+", errors="replace") as words:
        start = words.tell()
        process = subprocess.Popen(command, stderr=words, process_group=0)
        try:
            if process.wait(seconds) == 0:
                return None
        except subprocess.TimeoutExpired:
            return "had to be ended"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        words.seek(start)
        lines = [line for line in words if line.strip()]
        return " ".join(lines[-1:]).strip()[:200] or f"exit code {process.returncode}"


def _child(options: argparse.Namespace) -> int:
    """One part in this process."""
    start = time.monotonic()
    from .bench import Bench, OutOfTime, Skipped

    module, _, function = options.child.partition(":")
    results = Results(options.output)
    results.start(options.child)
    bench = Bench(options.child, results, start + options.seconds, options.dry_run)
    state = "done"
    try:
        run = getattr(importlib.import_module(f".{module}", __package__), function or "run")
        run(bench)
    except OutOfTime:
        state = "out of time"
    except Skipped as skipped:
        state = f"skipped: {skipped}"
    results.end(options.child, state, time.monotonic() - start)
    return 0


def _right(results: Results) -> bool:
    """Was nothing found to be wrong, by checks that came to their ends with something to say?"""
    if results.state("correctness") == "done" and not results.rows("correctness"):
        return False
    for part in ("correctness", "law", "sanitizer"):
        if results.state(part).startswith("failed"):
            return False
        if any(row.get("right") is False or "failed" in row for row in results.rows(part)):
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
