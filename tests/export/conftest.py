"""A profile and a plan made from it, for all tests of exports."""

from __future__ import annotations

import pytest

from planner.optimizer import solve

from .made_up import profile_at


@pytest.fixture(scope="package")
def profile():
    return profile_at(0.6)


@pytest.fixture(scope="package")
def plan(profile):
    """A tree, which half of the engines cannot draft."""
    chosen = solve(profile, solver="sequoia", verifier="rrsw")
    assert chosen.drafting.most_children > 1
    return chosen
