"""`planner schema`: the published JSON Schema of a document."""

from __future__ import annotations

import click

from ..documents import DOCUMENTS


@click.command()
@click.argument("document", type=click.Choice(list(DOCUMENTS)))
def command(document: str) -> None:
    """Print the JSON Schema of a profile, plan or report."""
    from ..schemas import schema_path

    click.echo(schema_path(document).read_text(), nl=False)
