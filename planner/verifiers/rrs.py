"""Recursive rejection of independent draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .laws import Independent
from .namespace import Array, namespace
from .rejection import drawn_by_rejection, left_over, sampled, tried
from .verifier import Random, Rank, Source, source_of


class IndependentRejection(Independent):
    """k independent draws from q, tried one after the other (SpecInfer, Algorithm 2).

    The residual target R starts as p.  The child x is accepted with probability min(1, R(x)/q(x));
    after a rejection R becomes norm((R - q)+), whatever was rejected; after the last child a token
    is sampled from R.  So with b[r] = sum min(R, q) at rank r, the child of rank r is accepted with
    probability b[r] times the product of 1 - b[j] over the ranks j before it: a closed form.

    The same token may be drawn twice, and is then of little use: see `rrsw`.

    Source: Miao et al. 2024, "SpecInfer".
    """

    name = "rrs"
    summary = "recursive rejection, independent draws (SpecInfer)"
    non_increasing = True
    plain_with_one_child = True

    def verify(self, p: Array, q: Array, drafts: Array, rng: Random) -> tuple[int, int]:
        """Try each child on what the earlier ones left of p; see `Verifier.verify`."""
        rng = source_of(rng)
        residual = p
        for rank, token in enumerate(drafts.tolist()):
            left = tried(residual, q, token, rng)
            if left is None:
                return rank, token
            residual = left
        return -1, sampled(residual, rng)

    def masses(self, p: Array, q: Array, num_ranks: int, rng: Any) -> Iterator[Rank]:
        """min(R, q) at each rank, without any chance; see `Verifier.masses`."""
        xp = namespace(p)
        residual, survival = p, xp.ones_like(p[:, :1])
        for _ in range(num_ranks):
            yield Rank(survival, xp.minimum(residual, q))
            lack = residual - q
            residual, survival = left_over(xp.clip(lack, 0, None, out=lack), survival)

    def draw_given(
        self, p: Array, q: Array, tokens: Array, num_children: int, source: Source
    ) -> tuple[Array, Array]:
        """Children tried one after the other; see `Verifier.draw_given`."""
        return drawn_by_rejection((p, q), tokens, num_children, source, distinct=self.distinct)
