"""Acceptance by rank at every position of a text, without ever flipping the accept coin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from planner.verifiers import Verifier
from planner.verifiers.namespace import in_chunks
from planner.verifiers.rejection import rows_to_one
from planner.verifiers.verifier import Rank

_TINY = torch.finfo(torch.float64).tiny


class Traced(NamedTuple):
    """Acceptance by a verifier at N positions with target p, draft q and emitted token y.

    With a_r = P(the child of rank r is accepted) and a_r(y) the part of it in which that child is
    y.  The second is what a walk along an emitted text needs: given the text, it says with which
    probability a tree's child of rank r carried it on.  A column per rank; where siblings matter,
    per number of siblings and rank.  Where the law depends on which tokens were rejected before,
    these are estimates along one path of rejections at each position, right on average: one is
    enough, since positions differ far more than paths do.
    """

    expected: Tensor
    """float32 [N, num_columns]: a_r; the children of one node sum to at most 1."""
    emitted: Tensor
    """float32 [N, num_columns]: a_r(y) / p(y) = P(rank r was accepted | y was emitted)."""


def traced(
    verifiers: Sequence[Verifier],
    pair: tuple[Tensor, Tensor],
    emitted: Tensor,
    num_ranks: int,
    rng: torch.Generator,
) -> dict[str, Traced]:
    """Traces of each of `verifiers` by its name, some positions at a time.

    pair       p and q, float [N, V]
    emitted    int64 [N]  the tokens of the text
    num_ranks  ranks wanted; no more come than the verifier serves
    """
    chunks: dict[str, list[Traced]] = {verifier.name: [] for verifier in verifiers}
    for p, q, tokens in in_chunks((*pair, emitted)):
        p, q, tokens = rows_to_one(p.double()), rows_to_one(q.double()), tokens[:, None]
        for verifier in verifiers:
            chunks[verifier.name].append(_of(verifier.masses(p, q, num_ranks, rng), p, tokens))
    return {
        name: Traced(*(torch.cat(part).float() for part in zip(*parts, strict=True)))
        for name, parts in chunks.items()
    }


def _of(ranks: Iterable[Rank], p: Tensor, tokens: Tensor) -> Traced:
    """What comes out at the positions of one chunk, float64; tokens int64 [N, 1]."""
    p_emitted = p.gather(-1, tokens).clamp_min(_TINY)
    expected, emitted = [], []
    for survival, mass, named in ranks:
        on_token = mass.gather(-1, tokens) if named is None else mass * (named == tokens)
        expected.append(survival * mass.sum(-1, keepdim=True))
        emitted.append(survival * on_token.sum(-1, keepdim=True) / p_emitted)
    return Traced(torch.cat(expected, -1), torch.cat(emitted, -1))
