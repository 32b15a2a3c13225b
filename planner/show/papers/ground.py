"""The facts that rows are computed from: a user's profile, if there is one, and random pairs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...documents.document import PlannerError
from ...documents.profile import Profile
from ...documents.sampling import Sampling
from ...documents.tree import Tree
from ...estimates.evidence import Evidence, Traces, recorded
from ...estimates.law import AcceptanceLaw
from ...estimates.step_costs import StepCosts, step_costs
from ...replay.replays import Replays, replays_of
from ...trees.frontier import deep_search
from ...verifiers import VERIFIERS, verifier_at


class Missing(PlannerError):
    """The need that is not met, as the clause that is printed in the place of numbers."""


@dataclass(frozen=True)
class Ground:
    """All that there is to compute from.  Everything raises `Missing` for what is not there."""

    facts: Profile | None = None
    num_pairs: int = 10_000
    """Random pairs of distributions, of each kind."""
    _known: dict[tuple[str, Sampling], Evidence] = field(default_factory=dict, repr=False)
    _counted: dict[tuple[Tree, str, Sampling], float] = field(default_factory=dict, repr=False)

    @property
    def profile(self) -> Profile:
        """The user's profile."""
        if self.facts is None:
            raise Missing("needs a profile")
        return self.facts

    @property
    def samplings(self) -> list[Sampling]:
        """All that the profile measured, in its order."""
        return list(dict.fromkeys(entry.sampling for entry in self.profile.acceptance))

    @property
    def random_samplings(self) -> list[Sampling]:
        """The samplings at temperatures above 0, where verifiers differ."""
        found = [each for each in self.samplings if not each.is_greedy]
        if not found:
            raise Missing("needs a profile at a temperature above 0")
        return found

    @property
    def greedy(self) -> Sampling:
        """The sampling at temperature 0."""
        found = [each for each in self.samplings if each.is_greedy]
        if not found:
            raise Missing("needs a profile at temperature 0")
        return found[0]

    def evidence(self, verifier: str, sampling: Sampling) -> Evidence:
        """All that was recorded of a verifier; where greedy, of the one that all are there."""
        key = verifier_at(verifier, sampling).name, sampling
        if key not in self._known:
            profile = self.profile
            found = [e for e in profile.acceptance if (e.verifier, e.sampling) == key]
            if not found:
                raise Missing(f"needs a profile of verifier {key[0]} at {sampling}")
            self._known[key] = recorded(profile, found[0])
        return self._known[key]

    def law(self, verifier: str, sampling: Sampling) -> AcceptanceLaw:
        """Its acceptance over all positions, for as many children as it serves."""
        return self.evidence(verifier, sampling).law.limited(VERIFIERS[verifier].max_children)

    def acceptance(self, verifier: str, sampling: Sampling) -> np.ndarray:
        """float64 [k]: by rank, of the children of a node that has all k."""
        law = self.law(verifier, sampling)
        return law.of_children(0, law.num_ranks)

    def tokens(self, tree: Tree, verifier: str, sampling: Sampling) -> float:
        """Tokens per step of a tree, bonus token included."""
        key = tree, verifier, sampling
        if key not in self._counted:
            self._counted[key] = float(self.evidence(verifier, sampling).reach(tree).sum())
        return self._counted[key]

    def best(
        self, num_nodes: int, verifier: str, sampling: Sampling, *,
        depth: int | None = None, max_children: int | None = None,
    ) -> Tree:  # fmt: skip
        """The tree of so many nodes with most tokens under the law of all positions."""
        law = self.law(verifier, sampling).limited(max_children)
        most = num_nodes - 1 if depth is None else min(depth, num_nodes - 1)
        tree = deep_search(law, num_nodes, most)
        if tree is None:
            raise Missing(f"needs more than {law.num_ranks} ranks for trees of {num_nodes} nodes")
        return tree

    def costs(self, verifier: str, sampling: Sampling) -> StepCosts:
        """The times of a verifier's steps, at the first batch size and context."""
        name = verifier_at(verifier, sampling).name
        return step_costs(self.profile, verifier=name, sampling=sampling)

    def replays(self, sampling: Sampling) -> Replays:
        """Recorded trees of children drawn without replacement, or of the likeliest if greedy."""
        found = replays_of(self.profile, sampling, "rrsw")
        if found is None:
            raise Missing("needs a profile with recorded trees (--num-replayed)")
        return found

    def source(self, verifier: str = "rrsw") -> str:
        """Whence acceptance is, in words: traces know where rounds start, means do not."""
        traced = isinstance(self.evidence(verifier, self.samplings[0]), Traces)
        return "profile, traces" if traced else "profile, means"


def matched(sampling: Sampling, temperature: float) -> bool:
    """Is it what a paper calls temperature T: nothing is cut, and the draft's is the same?"""
    return sampling == Sampling(temperature=temperature)
