"""`planner reproduce`: the papers' tables and figures, computed now, beside what was published."""

from __future__ import annotations

from pathlib import Path

import click

from . import options


@options.command(epilog=options.example("planner reproduce profile.json"))
@click.argument("profile", type=options.FILE, required=False)
@click.option(
    "--num-pairs", type=click.IntRange(100), default=10_000, show_default=True,
    help="Random pairs of distributions, of each kind; as many as SpecHub's authors at least.",
)  # fmt: skip
@options.picture_option("Draw the papers' figures into this file, too.")
@click.option("--json", "as_data", is_flag=True, help="Print the rows, with all numbers, as JSON.")
def command(profile: Path | None, num_pairs: int, png: Path | None, as_data: bool) -> None:
    """Compute what can be of the tables, figures and theorems of Sequoia, SpecHub, DySpec and
    SpecDec++: what each says, what comes of it here, and the printed numbers in brackets.

    Some follow from constants and random pairs; exit code 1 if one of these that is exact does not
    hold.  Others are computed from PROFILE, for your own models, and say whether the same is so
    there: `yes` or `no`.  The rest say what they need.  With --png those that are figures are drawn
    on one sheet, from the same numbers.
    """
    from ..documents.profile import Profile
    from ..show.papers import ROWS
    from ..show.papers.ground import Ground
    from ..show.papers.rows_text import agree, as_json, as_text, outcomes

    ground = Ground(None if profile is None else Profile.load(profile), num_pairs)
    found = outcomes(ROWS, ground)
    click.echo(as_json(found) if as_data else as_text(found))
    if png is not None:
        from ..show.figures import save_png
        from ..show.papers.sheet import left_out, sheet

        save_png(sheet(found), png)
        options.say("; ".join(filter(None, (f"wrote {png}", left_out(found)))))
    raise SystemExit(0 if agree(found) else 1)
