"""A program for the copy that the recipes of CONTRIBUTING.md were followed on: pytest, repeatedly.

    python in_one_process.py '[["tests/a.py", "-q"], ...]' PROGRAM

Runs pytest with each list of words, and then the program, all in one process: importing torch takes
longer than most of what they do.  A line that begins with `MARK` follows on each.
"""

from __future__ import annotations

import json
import runpy
import sys

import pytest

MARK = "=== exit code "


def main(lists: list[list[str]], program: str) -> None:
    """Run everything, whatever fails."""
    for words in lists:
        print(f"{MARK}{int(pytest.main(words))}", flush=True)
    runpy.run_path(program, run_name="__main__")
    print(f"{MARK}0", flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
