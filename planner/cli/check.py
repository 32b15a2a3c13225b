"""`planner check`: what an engine makes of a plan, beside what the plan promises."""

from __future__ import annotations

from pathlib import Path

import click

from . import options
from .engine_options import EngineWishes, engine_options


@options.command(epilog=options.example("planner check plan.json -o check.json"))
@click.argument("plan", type=options.FILE)
@engine_options
@click.option(
    "--prompts", metavar="FILE", default="embedded/evaluation", show_default=True,
    help="Prompts (.txt or .jsonl) other than those profiled.",
)  # fmt: skip
@click.option("--num-prompts", type=click.IntRange(2), default=32, show_default=True)
@click.option("--max-new-tokens", type=click.IntRange(2), default=128, show_default=True)
@click.option("--no-neighbours", is_flag=True, help="Only the plan's setting and none.")
@click.option("--seed", type=options.SEED, default=0, show_default=True)
@options.picture_option("Draw it into this file too.")
@options.threads_option
@options.output_option("check")
def command(
    plan: Path,
    prompts: str,
    num_prompts: int,
    max_new_tokens: int,
    no_neighbours: bool,
    seed: int,
    png: Path | None,
    output: Path | None,
) -> None:
    """Decode with an engine as it is, with PLAN's setting, and with settings around it, in turns.

    The engine and its models are those that the plan was made for, unless others are named.  What
    the plan promised and the engine did not keep is said, a line each; the exit status is 1 then.
    """
    from ..documents.document import PlannerError
    from ..plans.plan import Plan

    decision = Plan.load(plan)
    origin = decision.made_from
    if origin is None:
        raise PlannerError(f"{plan}: made_from: missing; expected a plan that `solve` wrote")

    from engines.checking import check
    from engines.timing import Turns

    from .models import NamedPair

    named = NamedPair(None, None, None, None, "auto", None, decision)
    ids = named.prompts(prompts, num_prompts)
    room = max(map(len, ids)) + 2 * max_new_tokens
    engine = options.settings(EngineWishes).program(room, named.names, origin.engine)
    turns = Turns(ids, decision.sampling, max_new_tokens, seed, origin.batch_size)
    result = check(engine, decision, turns, others=() if no_neighbours else None, doing=options.say)
    if output is not None:
        options.deliver(result, output)
    if png is not None:
        from ..show.figures import FIGURES, save_png

        save_png(FIGURES[type(result)](result), png)
        options.say(f"wrote {png}")

    from ..show.view import told

    click.echo(told(result, output))
    for fault in result.faults:
        options.say(f"does not hold: {fault}")
    if result.faults:
        raise SystemExit(1)
