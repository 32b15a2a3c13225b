"""The target samples first, and is lucky if a child matches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .namespace import Array, namespace
from .rejection import sampled
from .verifier import Random, Rank, Source, Verifier, source_of


class Naive(Verifier):
    """k independent draws from q; the target's token is sampled from p, and accepted if it is one.

    Lossless for any children at all, since they are not looked at before the token is sampled.
    Child r is accepted as x where the target draws x, child r is x and none before it is:
    p(x) q(x) (1 - q(x))^r.
    """

    name = "naive"
    summary = "independent draws, target sampled"
    non_increasing = True

    def verify(self, p: Array, q: Array, drafts: Array, rng: Random) -> tuple[int, int]:
        """Sample from p and look for the token; see `Verifier.verify`."""
        token = sampled(p, source_of(rng))
        children = drafts.tolist()
        return (children.index(token) if token in children else -1), token

    def masses(self, p: Array, q: Array, num_ranks: int, rng: Any) -> Iterator[Rank]:
        """p q (1 - q)^r, without any chance; see `Verifier.masses`."""
        survival, mass, others = namespace(p).ones_like(p[:, :1]), p * q, 1 - q
        for _ in range(num_ranks):
            yield Rank(survival, mass)
            mass = mass * others

    def draw_given(
        self, p: Array, q: Array, tokens: Array, num_children: int, source: Source
    ) -> tuple[Array, Array]:
        """Children drawn as always: the token was sampled without looking at them."""
        children = self.sample(q, num_children, source)
        found = children == tokens[:, None]
        ranks = namespace(found).where(found.any(-1), found.int().argmax(-1), -1)
        return children, ranks
