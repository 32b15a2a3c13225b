"""The table of settings that decoding may change between."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner import Plan
from planner.optimizer import solve
from planner.optimizer.choice import Question, ranked_by_verifier
from planner.optimizer.ranking import ranked
from planner.optimizer.setting_table import CLOSE, MOST, setting_table

from . import factory
from .choosing import made


@pytest.fixture(scope="module")
def profile():
    return made(factory.costs(verify=lambda n: 9.0 + 0.3 * n))


def test_a_table_begins_with_the_plan_and_ends_with_none(profile) -> None:
    plan = solve(profile)
    first, last = plan.settings[0], plan.settings[-1]
    assert (first.drafting, first.verifier) == (plan.drafting, plan.verifier)
    assert first.step_ms == plan.predicted.step_ms.value
    assert first.tokens_per_step == pytest.approx(plan.predicted.tokens_per_step.value)
    assert not last.speculates
    assert last.tokens_per_step == 1
    assert len(plan.settings) <= MOST
    assert Plan.model_validate_json(plan.to_json()) == plan


def test_cheaper_settings_are_there_for_harder_times(profile) -> None:
    """A plan for good times alone would be all that is left beside none."""
    settings = solve(profile).settings
    assert len(settings) > 2
    assert min(each.nodes for each in settings[:-1]) < settings[0].nodes


def test_whatever_is_nearly_as_good_is_left_out(profile) -> None:
    rankings = ranked_by_verifier(profile, Question())
    candidates = ranked(rankings)
    costs = {each.verifier: each.costs for each in rankings}
    whole = setting_table(candidates, costs)
    kept = [each.drafting for each in whole]
    again = setting_table([c for c in candidates if c.drafting in kept], costs)
    assert [each.drafting for each in again] == kept
    dull = replace(candidates[0], solver="again")
    assert len(setting_table([candidates[0], dull, *candidates[1:]], costs)) == len(whole)
    assert 0 < CLOSE < 0.1
    assert np.isfinite([each.step_ms for each in whole]).all()


def test_nothing_in_it_is_slower_and_emits_less_than_the_plan() -> None:
    """Also where a step with a draft was timed quicker than one without."""
    for target_ms in (5.0, 7.5, 10.0):
        quick = made(factory.costs(verify=lambda n, ms=target_ms: ms + n / 20, draft=lambda w: 0.5))
        first, *others, _ = solve(quick).settings
        for each in others:
            assert each.step_ms < first.step_ms or each.tokens_per_step > first.tokens_per_step
