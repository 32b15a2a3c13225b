"""Plain speculative sampling: one child."""

from __future__ import annotations

from .rrs import IndependentRejection


class Chain(IndependentRejection):
    """One child x drawn from q, accepted with probability min(1, p(x) / q(x)).

    It is accepted as x with chance q(x) min(1, p(x) / q(x)) = min(p, q)(x); after a rejection a
    token is sampled from norm((p - q)+), which makes up what p has beyond that.  The acceptance,
    sum min(p, q), is the most that any verifier reaches with one child.

    Source: Leviathan et al. and Chen et al., 2023.
    """

    name = "chain"
    summary = "one draw, plain speculative sampling"
    max_children = 1
    non_increasing = False
    recorded_as = "rrsw"
