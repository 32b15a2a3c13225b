"""Drafting in a few words."""

from __future__ import annotations

import pytest

from planner.documents.estimate import Estimate
from planner.documents.sampling import Sampling
from planner.plans.plan import Plan, Predicted, PredictedSteps
from planner.policies import DynamicDrafting, TreeDrafting
from planner.show.words import where_records_end
from tests.policies.settings import chains, trees

GROWN = trees(12, 3) | chains(6)


@pytest.mark.parametrize("way", GROWN)
def test_every_kind_says_how_far_it_goes(way):
    drafting = GROWN[way]
    words = drafting.words()
    if drafting.kind == "dynamic" and drafting.schedule == "constant":
        assert f"of {drafting.num_tokens} tokens" in words
    else:
        assert str(drafting.max_depth) in words


def test_a_chain_is_called_one():
    assert TreeDrafting(parents=[-1, 0, 1]).words() == "chain of 2 tokens"
    assert TreeDrafting(parents=[-1, 0, 0]).words() == "tree of 3 nodes, depth 1"
    assert trees(12, 1)["price"].words().startswith("chains grown at ")
    assert trees(12, 3)["price"].words().startswith("trees grown at ")


@pytest.mark.parametrize(("share", "said"), [(0.0, ""), (0.1, ""), (0.21, "21.0 % of the rounds")])
def test_a_plan_says_where_its_records_end(share, said):
    steps = PredictedSteps(
        nodes=[0, 1],
        depth=[1],
        draft_passes=0,
        discard_rate=0,
        verification_rate=1,
        cut_short=share,
    )
    one = Estimate(value=1.0, low=1.0, high=1.0)
    predicted = Predicted(
        tokens_per_step=one, step_ms=one, autoregressive_ms=one, speedup=one, steps=steps
    )
    plan = Plan(
        drafting=trees(12, 3)["greedy"],
        verifier="rrsw",
        sampling=Sampling(temperature=0.6),
        predicted=predicted,
    )
    assert where_records_end(plan).startswith(said)
    assert bool(where_records_end(plan)) == bool(said)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_depth": 1}, "chains of 1 token (constant), ended below probability 0.4"),
        ({"max_depth": 30}, "chains of 20 tokens (constant), ended below probability 0.4"),
        ({"max_depth": 9, "num_tokens": 5, "schedule": "heuristic"},
         "chains of 5 tokens (heuristic) at first, at most 9, ended below probability 0.4"),
    ],
)  # fmt: skip
def test_a_chain_is_never_said_to_be_longer_than_it_may_get(settings, words):
    assert DynamicDrafting(**settings).words() == words
