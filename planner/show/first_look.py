"""A first look at a profile that nothing was planned from yet: what would a chain bring?"""

from __future__ import annotations

from dataclasses import dataclass

from ..documents.document import PlannerError
from ..documents.estimate import Estimate
from ..documents.profile import Acceptance, Profile
from ..documents.sampling import Sampling
from ..documents.tree import Tree
from ..estimates.evidence import recorded
from ..estimates.step_costs import speedup, step_costs
from ..policies.chain_policy import MOST_CHANCE, emitted
from ..verifiers import VERIFIERS, verifier_at
from .attained import acceptance_by_rank

LONGEST = 24
"""Tokens of a chain that is looked at, at most."""


@dataclass(frozen=True)
class FirstLook:
    """The fastest chain by averages: every drafted token is accepted as often as every other, but
    where an engine counted its chains.

    Rounds start where the last one was rejected, which is harder than the average position, so that
    averages promise up to some 20 % too much.
    """

    verifier: str
    num_tokens: int
    first_accepted: float
    speedup: Estimate


def first_look(profile: Profile, sampling: Sampling) -> FirstLook | None:
    """The look at one sampling; None where no known verifier was both timed and recorded."""
    looks = [
        look
        for entry in profile.acceptance
        if entry.sampling == sampling and entry.verifier in VERIFIERS and entry.by_rank_alone
        for look in _chains(profile, entry)
    ]
    return max(looks, key=lambda look: look.speedup.value, default=None)


def _chains(profile: Profile, entry: Acceptance) -> list[FirstLook]:
    """All that were measured, of one verifier."""
    name = verifier_at(entry.verifier, entry.sampling).name
    size, first = profile.costs[0].batch_size, acceptance_by_rank(entry)[0]
    try:
        costs = step_costs(profile, verifier=name, batch_size=size, sampling=entry.sampling)
    except PlannerError:  # it was not timed
        return []
    found = []
    longest = entry.counted[-1].length if entry.counted else LONGEST
    for k in range(1, longest + 1):
        chain = Tree(range(-1, k))
        if costs.covers(chain):
            tokens = _tokens(profile, entry, chain, first)
            gain = speedup(tokens, costs.step(chain), costs.autoregressive)
            found.append(FirstLook(entry.verifier, k, first.value, gain))
    return found


def _tokens(profile: Profile, entry: Acceptance, chain: Tree, first: Estimate) -> Estimate:
    """Tokens per step of a chain: as counted, or if all are accepted as often as the first."""
    if entry.counted:
        return recorded(profile, entry).predict(chain).tokens_per_step
    rates = (first.low, first.value, first.high)
    low, value, high = (emitted(min(rate, MOST_CHANCE), chain.depth) for rate in rates)
    return Estimate(value=value, low=low, high=high)
