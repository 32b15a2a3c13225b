"""Every policy is one row of the union, from which everything else about it follows."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from planner import Plan
from planner.documents.sampling import Sampling
from planner.policies import FEATURES, POLICIES, TreeDrafting
from tests.policies.driving import grown, of_text
from tests.policies.settings import chains, trees

FIXED = {"tree": TreeDrafting(parents=[-1, 0, 0, 1]), "lone root": TreeDrafting(parents=[-1])}
EVERY = FIXED | trees(12, 3) | chains(6)


def features(path) -> np.ndarray:
    return np.random.default_rng([len(path), *path]).uniform(0.2, 0.95, size=len(FEATURES))


def test_every_policy_is_tested():
    assert {settings.kind for settings in EVERY.values()} == set(POLICIES)


@pytest.mark.parametrize("name", EVERY)
def test_settings_come_back_from_a_plan_as_they_were(name):
    plan = Plan(drafting=EVERY[name], verifier="rrsw", sampling=Sampling(temperature=0.6))
    assert Plan.model_validate_json(plan.to_json()).drafting == EVERY[name]
    assert type(EVERY[name]) is POLICIES[EVERY[name].kind]
    assert plan.policy().num_nodes == EVERY[name].most_nodes


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_no_tree_exceeds_what_the_settings_say(name, deterministic):
    """Nodes, children, and what a chain is; `grown` checks all other promises."""
    settings = EVERY[name]
    for seed in range(5):
        policy = settings.policy(deterministic=deterministic)
        tree = grown(policy, of_text(seed, max(settings.most_children, 1)), features=features)
        counts = np.bincount(tree.parents[1:], minlength=1)
        assert len(tree.paths) <= settings.most_nodes
        assert counts.max() <= settings.most_children
        if settings.grows_chains:
            assert settings.most_children == 1
        if not settings.grows:
            assert tree.parents == settings.parents


@pytest.mark.parametrize("name", EVERY)
def test_settings_say_themselves_in_one_line(name):
    words = EVERY[name].words()
    assert words
    assert "\n" not in words


def test_only_a_stopping_head_and_a_price_that_follows_are_more_than_settings():
    assert {name for name, each in EVERY.items() if each.trained_head} == {"stop by head"}
    assert {name for name, each in EVERY.items() if each.learns} == {"price online"}


def test_policies_are_light_to_import():
    code = (
        "import sys, planner.policies\n"
        "print(sorted({'torch', 'numba', 'scipy', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
