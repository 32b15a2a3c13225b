"""A profile's acceptance together with costs from elsewhere."""

from __future__ import annotations

from ..documents.document import PlannerError
from ..documents.given_costs import GivenCosts
from ..documents.origin import CostsOrigin
from ..documents.profile import Profile
from ..documents.times import Costs
from ..verifiers import VERIFIERS, verifier_at


def with_costs(profile: Profile, other: GivenCosts | Profile) -> Profile:
    """The profile as if its own costs had never been measured, and these had.

    other  given costs, or a profile, whose machine and engine, and how it held and ran the models,
           then stand for the first one's, but for the precision of the weights

    Acceptance, recorded trees and models stay what they are.  A verifier that was not timed there
    is left out; so is a trained head, as nothing is known of its time.  Raises PlannerError where
    no verifier is left, and where an engine counted its own drafting, but another was timed.
    """
    _check_drafted_alike(profile, other)
    if isinstance(other, GivenCosts):
        costs = [each.costs(VERIFIERS) for each in other.costs]
        changes = {"surroundings": [], "costs_from": other.origin}
    else:
        costs = other.costs
        weights = {"dtype": profile.execution.dtype}
        changes = {
            "machine": other.machine,
            "execution": other.execution.model_copy(update=weights),
            "engine": other.engine,
            "surroundings": other.surroundings,
            "costs_from": other.costs_from or _origin(other),
        }
    timed = set.intersection(*(set(each.overhead) for each in costs))
    acceptance = [
        entry
        for entry in profile.acceptance
        if entry.verifier in VERIFIERS and verifier_at(entry.verifier, entry.sampling).name in timed
    ]
    if not acceptance:
        there = dict.fromkeys(entry.verifier for entry in profile.acceptance)
        raise PlannerError(
            f"costs: hold times under {', '.join(sorted(timed))}, but the profile the acceptance "
            f"of {', '.join(there)}; profile one of these here, or time one there"
        )
    replays = [
        each
        if each.head is None or _have_scored(costs, each.head.sha256)
        else each.model_copy(update={"head": None})
        for each in profile.replays
    ]
    changes |= {"costs": costs, "acceptance": acceptance, "replays": replays}
    return profile.model_copy(update=changes)


def _check_drafted_alike(profile: Profile, other: GivenCosts | Profile) -> None:
    """Raise PlannerError where an engine's own method drafted in one of them and not in both."""
    if isinstance(other, GivenCosts):
        return
    own, timed = _drafted_by(profile), _drafted_by(other)
    if own != timed:
        raise PlannerError(
            f"costs: got times of {timed or 'a draft model'}, expected those of "
            f"{own or 'a draft model'}, whose acceptance the profile holds; profile both alike"
        )


def _drafted_by(profile: Profile) -> str:
    """An engine's own method, and the engine; empty: a draft model, whoever runs it."""
    facts = profile.engine
    return f"{facts.method} in {facts.name}" if facts and facts.method else ""


def _origin(profile: Profile) -> CostsOrigin:
    """The words for a profile's own times."""
    machine, served = profile.machine, f" by {profile.engine.name}" if profile.engine else ""
    return CostsOrigin(
        source=f"profile of {profile.target.name} and {profile.draft.name} on "
        f"{machine.gpu or machine.cpu}, {profile.execution.dtype}{served}",
        sha256=profile.fingerprint(),
        profiled=True,
    )


def _have_scored(costs: list[Costs], head: str) -> bool:
    return all(head in each.scored for each in costs)
