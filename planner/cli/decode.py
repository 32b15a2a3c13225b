"""`planner decode`: carry a plan out and report what was measured."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from . import options


@options.command(
    epilog=options.example(
        "planner decode plan.json --prompts embedded/evaluation --baseline -o report.json"
    )
)
@click.argument("plan", type=options.FILE)
@options.model_options
@click.option("--prompt", help="One prompt; it is printed with its continuation.")
@click.option(
    "--prompts", metavar="FILE", help="Many prompts (.txt, .jsonl, or embedded/evaluation)."
)
@click.option("--num-prompts", type=click.IntRange(1), help="Use only the first so many.")
@click.option("--max-new-tokens", type=click.IntRange(1), default=128, show_default=True)
@click.option(
    "--stop", "stop_strings", multiple=True, metavar="TEXT",
    help="End a text with the token that completes this; repeatable.",
)  # fmt: skip
@click.option("--seed", type=options.SEED, metavar="INTEGER", default=0, show_default=True)
@click.option(
    "--baseline", is_flag=True, help="Also decode autoregressively, in turns, and compare."
)
@click.option(
    "--follow/--fixed", default=False,
    help="Change between the plan's settings, none included, to whichever is the fastest as the "
    "machine and the text are now; or carry the plan out to the letter (default).",
)  # fmt: skip
@click.option(
    "--batch-size", type=click.IntRange(1),
    help="Decode so many of --prompts together, the next one as soon as one is over (default: one "
    "after the other).",
)  # fmt: skip
@click.option("--temperature", type=options.Number(0), help="Another one than the plan's.")
@options.threads_option
@options.output_option("report")
def command(
    plan: Path,
    prompt: str | None,
    prompts: str | None,
    num_prompts: int | None,
    max_new_tokens: int,
    stop_strings: tuple[str, ...],
    seed: int,
    baseline: bool,
    follow: bool,
    batch_size: int | None,
    temperature: float | None,
    output: Path | None,
) -> None:
    """Decode with PLAN.  The output follows the target's distribution exactly.

    Models and precision have to be those that the plan was made for; the precision and an embedded
    pair are taken from it.

    With --prompt the continuation goes to stdout; with --prompts the report does.  -o FILE writes
    the report to a file.
    """
    if (prompt is None) == (prompts is None):
        raise click.UsageError("give either --prompt TEXT or --prompts FILE")
    if num_prompts is not None and prompts is None:
        raise click.UsageError("--num-prompts says how many of --prompts FILE to use")
    if batch_size is not None and prompts is None:
        raise click.UsageError("--batch-size says how many of --prompts FILE decode together")

    from ..documents.document import PlannerError
    from ..plans.plan import Plan

    decision = Plan.load(plan)

    from runtime import decode_prompts

    from ..show.view import told
    from .models import NamedPair

    if temperature not in (None, decision.sampling.temperature):
        options.say(
            f"note: planned for {decision.sampling}, decoded at T={temperature:g}, where another "
            "plan may be faster; --follow finds the best of this one's settings"
        )
    origin = decision.made_from
    if origin is not None and origin.costs_from is not None:
        options.say(
            f"note: the plan's times are {origin.costs_from}; here steps take other times, and "
            "another plan may be faster (planner profile measures, --follow notices)"
        )
    if origin is not None and origin.acceptance_from is not None:
        options.say(f"note: the plan's acceptance is {origin.acceptance_from}")
    if origin is not None and origin.engine is not None and origin.engine.method is not None:
        raise PlannerError(
            f"{plan}: got a plan for {origin.engine.method}, by which {origin.engine.name} drafts "
            "and this runtime does not; planner check asks the engine"
        )
    named = options.settings(NamedPair, plan=decision)
    if prompts is not None:
        ids = named.prompts(prompts, num_prompts)
    elif prompt is not None:
        ids = [named.encoded(prompt)]
    target, draft = named.load()
    report = decode_prompts(
        plan if plan.is_file() else decision,  # a head is looked for beside the path, if it is one
        target,
        draft,
        ids,
        max_new_tokens=max_new_tokens,
        seed=seed,
        stop_strings=stop_strings,
        baseline=baseline,
        follow=follow,
        temperature=temperature,
        batch_size=batch_size,
        progress=_progress,
        to_text=named.tokenizer.decode,
    )
    if prompt is not None:
        click.echo(prompt + (report.continuations[0].text or ""))
    if output is not None or prompt is None:
        options.deliver(report, output)
    options.say(told(report, output))


def _progress(done: int, total: int) -> None:
    if total > 1:
        end = "\n" if done == total else ""
        print(f"\rdecoded {done} of {total} prompts", end=end, file=sys.stderr, flush=True)
