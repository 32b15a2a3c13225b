"""Tables in Markdown files, between marks, so that a benchmark can put its own there."""

from __future__ import annotations

import re
from pathlib import Path

from planner.schema import PlannerError, write_atomically


def marked(path: Path, name: str) -> str:
    """What stands between `<!-- name -->` and `<!-- /name -->`.  Raises PlannerError."""
    found = _pattern(name).search(path.read_text())
    if found is None:
        raise PlannerError(f"{path}: has no marks <!-- {name} --> and <!-- /{name} -->; add them")
    return found[2].strip()


def replace_marked(path: Path, name: str, content: str) -> None:
    """Put `content` between the marks.  Raises PlannerError where there are none."""
    marked(path, name)
    write_atomically(
        path, _pattern(name).sub(lambda m: f"{m[1]}\n{content}\n{m[3]}", path.read_text())
    )


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name} -->)(.*?)(<!-- /{name} -->)", re.DOTALL)
