"""Recursive rejection of independent draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .namespace import Array, namespace
from .rejection import Rejection, left_over
from .verifier import Rank


class IndependentRejection(Rejection):
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

    def masses(self, p: Array, q: Array, num_ranks: int, rng: Any) -> Iterator[Rank]:
        """min(R, q) at each rank, without any chance; see `Verifier.masses`."""
        xp = namespace(p)
        residual, survival = p, xp.ones_like(p[:, :1])
        for _ in range(min(num_ranks, self.max_children or num_ranks)):
            yield Rank(survival, xp.minimum(residual, q))
            lack = residual - q
            residual, survival = left_over(xp.clip(lack, 0, None, out=lack), survival)
