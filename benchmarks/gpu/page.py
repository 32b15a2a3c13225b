"""The tables of runs on GPUs, from their JSON.

python -m benchmarks.gpu.page benchmarks/results/gpu --page docs/results/gpu.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.outputs import markdown, replace_marked

from .results import Row

Rows = Mapping[str, list[Row]]
"""A part's rows by run, in the order of runs."""


def rows_of(folder: Path, part: str) -> Rows:
    """The rows of one part in all of a folder's files; a run is called as its file is."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text())
        rows = content["parts"].get(part, {}).get("rows", [])
        if rows:
            found[path.stem] = rows
    return found


def passes(folder: Path) -> str:
    """Passes of the large target in each way, in turns."""
    rows = [
        [run, row["what"].removeprefix("pass over ").removesuffix(", ms"),
         f"{row['plain']:.2f}", f"{row['recorded']:.2f}", f"{row['ours']:.2f}"]
        for run, row in _each(rows_of(folder, "steps"))
        if "ours" in row
    ]  # fmt: skip
    head = ["run", "rows", "transformers, ms", "the same recorded, ms", "fused and recorded, ms"]
    return markdown(head, rows)


def steps(folder: Path) -> str:
    """Steps taken apart."""
    rows = [
        [run, row["what"], f"{row['step_ms']:.1f}", f"{row['waited_draft_ms']:.1f}",
         f"{row['draft_passes']:g}", f"{row['waited_verify_ms']:.1f}",
         f"{row['waited_accept_ms']:.1f}", f"{row['busy_ms']:.1f}", f"{row['kernels']:.0f}",
         f"{row['waits']:g}", f"{row['compilations']}"]
        for run, row in _each(rows_of(folder, "steps"))
        if "step_ms" in row
    ]  # fmt: skip
    head = ["run", "step", "ms", "draft, ms", "draft passes", "verify, ms", "accept, ms",
            "device busy, ms", "kernels", "waits", "compilations"]  # fmt: skip
    return markdown(head, rows)


def contest(folder: Path) -> str:
    """The loop beside transformers'; ratios are to the fastest of the run."""
    rows = []
    for run, found in rows_of(folder, "contest").items():
        least = min(row["ms_per_token"] for row in found)
        rows += [
            [run, f"{row['temperature']:g}", row["what"], f"{row['tokens_per_step']:.2f}",
             f"{row['ms_per_token']:.2f} ({row['ms_per_token'] / least:.2f} ×)",
             "–" if row["temperature"] else f"{row['same_texts']} of 4"]
            for row in found
        ]  # fmt: skip
    head = ["run", "T", "loop", "tokens per step", "ms a token", "texts as our plain ones"]
    return markdown(head, rows)


def checks(folder: Path) -> str:
    """How many checks each run made, and how many found something wrong."""
    rows = []
    for part in ("correctness", "law", "sanitizer"):
        for run, found in rows_of(folder, part).items():
            wrong = sum(row.get("right") is not True for row in found)
            rows.append([run, part, f"{len(found)}", f"{wrong}"])
    return markdown(["run", "part", "checks", "not right"], rows)


def _each(rows: Rows) -> Iterator[tuple[str, Row]]:
    for run, found in rows.items():
        for row in found:
            yield run, row


TABLES: dict[str, Callable[[Path], str]] = {
    "gpu-checks": checks, "gpu-passes": passes, "gpu-steps": steps, "gpu-contest": contest,
}  # fmt: skip
"""Marks -> what stands between them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--page", type=Path, required=True)
    arguments = parser.parse_args()
    for name, table in TABLES.items():
        replace_marked(arguments.page, name, table(arguments.folder))


if __name__ == "__main__":
    main()
