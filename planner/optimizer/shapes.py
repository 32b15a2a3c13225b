"""Given shapes of trees under one or all verifiers, graded as candidates are, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..documents.document import PlannerError
from ..documents.profile import Profile
from ..documents.sampling import Sampling
from ..documents.tree import Tree
from ..verifiers import VERIFIERS
from .choice import Question, entries, measured
from .given import GIVEN
from .grading import Candidate, grade


@dataclass(frozen=True)
class Shapes:
    """Trees by name under the verifiers that can serve them."""

    sampling: Sampling
    graded: list[tuple[str, Candidate]]
    """Name and grade, in the order of the names, of one name the fastest verifier first."""
    refused: list[str]
    """A line for each shape and verifier that do not go together, or were not measured."""


def graded_shapes(
    trees: Mapping[str, Tree],
    profile: Profile,
    question: Question,
    *,
    verifiers: Sequence[str] = ("auto",),
) -> Shapes:
    """Every tree under each of these verifiers; "auto": all that the profile has.

    question  the sampling, batch size and context; the rest of it is no matter

    Raises PlannerError where nothing can be graded at all.
    """
    sampling = question.sampling or profile.sampling_at(None)
    asked = {e.verifier: e for name in verifiers for e in entries(profile, sampling, name)}
    found: dict[str, list[Candidate]] = {name: [] for name in trees}
    refused, larger = [], []
    for entry in asked.values():
        evidence, costs = measured(profile, entry, question)
        for name, tree in trees.items():
            whose = f"{name}, {entry.verifier}"
            most, there = VERIFIERS[entry.verifier].max_children, int(tree.num_children.max())
            if most is not None and there > most:
                refused.append(f"{whose}: serves at most {most} children a node, not {there}")
                continue
            try:
                one = grade(tree, evidence, costs, solver=GIVEN, verifier=entry.verifier)
            except PlannerError as error:
                refused.append(f"{whose}: {error}")
                larger.append(refused[-1])
            else:
                found[name].append(one)
    graded = [
        (name, one)
        for name, several in found.items()
        for one in sorted(several, key=lambda each: -each.tokens_per_ms)
    ]
    if not graded:
        raise PlannerError((larger or refused)[0])
    return Shapes(sampling, graded, refused)
