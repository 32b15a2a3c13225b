"""No policy looks at a candidate before it has decided to reveal it.

Whatever stands in the place of candidates that are not revealed, the decisions are the same; and
so are all decisions up to the one that reveals a candidate, whatever that candidate and the ones
behind it may be.  What stands there is NaN, with which nothing can be computed in secret.
"""

from __future__ import annotations

import numpy as np
import pytest

from planner.policies import FEATURES, POLICIES, Policy
from tests.policies.broken import BROKEN
from tests.policies.driving import Drawn, Grown, Path, grown, of_text
from tests.policies.settings import chains, trees

SETTINGS = trees(12, 4) | chains(6)


def test_every_kind_of_policy_is_tested():
    assert {settings.kind for settings in SETTINGS.values()} == {
        kind for kind, policy in POLICIES.items() if policy.grows
    }


def features(path: Path) -> np.ndarray:
    rng = np.random.default_rng([len(path), *path])
    return rng.uniform(0.2, 0.95, size=len(FEATURES))


def poisoned(drawn: Drawn, first: dict[Path, int]) -> Drawn:
    """NaN from rank first[path] on below the nodes that are named."""

    def changed(path: Path) -> np.ndarray:
        values = drawn(path).copy()
        values[first.get(path, len(values)) :] = np.nan
        return values

    return changed


def faults(policy: Policy, drawn: Drawn) -> list[str]:
    """Decisions that change with what they must not look at."""

    def grow(drawn: Drawn) -> Grown:
        return grown(policy, drawn, features=features)

    tree = grow(drawn)
    found = []
    num_children = {path: 0 for made in tree.passes for path in made}
    for path in tree.revealed:
        num_children[path[:-1]] += 1
    if grow(poisoned(drawn, num_children)).revealed != tree.revealed:
        found.append("what is not revealed")
    for place, path in enumerate(tree.revealed):
        again = grow(poisoned(drawn, {path[:-1]: path[-1]}))
        if again.revealed[: place + 1] != tree.revealed[: place + 1]:
            found.append(f"candidate {path}")
    return found


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("seed", range(8))
def test_a_candidate_is_not_looked_at_before_it_is_revealed(settings, seed):
    policy = settings.policy(deterministic=False)
    assert faults(policy, of_text(seed, policy.num_candidates, sharpness=0.1 * (seed + 1))) == []


@pytest.mark.parametrize("name", ["greedy", "threshold", "price"])
def test_the_trees_of_these_tests_are_worth_testing(name):
    """Several levels, several children, and candidates that are not revealed."""
    trees = [
        grown(SETTINGS[name].policy(deterministic=False), of_text(seed, 4), features=features)
        for seed in range(8)
    ]
    assert len({tuple(tree.revealed) for tree in trees}) > 4
    assert max(len(path) for tree in trees for path in tree.paths) > 2
    assert max(path[-1] for tree in trees for path in tree.revealed) > 0


@pytest.mark.parametrize("kind", BROKEN.values(), ids=BROKEN)
def test_a_policy_that_looks_is_seen(kind):
    policy = kind(num_nodes=12, max_children=4)
    assert any(faults(policy, of_text(seed, 4)) for seed in range(8))
