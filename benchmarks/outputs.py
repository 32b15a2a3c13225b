"""Everything around a benchmark: arguments, processes, what is kept halfway, JSON and tables."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch
from pydantic import TypeAdapter

from planner.documents.document import PlannerError, write_atomically

Kept = TypeVar("Kept")


@dataclass(frozen=True)
class ContestRow:
    """One pair, shape and temperature; what was found there stands in fields of its own."""

    pair: str
    shape: str
    temperature: float

    @property
    def contest(self) -> tuple[str, str, str]:
        """The three as the tables name them."""
        return self.pair, self.shape or "as it is", f"{self.temperature:g}"


Row = TypeVar("Row", bound=ContestRow)


def parser_of(about: str, counts: Mapping[str, tuple[int, str]]) -> argparse.ArgumentParser:
    """The parser of a benchmark: `-o FILE` and `--page FILE` for `publish`, and its counts.

    about   the module's docstring, whose first line explains the command
    counts  (default, help) by the option's name
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--page", type=Path, help="put the table between this file's marks")
    for name, (default, words) in counts.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=words)
    return parser


def processes(number: int) -> ProcessPoolExecutor:
    """So many processes of one thread each."""
    return ProcessPoolExecutor(
        number, get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    )


@contextmanager
def folder_beside(output: Path | None, *, keep: bool = False) -> Iterator[Path]:
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


def kept(path: Path, kind: type[list[Kept]], measure: Callable[[], list[Kept]]) -> list[Kept]:
    """The dataclasses that lie at `path` as JSON; measured and written there if none do."""
    content = TypeAdapter(kind)
    if not path.exists():
        write_atomically(path, content.dump_json(measure()))
    return content.validate_json(path.read_bytes())


def kept_rows(folder: Path, kind: type[list[Kept]]) -> list[Kept]:
    """All dataclasses in the folder's files row-*.json, whichever command put them there."""
    return [
        row
        for path in sorted(folder.glob("row-*.json"))
        for row in TypeAdapter(kind).validate_json(path.read_bytes())
    ]


def publish(
    rows: Sequence[Any], table: str, name: str, output: Path | None, page: Path | None
) -> None:
    """The results are written: rows, which are dataclasses, and the same as a table in Markdown."""
    if output:
        write_atomically(output, json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if page:
        replace_marked(page, name, table)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    lines.insert(1, "|---" * len(head) + "|")
    return "\n".join(lines)


def contest_table(
    rows: Sequence[Row], column: Callable[[Row], str], cell: Callable[[Row, Sequence[Row]], str]
) -> str:
    """A line for each contest, what took part side by side.

    column  the name of what took part
    cell    what is said of it, given all rows of its contest
    """
    columns = list(dict.fromkeys(map(column, rows)))
    lines = []
    for contest, group in groupby(rows, lambda row: row.contest):
        together = list(group)
        cells = {column(row): cell(row, together) for row in together}
        lines.append([*contest, *(cells.get(name, "–") for name in columns)])
    return markdown(["pair", "shape", "T", *columns], lines)


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
