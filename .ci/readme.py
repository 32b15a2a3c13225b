"""Run the README: its `$ planner ...` lines, then its Python, in a fresh folder.

The `make` lines are run by `.ci/run` itself.  Exits non-zero at the first thing that fails.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def blocks(language: str) -> list[str]:
    """Contents of the README's fenced blocks in `language`."""
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


def main() -> None:
    commands = [
        line.removeprefix("$ ")
        for block in blocks("console")
        for line in block.splitlines()
        if line.startswith("$ ") and not line.startswith("$ make")
    ]
    programs = blocks("python")
    if not commands or not programs:
        sys.exit("README: expected commands and a Python example, found none")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with tempfile.TemporaryDirectory() as folder:
        lines = [shlex.split(command) for command in commands]
        for arguments in [*lines, *([sys.executable, "-c", program] for program in programs)]:
            print("$", shlex.join(arguments)[:200], flush=True)
            subprocess.run(arguments, cwd=folder, env={**os.environ, "PATH": path}, check=True)


if __name__ == "__main__":
    main()
