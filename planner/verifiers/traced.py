"""Acceptance along a text: what of it each child carries on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from .namespace import TINY, Array, at, namespace

if TYPE_CHECKING:
    from .verifier import Rank


class Traced(NamedTuple):
    """Acceptance by a verifier at N positions with target p, draft q and emitted token y.

    With a_r = P(the child of rank r is accepted) and a_r(y) the part of it in which that child is
    y.  The second is what a walk along an emitted text needs: given the text, it says with which
    probability a tree's child of rank r carried it on.  A column per rank; where siblings matter,
    per number of siblings and rank.  Where whole paths are judged there are as many for each of the
    acceptances with which a node is entered (`Verifier.entered`), and all are given that the walk
    ends at the node or below it.  Where the law depends on which tokens were rejected before,
    these are estimates along one path of rejections at each position, right on average: one is
    enough, since positions differ far more than paths do.
    """

    expected: Array
    """float [N, num_columns]: a_r; the children of one node sum to at most 1."""
    emitted: Array
    """float [N, num_columns]: a_r(y) / p(y) = P(rank r was accepted | y was emitted)."""
    entering: Array | None = None
    """float [N, num_columns]: the acceptance with which the child is entered, if it is y; None
    where every node is judged by itself."""


def traced_from(ranks: Iterable[Rank], p: Array, tokens: Array, entered: float) -> Traced:
    """The word of all ranks' masses on the tokens that came out.

    p        float64 [N, V]
    tokens   int64 [N, 1]
    entered  the acceptance that the nodes are entered with
    """
    xp = namespace(p)
    p_emitted = entered * xp.clip(at(p, tokens), TINY, None)
    expected, emitted, entering = [], [], []
    for survival, mass, named, draft in ranks:
        on_token = at(mass, tokens) if named is None else mass * (named == tokens)
        expected.append(survival * mass.sum(-1, keepdims=True) / entered)
        emitted.append(survival * on_token.sum(-1, keepdims=True) / p_emitted)
        if draft is not None:
            entering.append(on_token / xp.clip(at(draft, tokens), TINY, None))
    return Traced(
        xp.concatenate(expected, -1),
        xp.concatenate(emitted, -1),
        xp.concatenate(entering, -1) if entering else None,
    )
