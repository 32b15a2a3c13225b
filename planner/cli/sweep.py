"""`planner sweep`: plans for many questions to several profiles, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import options

if TYPE_CHECKING:
    from ..optimizer.plan_table import PlanRow
    from ..show.tables import Shown


def _table(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """`options.writable`, for a file whose name says which form it has."""
    if path is not None:
        from ..optimizer.plan_table import TABLES

        if path.suffix not in TABLES:
            raise click.BadParameter(f"got {path}, expected a name ending in {' or '.join(TABLES)}")
    return options.writable(context, option, path)


@options.command(
    epilog=options.example("planner sweep profile.json --solver fixed --solver grown -o table.csv")
)
@click.argument("profiles", type=options.FILE, nargs=-1, required=True, metavar="PROFILE...")
@options.setting(
    "--temperature", "temperatures", type=options.Number(0), multiple=True,
    help="Default: all that a profile holds; so for the others, too.",
)  # fmt: skip
@options.setting("--batch-size", "batch_sizes", type=click.IntRange(1), multiple=True)
@options.setting(
    "--context", "contexts", type=click.IntRange(0), multiple=True, help="Tokens in the cache.",
)  # fmt: skip
@options.setting(
    "--solver", "solvers", metavar="NAME", multiple=True, default=("auto",), show_default=True,
    help="As for planner solve.",
)  # fmt: skip
@options.setting(
    "--verifier", "verifiers", metavar="NAME", multiple=True,
    help="Default: a row for each that was measured; `auto`: one for the best.",
)  # fmt: skip
@options.setting("--max-nodes", type=int, help="Largest tree, root included.")
@options.setting("--max-depth", type=int, help="Deepest tree, levels below the root.")
@options.costs_option
@click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True,
    help="Processes that plan side by side.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=options.FILE, callback=_table, metavar="FILE.csv|FILE.json",
    help="Where to write the table, with all digits; interrupted, the same command goes on.",
)  # fmt: skip
def command(profiles: tuple[Path, ...], costs: Path | None, jobs: int, output: Path | None) -> None:
    """Plan for every temperature, batch size, context, solver and verifier in every PROFILE.

    Each is an option to repeat.  The table has a row for each plan, the fastest first, and says why
    where there is none; several profiles compare their drafts.
    """
    from ..documents.counted import counted
    from ..documents.document import PlannerError, write_atomically
    from ..documents.pieces import Journal, discard_pieces, written_by_code
    from ..optimizer.plan_table import PLANNING, TABLES, Questions, plan_table
    from ..show.comparison_text import plan_rows
    from ..show.tables import printed, watched
    from ..show.words import whose_times

    facts = {str(path): options.profile_with(path, costs) for path in profiles}
    code = "" if output is None else written_by_code(PLANNING)
    journal = Journal(output, {}, code, options.say)
    with watched("plans") as status:
        rows = plan_table(
            facts,
            options.settings(Questions),
            jobs=jobs,
            journal=journal,
            done=lambda finished, all_of_them: status.update(f"{finished} of {all_of_them} plans"),
        )
    if all(row.plan is None for row in rows):
        raise PlannerError(f"no plan in {counted(len(rows), 'row')}, the first: {rows[0].no_plan}")
    if output is not None:
        write_atomically(output, TABLES[output.suffix](rows))
        discard_pieces(output)
        options.say(f"wrote {output}")
    times = dict.fromkeys(f"Times are {whose_times(each)}." for each in facts.values())
    click.echo(printed([*plan_rows(rows), "\n".join(times), *_following(rows[0], costs)]))


def _following(fastest: PlanRow, costs: Path | None) -> list[Shown]:
    """The command that writes the plan of the first row, if it has one."""
    from ..show.advice import typed
    from ..show.tables import Named

    if fastest.plan is None:
        return []
    words = ["--costs", str(costs)] if costs is not None else []
    for name, value in fastest.asked.model_dump().items():
        if value is not None:
            words += [f"--{name.replace('_', '-')}", f"{value}"]
    line = typed("solve", Path(fastest.profile), words, "plan")
    return [Named({"next": line}, 6, pasted=("next",))]
