"""The verification rules: how children are sampled and how they are verified, in one class each.

Every rule returns the target's distribution exactly, provided that `verify` is given the very
tensors that the target would be sampled from (p) and that `sample` drew from (q).

A new rule is a new frozen dataclass with the members of `Verifier` and one row in `VERIFIERS`.

At temperature 0 all rules are one rule: the children are the draft's most probable tokens, and the
target's most probable token is accepted.  The decode loop then uses `topk` with the draft's plain
softmax as q (a one-hot q would leave the second child to chance), whatever rule the plan names.
"""

from __future__ import annotations

from .base import Random, Rule, Verifier
from .distinct import LookAhead, RecursiveRejection
from .fixed import MostProbable
from .independent import (
    Chain,
    IndependentRejection,
    Naive,
    SequentialSelection,
)
from .spechub import SpecHub

__all__ = ["VERIFIERS", "MostProbable", "Random", "RecursiveRejection", "Rule", "Verifier"]

VERIFIERS: dict[str, Verifier] = {
    rule.name: rule
    for rule in (
        Chain(),
        Naive(),
        MostProbable(),
        IndependentRejection(),
        SequentialSelection(),
        RecursiveRejection(),
        SpecHub(),
        LookAhead(),
    )
}
