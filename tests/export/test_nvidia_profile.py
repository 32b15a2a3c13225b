"""Acceptance by position, as simulators read it, is what the plan predicts."""

from __future__ import annotations

import json

import pytest

from planner import PlannerError
from planner.documents.speculation_profile import SpeculationProfile
from planner.export import export
from planner.export.notations import as_json
from planner.export.nvidia import conditional
from planner.optimizer import solve
from tests.optimizer import factory
from tests.optimizer.choosing import random_traces


def test_conditional_acceptance_by_hand():
    """40 of 100 steps emit one token, 30 two, 30 three, none four."""
    assert conditional([0.6, 0.3, 0.0]) == pytest.approx([0.6, 0.5, 0.0])
    assert conditional([0.0, 0.0]) == [0.0, 0.0]
    assert conditional([]) == []


def test_both_conventions_are_the_predicted_chain(profile, plan):
    result = export(plan, "nvidia-profile", profile=profile)
    said = json.loads(result.content)
    assert said["schema_version"] == "1.0"
    assert said["measured"] is True
    marginal, each = said["marginal_accept_rates"], said["conditional_accept_rates"]
    tokens = said["num_speculative_tokens"]
    assert tokens == len(marginal) == len(each) == result.plan.drafting.most_nodes - 1
    assert marginal == pytest.approx(result.plan.predicted.reach[1:], abs=1e-6)
    product = 1.0
    for chance, reached in zip(each, marginal, strict=True):
        product *= chance
        assert product == pytest.approx(reached, abs=1e-5)
    predicted = result.plan.predicted.tokens_per_step.value
    assert said["mean_accept_length"] == pytest.approx(predicted, abs=1e-6)
    assert said["accept_length_by_k"] == {str(tokens): said["mean_accept_length"]}
    vllm = json.loads(export(plan, "synthetic", profile=profile).content)
    assert vllm["synthetic_acceptance_rates"] == pytest.approx(marginal, abs=1e-4)


def test_where_it_comes_from_is_said(profile, plan):
    result = export(plan, "nvidia-profile", profile=profile, draft="some/draft")
    told = json.loads(result.content)["measurement_conditions"]
    assert told["temperature"] == 0.6
    assert told["draft"] == "some/draft"
    assert told["profile_sha256"] == plan.made_from.profile_sha256
    assert told["verifier"] == result.plan.verifier
    assert any("a proposal" in note for note in result.notes)


def test_a_profile_of_one_rate_for_all_positions_is_told(profile, plan):
    one = factory.positional([[0.6], [0.6]], verifier="chain")
    flat = factory.profile([one], [factory.costs(counts=range(1, 17))])
    bare = plan.model_copy(update={"made_from": None, "sampling": one.sampling})
    result = export(bare, "nvidia-profile", profile=flat)
    rates = json.loads(result.content)["conditional_accept_rates"]
    assert rates == [0.6] * len(rates)
    assert len(rates) > 1
    assert any("tells no positions apart" in note for note in result.notes)
    told = export(plan, "nvidia-profile", profile=profile).notes
    assert not any("tells no positions apart" in note for note in told)


def test_how_good_a_draft_is_does_not_depend_on_whether_it_pays(plan):
    entry = random_traces(1, "chain", scale=0.01)
    poor = factory.profile([entry], [factory.costs(counts=range(1, 17))])
    bare = plan.model_copy(update={"made_from": None})
    with pytest.raises(PlannerError, match="leave its speculative decoding off"):
        export(bare, "synthetic", profile=poor)
    rates = json.loads(export(bare, "nvidia-profile", profile=poor).content)
    assert 0 < rates["marginal_accept_rates"][0] < 0.01


def test_a_planned_chain_is_written_without_its_profile(profile):
    plan = solve(profile, solver="chain", verifier="chain")
    said = json.loads(export(plan, "nvidia-profile").content)
    assert said["marginal_accept_rates"] == pytest.approx(plan.predicted.reach[1:], abs=1e-6)


def test_what_is_written_is_read_back_exactly(profile, plan):
    written = export(plan, "nvidia-profile", profile=profile).content
    read = SpeculationProfile.parse(json.loads(written), "file")
    assert as_json(read.model_dump()) == written
