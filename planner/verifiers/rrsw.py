"""Recursive rejection of different tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .namespace import Array, fill_at, namespace, on_host, replaced_at, uniforms
from .rejection import Rejection, drawn, left_over, rows_or_even
from .traced import Traced
from .verifier import Rank


class RecursiveRejection(Rejection):
    """Draws without replacement, tried one after the other (Sequoia, Algorithm 1).

    R starts as p and D as q.  The child x, drawn from D, is accepted with probability R(x) / D(x);
    after a rejection R becomes norm((R - D)+), and D loses x and is renormalised; once D is empty
    it is even over the tokens not tried.  After the last child a token is sampled from R.

    Given that the first r children were rejected, rank r is accepted as x with chance
    min(R, D)(x), and the token rejected next is distributed as (D - R)+.  What was rejected first
    does not enter R but D, so that ranks 0 and 1 have exact rates at the cost of a sort, and later
    ones are averaged over paths of rejections.

    Source: Chen et al. 2024, "Sequoia".  (Its Algorithm 2, for chains, lacks the target's p in line
    8 and s in line 20; Algorithm 1, used here, is right as printed.)
    """

    name = "rrsw"
    summary = "recursive rejection, without replacement (Sequoia)"
    law = "without replacement"
    recorded_as = "rrsw"

    def masses(self, p: Array, q: Array, num_ranks: int, rng: Any) -> Iterator[Rank]:
        """min(R, D) along one path of rejected tokens for each node; see `Verifier.masses`."""
        return self.masses_entered(1.0, p, q, num_ranks, rng)

    def masses_entered(
        self, entered: float, p: Array, q: Array, num_ranks: int, rng: Any
    ) -> Iterator[Rank]:
        """The same where R starts as a part of p; see `Traversal`."""
        xp = namespace(p)
        residual, draft = p if entered == 1 else entered * p, q
        untried = xp.ones_like(q, dtype=xp.bool)
        survival = xp.ones_like(p[:, :1])
        for rank in range(num_ranks):
            yield Rank(survival, xp.minimum(residual, draft), draft=draft)
            if rank + 1 == num_ranks:
                return
            difference = draft - residual
            gone = drawn(xp.clip(difference, 0, None), rng)
            lack = xp.negative(difference, out=difference)
            lack = xp.clip(lack, 0, None, out=lack)
            residual, survival = left_over(lack, survival, entered)
            fill_at(untried, gone, False)
            draft = rows_or_even(replaced_at(draft, gone, 0.0), untried)

    def traced(
        self, entered: float, p: Array, q: Array, tokens: Array, num_ranks: int, rng: Any
    ) -> Traced:
        """Compiled on the host: the same paths of rejected tokens; see `Verifier.traced`."""
        if not on_host(p):
            return super().traced(entered, p, q, tokens, num_ranks, rng)
        from .rrsw_traces import rrsw_traces

        xp = namespace(p)
        draws = [np.asarray(uniforms(p, rng)) for _ in range(num_ranks - 1)]
        target, draft, text = np.asarray(p), np.asarray(q), np.asarray(tokens[:, 0])
        found = rrsw_traces(entered, target, draft, text, draws)
        return Traced(*map(xp.asarray, found))

    def rates(
        self, p: np.ndarray, q: np.ndarray, num_children: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compiled: every path of rejected tokens where they are few; see `Verifier.rates`."""
        from .rrsw_rates import rrsw_rates

        return rrsw_rates(p, q, num_children, rng)
