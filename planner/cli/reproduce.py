"""`planner reproduce`: the papers' figures, computed now, beside what was published."""

from __future__ import annotations

import click

from .options import example


@click.command(epilog=example("planner reproduce --num-pairs 1000"))
@click.option(
    "--num-pairs", type=click.IntRange(2), default=10_000, show_default=True,
    help="Random pairs of distributions for each cell of the table.",
)  # fmt: skip
def command(num_pairs: int) -> None:
    """Compute SpecHub's Table 4 and worked example, and Sequoia's Theorem 3.7 and Table 1.

    Each is printed beside the published figures; exit code 1 if one does not hold.
    """
    from ..show.papers import reproduce

    raise SystemExit(0 if reproduce(num_pairs) else 1)
