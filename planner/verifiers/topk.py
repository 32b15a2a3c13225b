"""The draft's most probable tokens, and the target samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .naive import Naive
from .namespace import Array, at, most_probable, namespace
from .verifier import Random, Rank


class MostProbable(Naive):
    """The k most probable tokens under q, verified like `naive` by sampling the target first.

    Child r is accepted with probability p(the r-th most probable token under q).

    At temperature 0 every verifier is this one, with the draft's plain softmax as q: the children
    are the draft's favourites, and the target's favourite is accepted (see `verifier_at`).
    """

    name = "topk"
    summary = "the draft's most probable tokens, target sampled"
    law = "top"
    non_increasing = False

    def sample(self, q: Array, k: int, rng: Random) -> Array:
        """The k largest of q, without any chance; see `Verifier.sample`."""
        return most_probable(q, k)

    def masses(self, p: Array, q: Array, num_ranks: int, rng: Any) -> Iterator[Rank]:
        """p at one token a rank; see `Verifier.masses`."""
        children = most_probable(q, num_ranks)
        mass, certain = at(p, children), namespace(p).ones_like(p[:, :1])
        for rank in range(children.shape[-1]):
            one = slice(rank, rank + 1)
            yield Rank(certain, mass[:, one], children[:, one])
