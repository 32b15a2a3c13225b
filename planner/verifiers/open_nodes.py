"""A node of a drafted tree, neither accepted nor rejected yet: what its children have left of it.

The names are those of `Traversal`: R, D, a and s.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..compiling import compiled
from ..documents.document import PlannerError
from .namespace import Array, namespace
from .rejected_paths import fill_untried
from .rejection import NO_NUMBERS, sampled
from .verifier import Source


class OpenNode:
    """R, D and a of one node, and the rank of the child that is tried next.

    node      its number in the tree
    family    its children's
    p, q      float tensors [V]  the target's distribution there, and the draft's
    entered   the acceptance that it is entered with
    """

    def __init__(
        self, node: int, family: Sequence[int], p: Array, q: Array, entered: float
    ) -> None:
        self.node, self.family, self.rank, self.acceptance = node, family, 0, entered
        self._p = p
        if family:
            self._target, self._draft = _both_to_one(p.cpu().numpy(), q.cpu().numpy())
            if not self._target[0] >= 0 or not self._draft[0] >= 0:
                raise PlannerError(NO_NUMBERS)
            self._tried = np.zeros(len(self._draft) if len(family) > 1 else 0, np.bool_)

    def entering(self, token: int) -> float:
        """The acceptance that the child `token` is entered with."""
        return min(1.0, self.acceptance * float(self._target[token]) / float(self._draft[token]))

    def reject(self, token: int) -> None:
        """Go on to the next child after `token`, the last one tried; where nothing is left to
        accept, there is none."""
        self.acceptance = fill_owed(self._target, self._draft, self.acceptance)
        self.rank += 1
        if self.acceptance == 0.0:
            self.rank = len(self.family)
        elif self.rank < len(self.family):
            self._tried[token] = True
            fill_untried(self._draft, self._tried)

    def bonus(self, rng: Source) -> int:
        """The token behind the node, once it is accepted."""
        if not self.family:
            return sampled(self._p, rng)
        return sampled(namespace(self._p).from_numpy(self._target).to(self._p.device), rng)


@compiled(error_model="numpy")
def _both_to_one(p, q):  # type: ignore[no-untyped-def]
    """(p, q) in float64, summing to 1; NaN where one of them does not sum to a number above 0."""
    target, draft = np.empty(len(p)), np.empty(len(p))
    target_mass = draft_mass = 0.0
    for y in range(len(p)):
        target[y], draft[y] = p[y], q[y]
        target_mass += target[y]
        draft_mass += draft[y]
    if not (target_mass > 0.0 and draft_mass > 0.0):
        target_mass = draft_mass = np.nan
    for y in range(len(p)):
        target[y] /= target_mass
        draft[y] /= draft_mass
    return target, draft


@compiled(error_model="numpy")
def fill_owed(target, draft, acceptance):  # type: ignore[no-untyped-def]
    """R becomes (a R - D)+ over its sum s, in place; returns a as it becomes, s / (s + 1 - a).

    target, draft  float64 [V]  R and D, each summing to 1
    acceptance     a; 1 stays exactly 1

    R stays as it is where nothing is owed.
    """
    owed = 0.0
    for y in range(len(target)):
        owed += max(acceptance * target[y] - draft[y], 0.0)
    if owed > 0.0:
        for y in range(len(target)):
            target[y] = max(acceptance * target[y] - draft[y], 0.0) / owed
    elif acceptance == 1.0:  # equal up to rounding
        return 1.0
    return owed / (owed + (1.0 - acceptance))
