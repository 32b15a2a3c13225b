"""Plans for look-up drafts go to engines that look up themselves, and nowhere else."""

from __future__ import annotations

import json

import pytest

from planner import PlannerError
from planner.documents.origin import LOOKUP
from planner.export import ENGINES, export
from planner.export.engine_lookup import LOOKUPS, MOST_MATCHED, TIMES
from planner.optimizer import solve
from tree_kernels.host.ngrams import LONGEST

from .made_up import TABLES, profile_at
from .test_export import planned


@pytest.fixture(scope="module", params=[0.0, 0.6])
def made(request):
    """A profile of a look-up draft, and a plan made from it."""
    profile = profile_at(request.param)
    draft = profile.draft.model_copy(update={"name": LOOKUP})
    profile = profile.model_copy(update={"draft": draft})
    return profile, solve(profile, solver="sequoia")


def test_settings_are_the_engines_own_and_the_length_is_the_best_chains(made):
    profile, plan = made
    length = planned(profile, ("chain", "topk")).drafting.most_nodes - 1
    written = {name: json.loads(export(plan, name, profile=profile).content) for name in LOOKUPS}
    assert written == {
        "vllm": {
            "method": "ngram", "num_speculative_tokens": length,
            "prompt_lookup_min": 1, "prompt_lookup_max": LONGEST,
        },
        "hf": {"prompt_lookup_num_tokens": length, "max_matching_ngram_size": LONGEST},
    }  # fmt: skip
    assert MOST_MATCHED == LONGEST


@pytest.mark.parametrize("engine", LOOKUPS)
def test_nothing_is_predicted_of_another_look_up(made, engine):
    profile, plan = made
    result = export(plan, engine, profile=profile)
    assert result.plan.predicted is None
    assert any("copies" in note for note in result.notes)


@pytest.mark.parametrize("engine", sorted(set(ENGINES) - set(LOOKUPS) - set(TIMES)))
def test_no_other_engine_is_told_a_model_called_lookup(made, engine):
    profile, plan = made
    for facts, draft in ((profile, None), (None, None), (profile, "a/draft")):
        with pytest.raises(PlannerError, match=f"for the draft lookup.*not to {engine};"):
            export(plan, engine, profile=facts, draft=draft)


@pytest.mark.parametrize("engine", sorted(set(ENGINES) - set(TIMES)))
def test_no_engine_is_told_that_a_model_looks_up_too(made, engine):
    plan = made[1]
    draft = plan.made_from.draft.model_copy(update={"name": "a/draft+lookup"})
    origin = plan.made_from.model_copy(update={"draft": draft})
    with pytest.raises(PlannerError, match=r"draft a/draft\+lookup, which no engine drafts by"):
        export(plan.model_copy(update={"made_from": origin}), engine)


def test_the_targets_times_are_exported_whatever_drafts(made):
    profile, plan = made
    assert set(TIMES) == set(TABLES)
    for engine in TIMES:
        assert export(plan, engine, profile=profile).plan is None


def test_transformers_takes_the_setting():
    transformers = pytest.importorskip("transformers")
    settings = LOOKUPS["hf"].settings(5)
    config = transformers.GenerationConfig(**settings)
    assert config.prompt_lookup_num_tokens == 5
    assert config.get_generation_mode() == "assisted_generation"
