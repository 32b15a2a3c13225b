"""The verification rules: how children are sampled and how they are verified, in one class each.

Every rule returns the target's distribution exactly, provided that `verify` is given the very
tensors that the target would be sampled from (p) and that `sample` drew from (q).

A new rule is a new frozen dataclass with these members and one row in `VERIFIERS`.

At temperature 0 all rules are one rule: the children are the draft's most probable tokens, and the
target's most probable token is accepted.  The decode loop then uses `topk` with the draft's plain
softmax as q (a one-hot q would leave the second child to chance), whatever rule the plan names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from planner.plan import VERIFIER_TRAITS
from planner.schema import PlannerError

from .randomness import Source, source_of

Random = torch.Generator | Source
"""What every rule takes as its source of randomness."""


class Verifier(Protocol):
    """A way to sample the children of a node together with the way to verify them."""

    @property
    def name(self) -> str: ...

    @property
    def max_children(self) -> int | None:
        """Most children of one node that the rule can serve; None: any number."""

    @property
    def incremental(self) -> bool:
        """Is the first part of a sample of k children a sample of fewer children?"""

    def sample(self, q: Tensor, k: int, rng: Random) -> Tensor:
        """The children of w nodes, in the order in which they will be tried.

        q  float [w, V] or [V]  the draft's distribution at each node
        k  1 <= k <= V          children a node

        Returns int64 [w, k] or [k].
        """

    def verify(self, p: Tensor, q: Tensor, drafts: Tensor, rng: Random) -> tuple[int, int]:
        """Which child of one node is accepted, and the token that the step goes on with.

        p       float [V]  the target's distribution at the node
        q       float [V]  the draft's distribution there, as it was given to `sample`
        drafts  int64 [k]  what `sample` returned; k = 0 at a leaf

        Returns (rank of the accepted child, its token), or (-1, a token sampled from what the
        rejections left of p).  At a leaf that is a token sampled from p: the bonus token.
        """


@dataclass(frozen=True)
class RecursiveRejection:
    """Sampling without replacement, verified by recursive rejection (Sequoia, Algorithm 1).

    R starts as p and D as q.  The child x, drawn from D, is accepted with probability R(x)/D(x);
    after a rejection R becomes norm((R - D)+), and D loses x and is renormalised; once D is empty
    it is uniform over the tokens not tried.  After the last child a token is sampled from R.
    """

    name: str = "rrsw"
    max_children: int | None = VERIFIER_TRAITS["rrsw"].max_children
    incremental: bool = VERIFIER_TRAITS["rrsw"].incremental

    def sample(self, q: Tensor, k: int, rng: Random) -> Tensor:
        rows = q if q.dim() == 2 else q[None]
        drafts = source_of(rng).without_replacement(rows, k)
        return drafts if q.dim() == 2 else drafts[0]

    def verify(self, p: Tensor, q: Tensor, drafts: Tensor, rng: Random) -> tuple[int, int]:
        rng = source_of(rng)
        residual, untried = p, q
        tokens: list[int] = drafts.tolist()
        for rank, token in enumerate(tokens):
            if rank > 0:
                untried = _without(untried, tokens[:rank])
            # Neither residual nor untried is kept normalised: one scale and no division serves.
            shares = torch.stack((residual[token], untried[token], residual.sum(), untried.sum()))
            target, draft, target_mass, draft_mass = shares.tolist()
            if not (target_mass > 0 and draft_mass > 0):
                raise PlannerError(_NO_NUMBERS)
            if rng.accept(target * draft_mass, draft * target_mass):
                return rank, token
            left = torch.sub(residual, untried, alpha=target_mass / draft_mass).clamp_(min=0)
            if not float(left.sum()) > 0:  # R = D up to rounding, where nothing is ever rejected
                return rank, token
            residual = left
        return -1, _sampled(residual, rng)


@dataclass(frozen=True)
class MostProbable:
    """The draft's most probable tokens, verified by sampling the target: accepted if it is a child.

    Lossless for any children at all, since they are not looked at before the token is sampled.
    """

    name: str = "topk"
    max_children: int | None = VERIFIER_TRAITS["topk"].max_children
    incremental: bool = VERIFIER_TRAITS["topk"].incremental

    def sample(self, q: Tensor, k: int, rng: Random) -> Tensor:
        return q.topk(k, dim=-1).indices

    def verify(self, p: Tensor, q: Tensor, drafts: Tensor, rng: Random) -> tuple[int, int]:
        token = _sampled(p, source_of(rng))
        children = drafts.tolist()
        return (children.index(token) if token in children else -1), token


VERIFIERS: dict[str, Verifier] = {
    rule.name: rule for rule in (RecursiveRejection(), MostProbable())
}


def _without(untried: Tensor, tried: list[int]) -> Tensor:
    """The draft distribution less the last tried token, not normalised; written in place from the
    second time on."""
    rest = untried.clone() if len(tried) == 1 else untried
    rest[tried[-1]] = 0
    if float(rest.sum()) > 0:
        return rest
    rest = torch.ones_like(rest)
    rest[tried] = 0
    return rest


def _sampled(probs: Tensor, rng: Source) -> int:
    """One token.  Raises PlannerError for NaN, past whose sum no token is found."""
    token = int(rng.categorical(probs))
    if token >= len(probs):
        raise PlannerError(_NO_NUMBERS)
    return token


_NO_NUMBERS = (
    "logits: got NaN or infinity from a model, expected numbers; load the models in bfloat16 or "
    "float32"
)
