"""The published thresholds as they would be at a plan's own price of time, for people."""

from __future__ import annotations

from dataclasses import dataclass

from ..documents.profile import Profile
from ..estimates.step_costs import StepCosts, step_costs
from ..optimizer.solvers.dyspec import verifying_threshold
from ..optimizer.solvers.specdecpp import stopping_threshold
from ..plans.plan import Plan
from ..replay.replays import replays_of
from ..verifiers import verifier_at


@dataclass(frozen=True)
class PricedThresholds:
    """Special cases of pricing time (`planner.policies.price`)."""

    price_per_ms: float
    """Tokens per millisecond of the plan."""
    dyspec: float
    """C = price * t': from which value on a slot is worth verifying; drafting is taken for free."""
    specdecpp: float
    """h = 1 - price * (c1 + t') / a: at which P(some token is rejected) a chain should end."""


def priced_thresholds(profile: Profile, plan: Plan) -> PricedThresholds | None:
    """The thresholds under the conditions that `plan` was made for; None without recorded trees to
    learn a from, without the time of any tree, or without a prediction."""
    recorded = [each.verifier for each in profile.replays if each.sampling == plan.sampling]
    found = (replays_of(profile, plan.sampling, name) for name in (plan.verifier, *recorded))
    replays = next((each for each in found if each is not None), None)
    if replays is None or plan.predicted is None or plan.made_from is None:
        return None
    costs = costs_of(profile, plan)
    if costs.max_nodes < 2:
        return None
    price = plan.predicted.tokens_per_step.value / plan.predicted.step_ms.value
    return PricedThresholds(
        price_per_ms=price,
        dyspec=verifying_threshold(price, costs.growing(), costs.growing().max_nodes),
        specdecpp=stopping_threshold(price, costs, replays.recorded),
    )


def costs_of(profile: Profile, plan: Plan) -> StepCosts:
    """The times in `profile` that `plan` was made from; those of one request where it does not say
    for how many it was made."""
    made_from = plan.made_from
    return step_costs(
        profile,
        verifier=verifier_at(plan.verifier, plan.sampling).name,
        batch_size=plan.batch_size,
        context=made_from.context if made_from else None,
        sampling=plan.sampling,
    )
