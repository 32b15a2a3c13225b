"""A tree that vLLM is told to draft is what its proposer drafts."""

from __future__ import annotations

import ast
import json

import pytest

from planner import Plan, PlannerError, Tree
from planner.documents.sampling import Sampling
from planner.export import export
from planner.optimizer import solve
from planner.policies import TreeDrafting
from tests.optimizer import factory


def proposed(paths: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The nodes that vLLM up to 0.20.2 drafts for a list of them: n_l // n_(l-1) children each."""
    sizes = [sum(len(path) == level for path in paths) for level in range(1, len(paths[-1]) + 1)]
    level, drafted = [()], []
    for above, size in zip([1, *sizes], sizes, strict=False):
        level = [(*path, rank) for path in level for rank in range(size // above)]
        drafted += level
    return drafted


def paths_of(content: str) -> list[tuple[int, ...]]:
    return ast.literal_eval(json.loads(content)["speculative_token_tree"])


def test_what_is_written_is_what_is_drafted(profile, plan):
    paths = paths_of(export(plan, "vllm-tree", profile=profile).content)
    assert proposed(paths) == paths


def test_another_tree_would_be_drafted_otherwise():
    """Without this test's helper being able to tell, the one above would say nothing."""
    assert proposed([(0,), (1,), (0, 0)]) == [(0,), (1,)]


def test_the_tree_is_uniform_where_the_plans_is_not():
    """A first child is worth children of its own, a second is not."""
    rates = [[0.6, 0.2]] * 2
    costs = factory.costs(verify=lambda n: 10 + n / 4, counts=range(1, 17))
    profile = factory.profile([factory.positional(rates, verifier="topk")], [costs])
    plan = solve(profile, solver="sequoia")
    assert not plan.tree.is_uniform
    result = export(plan, "vllm-tree", profile=profile)
    assert result.plan.tree.is_uniform
    assert result.plan.tree == solve(profile, solver="uniform").tree


def test_without_the_profile_only_uniform_trees_are_written():
    def planned(parents: list[int]) -> Plan:
        drafting = TreeDrafting(parents=parents)
        return Plan(drafting=drafting, verifier="topk", sampling=Sampling(temperature=0.6))

    even = planned([-1, 0, 0, 1, 1, 2, 2])
    assert paths_of(export(even, "vllm-tree", draft="a/draft").content)[2:] == [
        (0, 0), (0, 1), (1, 0), (1, 1),
    ]  # fmt: skip
    uneven = planned([-1, 0, 0, 1, 1, 2])
    assert not Tree(uneven.drafting.parents).is_uniform
    with pytest.raises(PlannerError, match="where all nodes of a level have as many, cannot") as no:
        export(uneven, "vllm-tree", draft="a/draft")
    assert "\n" not in str(no.value)
    assert export(uneven, "eagle").content  # which takes any
