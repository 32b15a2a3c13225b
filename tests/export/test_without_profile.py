"""Plans whose profile is not there are exported as they are, or not at all."""

from __future__ import annotations

import json

import numpy as np
import pytest

from planner import Plan, PlannerError
from planner.documents.sampling import Sampling
from planner.export import ENGINES, export
from planner.optimizer import acceptance_rates, solve
from planner.policies import ConfidentDrafting, DynamicDrafting, TreeDrafting
from planner.verifiers import VERIFIERS

from .made_up import CHAINS, TABLES, flags

CHAIN = {
    "vllm": '"num_speculative_tokens": 3, "draft_sample_method": "greedy"',
    "vllm-tree": '3, "speculative_token_tree": "[(0,), (0, 0), (0, 0, 0)]"',
    "sglang": "num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
    "sglang-adaptive": '{"1": {"candidate_steps": [3]}}',
    "trtllm": "  max_draft_len: 3\n",
    "trtllm-tree": "  dynamic_tree_max_topK: 1\n  max_total_draft_tokens: 3\n",
    "medusa": "[[0], [0, 0], [0, 0, 0]]",
    "eagle": "[[0], [0, 0], [0, 0, 0]]",
    "llamacpp": "--spec-draft-n-max 3 --spec-draft-n-min 0 --spec-draft-p-min 0\n",
    "openvino": '{"num_assistant_tokens": 3}',
    "hf": '"num_assistant_tokens": 3, "num_assistant_tokens_schedule": "constant", '
    '"assistant_confidence_threshold": 0.0',
}


@pytest.mark.parametrize("engine", CHAIN)
def test_without_a_profile_a_chain_is_exported_as_it_is(engine):
    plan = Plan(
        drafting=TreeDrafting(parents=[-1, 0, 1, 2]),
        verifier="topk",
        sampling=Sampling(temperature=0.0 if engine == "openvino" else 0.6),
    )
    result = export(plan, engine, draft="a/draft")
    assert result.plan.drafting == plan.drafting
    assert CHAIN[engine] in result.content


def test_openvino_is_told_nothing_where_its_text_would_be_wrong():
    plan = Plan(
        drafting=TreeDrafting(parents=[-1, 0]), verifier="topk", sampling=Sampling(temperature=0.6)
    )
    with pytest.raises(PlannerError, match="does not follow the target's distribution"):
        export(plan, "openvino")


def test_every_engine_is_tried():
    assert set(ENGINES) - set(CHAIN) == {*TABLES, "synthetic", "nvidia-profile"}


PLAIN = [name for name, verifier in VERIFIERS.items() if verifier.plain_with_one_child]


@pytest.mark.parametrize("verifier", PLAIN)
def test_with_one_child_these_verifiers_are_plain_speculative_sampling(verifier):
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(9), size=(2, 5))
    plain = np.minimum(p, q).sum(axis=-1)
    assert acceptance_rates(p, q, verifier, 1)[..., 0] == pytest.approx(plain, abs=1e-12)
    plan = Plan(
        drafting=TreeDrafting(parents=[-1, 0]), verifier=verifier, sampling=Sampling(temperature=1)
    )
    assert '"draft_sample_method": "probabilistic"' in export(plan, "vllm").content


def test_without_a_profile_predictions_of_other_rules_are_dropped(profile):
    plan = solve(profile, solver="chain", verifier="chain")
    assert export(plan, "vllm").plan.predicted == plan.predicted
    assert export(plan, "hf").plan.predicted == plan.predicted
    assert export(plan, "trtllm").plan.predicted is None
    for table in TABLES:
        with pytest.raises(PlannerError, match="profile: got none"):
            export(plan, table)


def test_without_a_profile_confidences_are_carried_over():
    sampling = Sampling(temperature=0.6)
    confident = ConfidentDrafting(max_depth=7, confidence=0.35)
    warm = Plan(drafting=confident, verifier="topk", sampling=sampling)
    with pytest.raises(PlannerError, match="which llamacpp cannot carry out"):
        export(warm, "llamacpp")  # whose probabilities are those of temperature 1
    plan = Plan(drafting=confident, verifier="topk", sampling=Sampling(temperature=0))
    given = flags(export(plan, "llamacpp"))
    assert (given["--spec-draft-n-max"], given["--spec-draft-p-min"]) == ("7", "0.35")
    dynamic = DynamicDrafting(max_depth=4, num_tokens=5, schedule="heuristic", confidence=0.2)
    plan = Plan(drafting=dynamic, verifier="chain", sampling=sampling)
    assert json.loads(export(plan, "hf").content) == {
        "num_assistant_tokens": 4,
        "num_assistant_tokens_schedule": "heuristic",
        "assistant_confidence_threshold": 0.2,
    }


@pytest.mark.parametrize("engine", [*CHAINS, "llamacpp", "hf", "synthetic", "nvidia-profile"])
def test_without_a_profile_a_tree_is_refused_where_chains_are_drafted(plan, engine):
    with pytest.raises(PlannerError, match=f"which {engine} cannot carry out; give the profile"):
        export(plan, engine)


@pytest.mark.parametrize("engine", ["synthetic", "nvidia-profile"])
def test_acceptance_by_position_needs_a_prediction(engine):
    plan = Plan(
        drafting=TreeDrafting(parents=[-1, 0]), verifier="chain", sampling=Sampling(temperature=1)
    )
    with pytest.raises(PlannerError, match="predicts no acceptance"):
        export(plan, engine)


def test_a_draft_with_a_vocabulary_of_its_own_may_be_refused_which_is_said(plan):
    chain = {"drafting": TreeDrafting(parents=[-1, 0]), "verifier": "topk", "predicted": None}
    told = plan.model_copy(update=chain)
    origin = plan.made_from
    own = origin.draft.model_copy(update={"matched_from": {"vocab_size": 128, "shared": 100}})
    other = told.model_copy(update={"made_from": origin.model_copy(update={"draft": own})})
    made, matched = export(told, "vllm"), export(other, "vllm")
    assert matched.content == made.content
    (note,) = set(matched.notes) - set(made.notes)
    assert "vLLM asks for equal sizes" in note
