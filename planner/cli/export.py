"""`planner export`: a plan as the engine takes it that one serves with."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import options

if TYPE_CHECKING:
    from ..plans.plan import Plan


@options.command(epilog=options.example("planner export plan.json --to sglang -o flags.txt"))
@click.argument("plan", type=options.FILE)
@click.option(
    "--to", "engine", required=True, type=options.Names("planner.export", "ENGINES"),
    help="The engine that is to take the plan.",
)  # fmt: skip
@click.option(
    "--profile", type=options.FILE,
    help="That the plan was made from (default: the one in the plan's folder, if it is there).",
)  # fmt: skip
@click.option("--draft", metavar="ID_OR_DIR", help="The name of the draft model for the engine.")
@options.costs_option
@options.output_option("settings")
def command(
    plan: Path,
    engine: str,
    profile: Path | None,
    draft: str | None,
    costs: Path | None,
    output: Path | None,
) -> None:
    """Write PLAN as an engine takes it: a file of its settings, or flags for its command line.

    A plan that the engine cannot carry out is planned anew for what it can, from the profile that
    it was made from; where the times were not that profile's, from both, --profile and --costs.
    """
    if costs is not None and profile is None:
        raise click.UsageError("--costs are for the acceptance in a --profile; name both")
    if draft == "":
        raise click.UsageError("--draft: got no name, expected that of the draft model")

    from ..documents.document import write_atomically
    from ..plans.plan import Plan

    decision = Plan.load(plan)
    source = profile or _profile_beside(decision, plan)
    facts = None if source is None else options.profile_with(source, costs)

    from ..export import export
    from ..show.words import exported

    result = export(decision, engine, profile=facts, draft=draft)
    if output is None:
        click.echo(result.content, nl=False)
    else:
        write_atomically(output, result.content)
        options.say(f"wrote {output}")
    if source is None:
        options.say(
            "note: exported as it is, without the profile that it was made from (--profile)"
        )
    else:
        options.say(f"planned from {source}")
    for line in exported(decision, result.plan, engine, result.notes):
        options.say(line)


def _profile_beside(plan: Plan, path: Path) -> Path | None:
    """The path of the profile that the plan was made from, if it is in the plan's folder, or in
    that of the file that a link leads to."""
    from ..documents.document import PlannerError, read_json
    from ..documents.profile import Profile

    if plan.made_from is None:
        return None
    folders = [path.parent, *([path.resolve().parent] if path.is_symlink() else [])]
    for file in chain(*(sorted(folder.glob("*.json")) for folder in folders)):
        try:
            content = read_json(file)
            found = content.get("format") == "profile" and Profile.parse(content, str(file))
        except PlannerError:  # somebody else's, or a damaged one
            continue
        if found and found.fingerprint() == plan.made_from.profile_sha256:
            return file
    return None
