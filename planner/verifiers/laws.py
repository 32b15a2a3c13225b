"""Children drawn by one of the laws that several verifiers share."""

from __future__ import annotations

from .namespace import Array
from .verifier import Random, Verifier, source_of


class Independent(Verifier):
    """Children that are k independent draws from q; the same token may come twice: the law of a
    verifier that does not set another."""

    def sample(self, q: Array, k: int, rng: Random) -> Array:
        """k independent draws; see `Verifier.sample`."""
        return source_of(rng).with_replacement(q, k)


class Distinct(Verifier):
    """Children that are different tokens: k draws from q without replacement.

    Once the mass of q is used up, the draws are even over what is left.
    """

    law = "without replacement"

    def sample(self, q: Array, k: int, rng: Random) -> Array:
        """k draws without replacement; see `Verifier.sample`."""
        rows = q if q.ndim == 2 else q[None]
        drafts = source_of(rng).without_replacement(rows, k)
        return drafts if q.ndim == 2 else drafts[0]
