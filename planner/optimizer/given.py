"""Plans from elsewhere, graded as candidates are, beside what would be chosen here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..documents.document import PlannerError
from ..documents.profile import Profile
from ..documents.sampling import Sampling
from ..plans.alternatives import Comparison
from ..plans.plan import Plan
from ..policies import Drafting, TreeDrafting
from ..replay.replays import Played, replays_of
from ..verifiers import VERIFIERS, verifier_at
from .choice import Question, ranked_by_verifier
from .crosswise import control_of
from .grading import Candidate, grade, grade_grown, order
from .paired_comparison import compare
from .ranking import Ranking, ranked, settled

GIVEN = "given"
"""Who proposes a plan from elsewhere."""


@dataclass(frozen=True)
class Standing:
    """A plan among others: what it is worth, and how far it is from the fastest."""

    name: str | None
    """The plan's, as it was given; None for what was not: the choice, and not to speculate."""
    candidate: Candidate
    against_best: Comparison | None
    """Its numbers over those of the fastest; None for that one itself."""
    is_chosen: bool = False
    """Is it what `solve` would choose?"""


def graded_beside(
    plans: Mapping[str, Plan],
    profile: Profile,
    question: Question,
    *,
    doing: Callable[[str], object] = lambda what: None,
) -> list[Standing]:
    """The standing of every plan, of the choice that answers `question`, and of not speculating;
    the fastest first.

    plans     by name, all for one sampling, which stands for the question's own

    Raises PlannerError for plans of several samplings, and for one of which the profile has not
    measured the acceptance or the times.
    """
    sampling = _sampling(plans, profile)
    rankings = [
        _with_replays(each, profile, sampling)
        for each in ranked_by_verifier(profile, replace(question, sampling=sampling), doing=doing)
    ]
    chosen, *others = settled(ranked(rankings))
    lone = next(each for each in (chosen, *others) if not each.speculates)
    found: list[tuple[str | None, Candidate]] = []
    for name, plan in plans.items():
        doing(name)
        found.append((name, _graded(name, plan, rankings) if plan.speculates else lone))
    for each in (chosen, lone):
        if all(one is not each for _, one in found):
            found.append((None, each))
    found.sort(key=lambda pair: order(pair[1]))
    best = found[0][1]
    return [
        Standing(
            name=name,
            candidate=each,
            against_best=None if each is best else compare(each, best, rankings),
            is_chosen=each is chosen,
        )
        for name, each in found
    ]


def _sampling(plans: Mapping[str, Plan], profile: Profile) -> Sampling:
    """The sampling of all plans, at which the profile measured the verifiers of all."""
    (first, one), *others = plans.items()
    for name, other in others:
        if other.sampling != one.sampling:
            raise PlannerError(
                f"{name}: sampling: got {other.sampling}, but {first} is for {one.sampling}; "
                "compare plans of one sampling"
            )
    known = {entry.sampling: set[str]() for entry in profile.acceptance}
    for entry in profile.acceptance:
        known[entry.sampling].add(entry.verifier)
    if one.sampling not in known:
        raise PlannerError(
            f"{first}: sampling: got {one.sampling}, but the profile measured only "
            f"{', '.join(map(str, known))}; profile at this one"
        )
    for name, plan in plans.items():
        there = known[plan.sampling]
        if plan.speculates and not there & set(_names(plan)):
            raise PlannerError(
                f"{name}: verifier: got {plan.verifier!r}, but at {plan.sampling} the profile "
                f"measured only {', '.join(sorted(there))}; profile again"
            )
    return one.sampling


def _names(plan: Plan) -> tuple[str, str]:
    """The verifiers that decide as the plan's does, the one to prefer first."""
    return verifier_at(plan.verifier, plan.sampling).name, plan.verifier


def _with_replays(ranking: Ranking, profile: Profile, sampling: Sampling) -> Ranking:
    """The ranking with recorded trees, if there are any, whether or not any solver asked."""
    if ranking.replays is not None or not VERIFIERS[ranking.verifier].grows:
        return ranking
    return replace(ranking, replays=replays_of(profile, sampling, ranking.verifier))


def _graded(name: str, plan: Plan, rankings: list[Ranking]) -> Candidate:
    """A plan that speculates, graded: where a solver proposed the same, as that was."""
    by_name = {each.verifier: each for each in rankings}
    ranking = next(by_name[each] for each in _names(plan) if each in by_name)
    for candidate in ranking.candidates:
        if candidate.drafting == plan.drafting:
            return candidate
    try:
        return _graded_anew(plan.drafting, ranking)
    except PlannerError as error:
        raise PlannerError(f"{name}: {error}") from None


def _graded_anew(drafting: Drafting, ranking: Ranking) -> Candidate:
    verifier, costs, texts = ranking.verifier, ranking.costs, ranking.replays
    if isinstance(drafting, TreeDrafting):
        return grade(drafting.tree, ranking.evidence, costs, solver=GIVEN, verifier=verifier)
    if texts is None or texts.num_texts < 2:
        raise PlannerError(
            f"drafting: got {drafting.words()}, decided on while it drafts, but the profile holds "
            f"no trees recorded for {verifier!r} to play that on; planner profile --engine records "
            "an engine's own"
        )
    played = Played.of(drafting, texts, costs)
    control = control_of(ranking.candidates, texts)
    graded = grade_grown(drafting, played, texts, control=control)
    return replace(graded, solver=GIVEN, verifier=verifier)
