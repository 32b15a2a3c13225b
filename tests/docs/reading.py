"""The pages of the documentation, for tests: where they stand, their parts, the programs behind."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
EVERYTHING = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *PAGES]


def name_of(page: Path) -> str:
    """A page's path from the repository's root, as a test's id."""
    return str(page.relative_to(ROOT))


def program(path: str) -> ModuleType:
    """A file of Python outside the packages, as a module; `path` is from the repository's root."""
    specification = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def fenced(text: str) -> list[tuple[str, str]]:
    """(language, content) of every fenced block."""
    return re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
