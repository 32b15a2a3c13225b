"""`planner grade`: what trees of given shapes are worth under the verifiers of a profile."""

from __future__ import annotations

from pathlib import Path

import click

from . import options


@options.command(epilog=options.example("planner grade profile.json 5x8 2^4 4,2,1"))
@click.argument("profile", type=options.FILE)
@click.argument("trees", nargs=-1, required=True, metavar="TREE...")
@click.option(
    "--verifier", "verifiers", multiple=True, metavar="NAME", default=("auto",),
    help="One to grade under; repeat for several (default: all that were profiled).",
)  # fmt: skip
@click.option(
    "--temperature", "temperatures", multiple=True, type=float,
    help="Repeat for several; default: the first one profiled.",
)  # fmt: skip
@click.option("--batch-size", type=int, default=1, show_default=True)
@click.option("--context", type=int, help="Tokens in the cache; default: the first one profiled.")
@options.costs_option
def command(
    profile: Path,
    trees: tuple[str, ...],
    verifiers: tuple[str, ...],
    temperatures: tuple[float, ...],
    batch_size: int,
    context: int | None,
    costs: Path | None,
) -> None:
    """Grade each TREE under each verifier by what PROFILE measured.

    TREE is 5x8 (5 chains of 8 tokens), 2^4 (2 children a node, 4 levels), 4,2,1 (children a node,
    level by level), a list of parents "[-1, 0, 0, 1]" or of rank paths "[[0], [0, 0], [1]]" as
    Medusa and EAGLE take them, or a file that holds one of these, or a plan.
    """
    from ..export.tree_words import tree_of_words

    shapes = {words: tree_of_words(words) for words in trees}
    facts = options.profile_with(profile, costs)

    from ..optimizer.choice import Question
    from ..optimizer.shapes import graded_shapes
    from ..show.comparison_text import shape_table
    from ..show.tables import printed
    from ..show.words import whose_times

    parts = []
    for temperature in temperatures or (None,):
        sampling = facts.sampling_at(temperature)
        question = Question(sampling=sampling, batch_size=batch_size, context=context)
        parts += shape_table(graded_shapes(shapes, facts, question, verifiers=verifiers))
    click.echo(printed([*parts, f"Times are {whose_times(facts)}."]))
