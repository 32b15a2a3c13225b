"""A reader's end of the line: exports come in, what the parser made of them goes out."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from typing import Any


def answer(version: str, read: Callable[[str, str], dict[str, Any]]) -> None:
    """Read [[engine, content], ...] from stdin; write the version and [understood, error] of each.

    read  what the parser understands of an engine's content; raises whatever it raises
    """
    found = []
    with contextlib.redirect_stdout(sys.stderr):
        for engine, content in json.load(sys.stdin):
            try:
                found.append([read(engine, content), None])
            except (Exception, SystemExit) as error:
                words = " ".join(str(error).split())
                found.append([None, f"{type(error).__name__}: {words}"[:300]])
    json.dump({"version": version, "read": found}, sys.stdout)
