"""Plain speculative sampling: one child."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .namespace import Array, namespace
from .rrs import IndependentRejection
from .verifier import Rank


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

    def masses(self, p: Array, q: Array, num_ranks: int, rng: Any) -> Iterator[Rank]:
        """The one rank there is; see `Verifier.masses`."""
        xp = namespace(p)
        yield Rank(xp.ones_like(p[:, :1]), xp.minimum(p, q))
