"""Options that several commands share."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..documents.profile import Profile
    from ..plans.plan import Plan
    from ..plans.report import Report


class Names(click.Choice[str]):
    """One of the names in a table, whose module is imported only when they are looked at."""

    def __init__(self, table: Callable[[], Iterable[str]]) -> None:
        self.case_sensitive = True
        self._table = table

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self._table())


class Number(click.FloatRange):
    """A float within a range.  NaN, which lies in every range, and infinity are refused."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


SEED = click.IntRange(0, 2**63 - 1)
"""Seeds that torch's generators take."""

MODEL_OPTIONS = (
    click.option(
        "--target",
        metavar="ID_OR_DIR",
        help="Target model: hub id, folder, or embedded/target[@SHAPE].",
    ),
    click.option(
        "--draft",
        metavar="ID_OR_DIR",
        help="Draft model: hub id, folder, or embedded/draft[-plain].",
    ),
    click.option("--device", help="cpu, cuda, cuda:1, ... (default: cuda if present)."),
    click.option(
        "--dtype",
        type=click.Choice(["float32", "bfloat16", "float16"]),
        help="Precision of both models (default: a plan's own, else float32 on cpu, bfloat16 on "
        "cuda).",
    ),
    click.option(
        "--attention",
        default="auto",
        show_default=True,
        metavar="[auto|tree|sdpa|eager]",
        help="tree: our kernel; sdpa, eager: transformers' own; auto: tree on a GPU that it "
        "serves.",
    ),
)


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of commands that run models: `target`, `draft`, `device`, `dtype`, `attention`."""
    for option in reversed(MODEL_OPTIONS):
        command = option(command)
    return command


threads_option = click.option(
    "--threads",
    type=click.IntRange(1, max(os.cpu_count() or 1, 1)),
    help="CPU threads (default: torch's own).",
)


def writable(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Callback of options that name a file to write: checked before the work begins."""
    if path is not None:
        from ..documents.document import check_writable

        check_writable(path)
    return path


def output_option(what: str):  # type: ignore[no-untyped-def]
    """`-o FILE`."""
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        callback=writable,
        help=f"Where to write the {what} (default: stdout).",
    )


def deliver(document: Profile | Plan | Report, output: Path | None) -> None:
    """Write `document` to `output`, or print it."""
    if output is None:
        click.echo(document.to_json(), nl=False)
    else:
        document.save(output)
        say(f"wrote {output}")


def say(line: str) -> None:
    """One line of progress or summary, on stderr."""
    print(line, file=sys.stderr, flush=True)
