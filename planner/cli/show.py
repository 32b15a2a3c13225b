"""`planner show`: a document for a person, in the terminal or as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from ..documents import load
from ..schema import check_writable
from .options import say


@click.command()
@click.argument("document", type=click.Path(path_type=Path))
@click.option("--png", type=click.Path(path_type=Path), help="Draw it into this file instead.")
def command(document: Path, png: Path | None) -> None:
    """Show a PROFILE, PLAN or REPORT."""
    if png is not None:
        check_writable(png)
    content = load(document)
    if png is None:
        from ..display import render

        click.echo(render(content))
        return

    from ..figures import FIGURES, save_png

    save_png(FIGURES[type(content)](content), png)
    say(f"wrote {png}")
