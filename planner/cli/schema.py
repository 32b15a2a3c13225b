"""`planner schema`: the JSON Schema of a document."""

from __future__ import annotations

import click

from . import options


@options.command(epilog=options.example("planner schema plan"))
@click.argument("document", type=options.Names("planner.plans.files", "DOCUMENTS"))
def command(document: str) -> None:
    """Print the JSON Schema of a document: what its file has to hold."""
    from ..plans.files import schema_json

    click.echo(schema_json(document), nl=False)
