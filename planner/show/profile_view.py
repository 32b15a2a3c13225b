"""A profile as `planner show` prints it, before anything is planned from it or with plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..documents.counted import counted
from ..documents.profile import Profile
from ..documents.sampling import Sampling
from ..documents.surroundings import beside_words
from ..estimates.step_costs import timed_like
from ..plans.plan import Plan
from .advice import Advice, plan_advice, typed
from .document_text import profile_lines, show_profile
from .first_look import first_look
from .outlook import accepted_at_all, chosen, outlook, planned, samplings_of
from .tables import Shown

if TYPE_CHECKING:
    from ..optimizer.choice import Question


def profile_view(
    profile: Profile,
    path: Path,
    *,
    every: bool = False,
    temperature: float | None = None,
    plans: Question | None = None,
) -> list[Shown]:
    """The advice and what belongs below it: in short of one sampling, by default the first.

    every  all that was measured, instead of what fits a screen
    plans  where plans are asked for too: see `outlook.planned`
    """
    samplings = samplings_of(profile, temperature)
    first = samplings[0]
    asked = samplings if every else [first]
    made = {} if plans is None else planned(profile, asked, plans)
    advice, plan = profile_advice(profile, path, first), made.get(first)
    if isinstance(plan, Plan):
        advice = replace(plan_advice(plan, path), next=advice.next)
    if every:
        parts = [*show_profile(profile), *outlook(profile, samplings, made)]
    else:
        parts = [profile_lines(profile), accepted_at_all(profile, first), *chosen(profile, plan)]
    return [advice.shown, *parts]


def profile_advice(profile: Profile, path: Path, sampling: Sampling | None = None) -> Advice:
    """The hope that times and acceptance allow, before anything is planned."""
    first = profile.acceptance[0].sampling
    at = sampling or first
    look = first_look(profile, at)
    prompts = next(entry for entry in profile.acceptance if entry.sampling == at).prompts
    positions = sum(prompt.num_positions for prompt in prompts)
    options = [] if at == first else ["--temperature", f"{at.temperature:g}"]
    sure = f"acceptance is of {counted(len(prompts), 'prompt')}, {positions} positions"
    if quiet := beside_words(profile.surroundings):
        sure += f"; {quiet}"
    do, gain = "plan with it", "nothing can be said yet: no chain was both timed and recorded"
    if look is not None:
        do += ": speculation pays" if look.speedup.low > 1 else ": whether speculation pays is open"
        gain = (
            f"at first sight {look.speedup} times as fast, by a chain of "
            f"{counted(look.num_tokens, 'token')} at {at}; solve weighs trees"
        )
    return Advice(do, gain, sure, _why_it_pays(profile, at), typed("solve", path, options, "plan"))


def _why_it_pays(profile: Profile, sampling: Sampling) -> str:
    """The cost of several nodes and of a guess, as multiples of what one token costs."""
    costs = timed_like(sampling, profile.costs)[0]
    verify, alone = costs.verify, costs.target_step.median_ms[0]
    few = max((n for n in verify.counts if n <= 8), default=verify.counts[0])
    checked = verify.median_ms[verify.counts.index(few)] / alone
    if costs.are_whole:
        return f"a step of {counted(few, 'node')} takes {checked:.2f} times the time of one token"
    guess = costs.draft.median_ms[0] / alone
    return (
        f"{counted(few, 'node')} are checked in {checked:.2f} times the time of one token, a draft "
        f"pass takes {guess:.2f} times"
    )
