"""What a verification rule is."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from planner.documents.document import PlannerError
from planner.verifiers.traits import VERIFIER_TRAITS, VerifierTraits

from ..randomness import Source

Random = torch.Generator | Source
"""What every rule takes as its source of randomness."""

NO_NUMBERS = (
    "logits: got NaN or infinity from a model, expected numbers; load the models in bfloat16 or "
    "float32"
)


class Verifier(Protocol):
    """A way to sample the children of a node together with the way to verify them."""

    @property
    def name(self) -> str: ...

    @property
    def max_children(self) -> int | None:
        """Most children of one node that the rule can serve; None: any number."""

    @property
    def incremental(self) -> bool:
        """May siblings be drawn one at a time, deciding in between whether to draw another?"""

    @property
    def nested(self) -> bool:
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
        Raises PlannerError where p or a q that is looked at is not made of numbers.
        """


class Rule:
    """What rules have in common: a name, and what planning knows of it (`VERIFIER_TRAITS`)."""

    name: str

    @property
    def traits(self) -> VerifierTraits:
        return VERIFIER_TRAITS[self.name]

    @property
    def max_children(self) -> int | None:
        return self.traits.max_children

    @property
    def incremental(self) -> bool:
        return self.traits.incremental

    @property
    def nested(self) -> bool:
        return self.traits.nested


def sampled(probs: Tensor, rng: Source) -> int:
    """One token.  Raises PlannerError for NaN, past whose sum no token is found."""
    token = int(rng.categorical(probs))
    if token >= len(probs):
        raise PlannerError(NO_NUMBERS)
    return token


def normalised(probs: Tensor) -> Tensor:
    """float64 [V], summing to 1.  Raises PlannerError for NaN."""
    probs = probs.double()
    total = float(probs.sum())
    if not total > 0:
        raise PlannerError(NO_NUMBERS)
    return probs / total


def tried(residual: Tensor, draft: Tensor, token: int, rng: Source) -> Tensor | None:
    """Try `token`, drawn from `draft`, on the residual target: None if it is accepted, else what
    is left, (residual - draft)+, in the residual's own scale.

    Neither needs to be normalised: one scale and no division serves.  Raises PlannerError for NaN.
    """
    shares = torch.stack((residual[token], draft[token], residual.sum(), draft.sum()))
    target, share, target_mass, draft_mass = shares.tolist()
    if not (target_mass > 0 and draft_mass > 0):
        raise PlannerError(NO_NUMBERS)
    if rng.accept(target * draft_mass, share * target_mass):
        return None
    left = torch.sub(residual, draft, alpha=target_mass / draft_mass).clamp_(min=0)
    # Nothing left: they are equal up to rounding, where nothing is ever rejected.
    return left if float(left.sum()) > 0 else None
