"""The places of a benchmark's results: JSON, and a table between marks of a Markdown file."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from planner.documents.document import PlannerError, write_atomically


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """`-o FILE` and `--page FILE`, for `publish`."""
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--page", type=Path, help="put the table between this file's marks")


@contextmanager
def folder_beside(output: Path | None, *, keep: bool) -> Iterator[Path]:
    """A folder for what is measured on the way to `output`.

    keep  stop halfway: the same command given again finds there what it has; otherwise, and where
          there is no output, it goes away when all is done
    """
    if output is None:
        with TemporaryDirectory() as folder:
            yield Path(folder)
        return
    folder = output.parent / f".{output.name}.kept"
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
    if not keep:
        shutil.rmtree(folder)


def publish(
    rows: Sequence[Any], table: str, name: str, output: Path | None, page: Path | None
) -> None:
    """The results are written: rows, which are dataclasses, and the same as a table in Markdown."""
    if output:
        write_atomically(output, json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if page:
        replace_marked(page, name, table)


def marked(path: Path, name: str) -> str:
    """The text between `<!-- name -->` and `<!-- /name -->`.  Raises PlannerError."""
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
