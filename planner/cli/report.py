"""`planner report`: one page, for a colleague, of what was measured, chosen and found."""

from __future__ import annotations

from pathlib import Path

import click

from . import options


@options.command(
    epilog=options.example("planner report profile.json plan.json report.json -o report.html")
)
@click.argument("documents", type=options.FILE, nargs=-1, required=True, metavar="FILE...")
@options.output_option("page")
def command(documents: tuple[Path, ...], output: Path | None) -> None:
    """Write a page of HTML from a PROFILE, a PLAN, a REPORT, a CHECK, or several of them.

    The page opens offline, asks for nothing outside, and runs nothing: what to do and why, with
    pictures, what was promised and what was measured, and how to run it, in every engine too.
    """
    from ..documents.document import write_atomically
    from ..plans.files import load
    from ..show.page import page
    from ..show.story import Given

    names = [path.name for path in documents]
    given = [
        Given(Path(path.name) if names.count(path.name) == 1 else path, load(path))
        for path in documents
    ]
    content = page(given)
    if output is None:
        click.echo(content, nl=False)
    else:
        write_atomically(output, content)
        options.say(f"wrote {output}")
