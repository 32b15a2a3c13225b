"""`planner solve`: from a profile to a plan."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from . import options

if TYPE_CHECKING:
    from ..plans.plan import BatchSetting, Plan
    from ..plans.settings import PlanSetting

Way = TypeVar("Way", "Plan", "BatchSetting", "PlanSetting")
Tabled = TypeVar("Tabled", "Plan", "BatchSetting")
TOO_WIDE = 1.5
"""Upper over lower end of an interval from which on it is hardly a prediction."""


@options.command(epilog=options.example("planner solve profile.json -o plan.json"))
@click.argument("profile", type=options.FILE)
@click.option(
    "--solver", default="auto", show_default=True,
    help="Which solver proposes; or `fixed` for one tree for all steps, `grown` for a tree of its "
    "own for every step.",
)  # fmt: skip
@click.option("--verifier", default="auto", show_default=True, help="Which verifier to plan for.")
@click.option("--temperature", type=float, help="Default: the first one profiled.")
@click.option("--max-nodes", type=int, help="Largest tree, root included.")
@click.option("--max-depth", type=int, help="Deepest tree, levels below the root.")
@click.option(
    "--batch-size", "batch_sizes", type=int, multiple=True, default=(1,), show_default=True,
    help="Requests that decode together; repeatable, for one plan that serves each number as it is "
    "best.",
)  # fmt: skip
@click.option("--context", type=int, help="Tokens in the cache; default: the first one profiled.")
@options.costs_option
@options.output_option("plan")
def command(
    profile: Path,
    solver: str,
    verifier: str,
    temperature: float | None,
    max_nodes: int | None,
    max_depth: int | None,
    batch_sizes: tuple[int, ...],
    context: int | None,
    costs: Path | None,
    output: Path | None,
) -> None:
    """Choose the fastest plan under the costs and acceptance measured in PROFILE.

    With --costs times are those of another machine, of an engine, or of a paper, and only the
    acceptance is PROFILE's.  The plan says whose times it holds.
    """
    from ..documents.surroundings import beside_words

    facts = options.profile_with(profile, costs)

    from ..optimizer import solve
    from ..show.tables import watched
    from ..show.thresholds import priced_thresholds
    from ..show.widest_doubt import widest_doubt
    from ..show.words import summary, where_records_end

    with watched("plans") as status:
        plan, *others = [
            solve(
                facts,
                solver=solver,
                verifier=verifier,
                temperature=temperature,
                max_nodes=max_nodes,
                max_depth=max_depth,
                batch_size=size,
                context=context,
                doing=status.update,
            )
            for size in sorted(set(batch_sizes))
        ]
    plan = plan.with_batches(others)
    options.deliver(head_beside(plan, profile, output), output)
    options.say(summary(plan))
    for each in others:
        options.say(f"{each.batch_size} at a time: {summary(each)}")
    if facts.costs_from:
        options.say(f"note: times are {facts.costs_from}")
    if facts.acceptance_from:
        options.say(f"note: acceptance is {facts.acceptance_from}")
    if any(each.is_disturbed for each in facts.surroundings):
        options.say(f"note: {beside_words(facts.surroundings)}")
    low, high = _range(plan)
    if high > TOO_WIDE * low:
        options.say(
            f"note: the speedup may be anything from {low:.2f} to {high:.2f}: "
            f"{widest_doubt(facts, plan)}"
        )
    elif plan.speculates and low < 1:
        what = "planner check tries it" if facts.engine else "planner decode --follow notices"
        options.say(
            f"note: with it decoding may be slower, too: speedup {low:.2f} to {high:.2f}; {what}"
        )
    if line := where_records_end(plan):
        options.say(f"note: {line}")
    if plan.predicted and plan.predicted.steps:
        steps = plan.predicted.steps
        options.say(
            f"steps: {steps.mean_nodes:.1f} nodes, {steps.mean_depth:.1f} levels, "
            f"{steps.draft_passes:.1f} draft passes on average; {steps.discard_rate:.2f} draft "
            f"tokens discarded, {steps.verification_rate:.2f} target passes per token"
        )
    priced = priced_thresholds(facts, plan)
    if priced:
        options.say(
            f"at {priced.price_per_ms:.3g} tokens per ms it pays to verify a node that is reached "
            f"with chance {priced.dyspec:.3g} or more (DySpec's threshold), and to draft a chain "
            f"on until some token of it is rejected with chance {priced.specdecpp:.3g} "
            "(SpecDec++'s)"
        )


def _range(plan: Plan) -> tuple[float, float]:
    """The speedup's interval; (1, 1) where none is predicted."""
    return (plan.predicted.speedup.low, plan.predicted.speedup.high) if plan.predicted else (1, 1)


def head_beside(plan: Plan, profile: Path, output: Path | None) -> Plan:
    """`plan`, which names its head as seen from the profile's folder, as seen from its own."""
    if output is None:
        return plan
    folder = output.parent

    def seen(way: Way) -> Way:
        head = way.drafting.trained_head
        if head is None:
            return way
        own = head.model_copy(update={"file": os.path.relpath(profile.parent / head.file, folder)})
        drafting = way.drafting.model_copy(update={"head": own})
        return way.model_copy(update={"drafting": drafting})

    def whole(way: Tabled) -> Tabled:
        return seen(way).model_copy(update={"settings": [seen(each) for each in way.settings]})

    return whole(plan).model_copy(update={"by_batch": [whole(each) for each in plan.by_batch]})
