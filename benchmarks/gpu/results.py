"""The JSON of a run: rewritten whole after every row, so that nothing measured is lost."""

from __future__ import annotations

import json
import os
import tempfile
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
        handle, partial = tempfile.mkstemp(dir=self.path.parent, suffix=".partial")
        with os.fdopen(handle, "w") as file:
            file.write(_lines(self.content))
        os.replace(partial, self.path)


def _lines(content: dict[str, Any]) -> str:
    """Indented JSON, every row on a line of its own."""
    places: list[str] = []

    def hold(rows: list[Row]) -> list[str]:
        start = len(places)
        places.extend(json.dumps(row) for row in rows)
        return [f"@{index}@" for index in range(start, len(places))]

    parts = {name: {**part, "rows": hold(part["rows"])} for name, part in content["parts"].items()}
    text = json.dumps({**content, "parts": parts}, indent=1)
    for index, row in enumerate(places):
        text = text.replace(f'"@{index}@"', row, 1)
    return text + "\n"
