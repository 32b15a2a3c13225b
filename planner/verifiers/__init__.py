"""How children are drawn and judged, and how often they are accepted: one class a verifier.

Every verifier returns the target's distribution exactly, provided that `verify` is given the very
numbers that the target would be sampled from (p) and that `sample` drew from (q).

A new verifier is a new subclass of `Verifier` in a file of its own and one row in `VERIFIERS`; all
else derives from the class.

At temperature 0 all verifiers are one: the children are the draft's most probable tokens, and the
target's most probable token is accepted.  Decoding then uses `topk` with the draft's plain softmax
as q (a one-hot q would leave the second child to chance), whatever verifier the plan names.

Example:

    >>> from planner.verifiers import VERIFIERS
    >>> VERIFIERS["spechub"].max_children
    2
"""

from __future__ import annotations

from ..documents.document import PlannerError
from ..documents.sampling import Sampling
from .chain import Chain
from .kseq import SequentialSelection
from .lookahead import LookAhead
from .naive import Naive
from .rrs import IndependentRejection
from .rrsw import RecursiveRejection
from .spechub import SpecHub
from .topk import MostProbable
from .traversal import Traversal
from .verifier import Verifier

__all__ = ["GREEDY_VERIFIER", "VERIFIERS", "Verifier", "verifier_at", "verifier_named"]

VERIFIERS: dict[str, Verifier] = {
    verifier.name: verifier
    for verifier in (
        Chain(),
        Naive(),
        MostProbable(),
        IndependentRejection(),
        SequentialSelection(),
        RecursiveRejection(),
        SpecHub(),
        LookAhead(),
        Traversal(),
    )
}

GREEDY_VERIFIER = MostProbable.name
"""The one that every verifier is at temperature 0."""


def verifier_named(name: str) -> Verifier:
    """The verifier of this name.  Raises PlannerError where there is none."""
    if not isinstance(name, str) or name not in VERIFIERS:
        raise PlannerError(f"verifier: got {name!r}, expected one of {', '.join(VERIFIERS)}")
    return VERIFIERS[name]


def verifier_at(verifier: str | Verifier, sampling: Sampling) -> Verifier:
    """The verifier that decodes under `sampling`: `verifier`, or `GREEDY_VERIFIER` where greedy.

    Raises PlannerError for a name that there is not, unless decoding is greedy.
    """
    if sampling.is_greedy:
        return VERIFIERS[GREEDY_VERIFIER]
    return verifier if isinstance(verifier, Verifier) else verifier_named(verifier)
