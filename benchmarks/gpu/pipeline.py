"""The planner's main job on this GPU with a target of a large shape: profile, solve, decode."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from .bench import Bench, OutOfTime, Skipped

NEEDED = ("pydantic", "numba", "scipy", "click", "transformers", "safetensors", "rich", "tqdm")
TARGET, DRAFT = (
    f"embedded/{role}@{shape},vocab=32000,positions=16384"
    for role, shape in (("target", "llama-2-7b"), ("draft", "100M"))
)
"""A vocabulary and positions as models of this size have them."""
QUICK = ("--num-prompts", "8", "--num-tokens", "32", "--num-ranks", "8", "--context", "512",
         "--max-nodes", "64", "--repeats", "5", "--temperature", "0",
         "--temperature", "0.6")  # fmt: skip


def run(bench: Bench) -> None:
    """A row per command, then one per attention with what decoding measured."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise Skipped(
            f"the planner needs {', '.join(missing)}, not installed here; put wheels into wheels/"
        )
    if bench.dry:
        raise Skipped("a dry run leaves the planner alone")
    with tempfile.TemporaryDirectory() as folder:
        profile = profile_of(bench.results.path)
        plan, report = (Path(folder) / f"{name}.json" for name in ("plan", "report"))
        models = ("--target", TARGET, "--draft", DRAFT, "--device", "cuda", "--dtype", "bfloat16")
        _command(bench, "profile", *models, *QUICK, "-o", str(profile))
        _command(bench, "solve", str(profile), "-o", str(plan))
        for attention in ("tree", "sdpa"):
            _command(
                bench, "decode", str(plan), *models, "--attention", attention,
                "--prompts", "embedded/evaluation", "--num-prompts", "4", "--max-new-tokens", "64",
                "--baseline", "-o", str(report),
            )  # fmt: skip
            bench.add({"what": f"decoded, attention {attention}", **_measured(report)})


def profile_of(results: Path) -> Path:
    """The place of the profile that is measured for a file of results."""
    return results.with_name(f"{results.stem}-profile.json")


def _command(bench: Bench, *arguments: str) -> None:
    """One `planner` command in a process of its own; a row with its seconds."""
    bench.check_time(5)
    start = time.monotonic()
    code = "from planner.cli import main; main()"
    try:
        result = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True,
            timeout=bench.left(), check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise OutOfTime from None
    print(result.stderr, file=sys.stderr)
    row = {"what": f"planner {arguments[0]}", "seconds": round(time.monotonic() - start, 1)}
    if result.returncode:
        bench.add({**row, "failed": (result.stderr.strip().splitlines() or ["?"])[-1][:200]})
        raise Skipped(f"planner {arguments[0]} failed")
    bench.add(row)


def _measured(report: Path) -> dict[str, object]:
    content = json.loads(report.read_text())
    measured, baseline = content["measured"], content["baseline"]
    return {
        "attention": content["execution"]["attention"],
        "nodes": len(content["plan"]["drafting"].get("parents", [])),
        "tokens_per_step": measured["tokens_per_step"],
        "speedup": baseline["speedup"]["value"],
        "predicted": (content["plan"]["predicted"] or {}).get("speedup", {}).get("value"),
    }
