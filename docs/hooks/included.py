"""Files of the repository's root as pages: what `<!-- include: CONTRIBUTING.md -->` becomes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
MARK = re.compile(r"^<!-- include: ([\w.]+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page, with the file's text and its links as seen from docs/; called by mkdocs."""
    return MARK.sub(lambda mark: included(mark[1]), markdown)


def included(name: str) -> str:
    """The text of a file in the root, links into docs/ made relative to that folder."""
    return (ROOT / name).read_text().replace("](docs/", "](")
