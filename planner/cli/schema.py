"""`planner schema`: the JSON Schema of a document."""

from __future__ import annotations

import click

from ..plans.files import DOCUMENTS
from ..plans.schema import schema_json


@click.command()
@click.argument("document", type=click.Choice(list(DOCUMENTS)))
def command(document: str) -> None:
    """Print the JSON Schema of a profile, plan or report."""
    click.echo(schema_json(document), nl=False)
