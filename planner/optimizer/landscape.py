"""How fast is the best fixed tree of every size and depth?"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..documents.document import PlannerError
from ..documents.profile import Profile
from ..documents.tree import Tree
from ..estimates.evidence import recorded
from ..estimates.law import AcceptanceLaw
from ..estimates.step_costs import StepCosts, step_costs
from ..plans.plan import Plan
from ..trees.frontier import search
from ..verifiers import verifier_at
from .grading import Candidate, grade
from .ranking import law_for

DEPTHS = (1, 2, 3, 4, 6, 8)
"""Levels below the root that trees are looked at with, beside those of the plan."""
NUM_SIZES = 40


@dataclass(frozen=True)
class Landscape:
    """Graded trees of many sizes and depths under one verifier, by size."""

    candidates: tuple[Candidate, ...]

    @property
    def best(self) -> list[Candidate]:
        """The fastest of every size."""
        by_size: dict[int, Candidate] = {}
        for each in self.candidates:
            size = each.drafting.most_nodes
            if size not in by_size or each.tokens_per_ms > by_size[size].tokens_per_ms:
                by_size[size] = each
        return [by_size[size] for size in sorted(by_size)]

    @property
    def by_depth(self) -> dict[int, list[Candidate]]:
        """All of every depth."""
        depths = sorted({each.tree.depth for each in self.candidates})
        return {d: [each for each in self.candidates if each.tree.depth == d] for d in depths}


def landscape(profile: Profile, plan: Plan) -> Landscape:
    """The landscape that `plan` stands in: its verifier and sampling, and the conditions that it
    was made for.

    Trees of one size and depth are those that emit most under the acceptance that holds inside the
    plan's own, where that is one tree for all steps.  An engine is asked for chains alone.

    Raises PlannerError where the profile measured nothing of the kind.
    """
    origin, sampling = plan.made_from, plan.sampling
    verifier = verifier_at(plan.verifier, sampling).name
    entries = [e for e in profile.acceptance if e.sampling == sampling]
    entry = next((e for e in entries if e.verifier in (verifier, plan.verifier)), None)
    if entry is None:
        there = ", ".join(sorted({each.verifier for each in entries})) or "nothing"
        raise PlannerError(
            f"profile: holds the acceptance of {there} at {sampling}, expected {plan.verifier}"
        )
    costs = step_costs(
        profile,
        verifier=verifier,
        batch_size=origin.batch_size if origin else profile.costs[0].batch_size,
        context=origin.context if origin else None,
        sampling=sampling,
    )
    evidence = recorded(profile, entry)
    fixed = plan.speculates and not plan.grows
    law = law_for(entry.verifier, evidence.law_inside(plan.tree) if fixed else evidence.law)
    depths = DEPTHS + ((plan.tree.depth,) if fixed else ())
    chains = profile.engine is not None
    trees = list(_chains(costs) if chains else _trees(law, costs, sorted(set(depths))))
    with ThreadPoolExecutor() as pool:  # the compiled part lets go of the interpreter
        made = pool.map(lambda tree: grade(tree, evidence, costs, verifier=entry.verifier), trees)
        return Landscape(tuple(made))


def _chains(costs: StepCosts) -> Iterator[Tree]:
    for size in range(2, costs.max_nodes + 1):
        if costs.covers(chain := Tree(np.arange(-1, size - 1))):
            yield chain


def _trees(law: AcceptanceLaw, costs: StepCosts, depths: list[int]) -> Iterator[Tree]:
    """The best tree of each size and of exactly each depth, smaller ones first."""
    most = costs.max_nodes
    if most < 2:
        return
    depths = [depth for depth in depths if depth < most]
    found = search(law, most, max(depths))
    every = np.unique(np.geomspace(2, most, NUM_SIZES).round().astype(int)).tolist()
    for size in every:
        for depth in depths:
            tree = found.tree(size, depth) if depth < size else None
            if tree is not None and tree.depth == depth and costs.covers(tree):
                yield tree
