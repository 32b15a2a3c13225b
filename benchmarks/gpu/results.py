"""The JSON of a run: rewritten whole after every row, so that nothing measured is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class Results:
    """One file: facts about the machine, and for every part its state and its rows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = {"format": "gpu", "version": 1, "facts": {}, "parts": {}}
        if path.exists():
            self.content = json.loads(path.read_text())

    def start(self, part: str) -> None:
        """Begin `part` anew; until `end`, it counts as broken off."""
        self.content["parts"][part] = {"state": "broken off", "rows": []}
        self.write()

    def add(self, part: str, row: Row) -> None:
        self.content["parts"][part]["rows"].append(row)
        self.write()

    def end(self, part: str, state: str, seconds: float) -> None:
        """state  "done", "out of time", or "skipped: ..." and "failed: ..." with the reason"""
        entry = self.content["parts"].setdefault(part, {"rows": []})
        entry |= {"state": state, "seconds": round(seconds, 1)}
        self.write()

    def rows(self, part: str) -> list[Row]:
        return self.content["parts"].get(part, {}).get("rows", [])

    def state(self, part: str) -> str:
        return self.content["parts"].get(part, {}).get("state", "not run")

    def write(self) -> None:
        """Replace the file whole or leave it as it was."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.content, indent=1) + "\n")
        partial.replace(self.path)
