"""`planner doctor`: what this machine can do, and what is missing."""

from __future__ import annotations

import click

from . import options


@options.command(epilog=options.example("planner doctor"))
def command() -> None:
    """Say what this machine can do, and what to do where something is missing.

    Packages, cores and their instructions, memory, GPU and kernels, what other programs take of the
    cores right now, and the engines that are found.  Nothing is changed.
    """
    from ..show.tables import Named, printed, watched
    from .examination import examine

    with watched("looking"):
        found = list(examine())
    lines = {each.name: each.line for each in found}
    click.echo(printed([Named(lines, 1 + max(map(len, lines)), pasted=("next",))]))
