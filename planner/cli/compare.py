"""`planner compare`: what given plans are worth on the machine of a profile."""

from __future__ import annotations

from pathlib import Path

import click

from . import options


@options.command(epilog=options.example("planner compare plan.json --profile profile.json"))
@click.argument("plans", type=options.FILE, nargs=-1, required=True, metavar="PLAN...")
@click.option(
    "--profile", type=options.FILE, required=True, help="Of the machine that they are to run on."
)
@click.option(
    "--solver", default="auto", show_default=True,
    help="Which solver proposes the plan to compare with; as for planner solve.",
)  # fmt: skip
@click.option("--batch-size", type=int, default=1, show_default=True)
@click.option("--context", type=int, help="Tokens in the cache; default: the first one profiled.")
@options.costs_option
def command(
    plans: tuple[Path, ...],
    profile: Path,
    solver: str,
    batch_size: int,
    context: int | None,
    costs: Path | None,
) -> None:
    """Grade each PLAN by what PROFILE measured, beside the plan that solve chooses and none.

    All are graded alike: predictions that stand in the plans count for nothing.
    """
    from ..plans.plan import Plan

    given = {str(path): Plan.load(path) for path in plans}
    facts = options.profile_with(profile, costs)

    from ..optimizer.choice import Question
    from ..optimizer.given import graded_beside
    from ..show.comparison_text import comparison
    from ..show.tables import printed, watched
    from ..show.words import whose_times

    question = Question(solver=solver, batch_size=batch_size, context=context)
    with watched("plans") as status:
        standings = graded_beside(given, facts, question, doing=status.update)
    click.echo(printed(comparison(standings, whose_times(facts))))
