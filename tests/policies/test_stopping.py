"""Chains that end early: by hand, and against a slow twin of Hugging Face's schedule."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from planner import Plan, PlannerError
from planner.policies import ConfidentDrafting, DynamicDrafting, StoppingDrafting
from planner.policies.policy import FEATURES
from tests.policies.driving import grown
from tests.policies.settings import HEAD


def stopping(score: str, threshold: float, max_depth: int = 9):
    settings = StoppingDrafting(
        score=score,  # type: ignore[arg-type]
        threshold=threshold,
        max_depth=max_depth,
        head=HEAD if score == "head" else None,
    )
    return settings.policy(deterministic=False)


def length(policy, *, values=None, max_depth: int = 99, **columns: list[float]) -> tuple[int, int]:
    """(tokens drafted, draft passes) with drawn values and features by depth of the node."""

    def features(path):
        row = np.full(len(FEATURES), np.nan)
        for name, by_depth in columns.items():
            row[FEATURES.index(name)] = by_depth[min(len(path), len(by_depth) - 1)]
        return row

    def drawn(path):
        return np.array([np.nan if values is None else values[min(len(path), len(values) - 1)]])

    tree = grown(policy, drawn, max_depth=max_depth, features=features)
    assert tree.parents == list(range(-1, len(tree.parents) - 1))
    return len(tree.revealed), len(tree.passes)


@pytest.mark.parametrize(("threshold", "tokens"), [(0.05, 1), (0.15, 2), (0.25, 3), (0.3, 4)])
def test_stopping_by_confidence_by_hand(threshold, tokens):
    """Products .9, .81, .729 after one, two, three tokens: P(some token is rejected) = .1, .19,
    .271 exceeds the threshold there, and the token that was just paid for is drafted."""
    policy = stopping("confidence", threshold, max_depth=4)
    assert length(policy, max_probability=[0.9, 0.9, 0.9, 0.9]) == (tokens, tokens)


def test_stopping_by_entropy_and_by_probability_by_hand():
    """exp(-log 2) = .5 a token; and the drawn tokens' own probabilities."""
    assert length(stopping("entropy", 0.7), entropy=[log(2)]) == (2, 2)
    assert length(stopping("probability", 0.7), values=[0.5]) == (2, 2)
    assert length(stopping("probability", 0.7), values=[0.9, 0.8, 0.3, 0.9]) == (3, 3)


def test_the_head_judges_the_token_that_was_read():
    """Its word on the root counts for nothing; the words on nodes 1 and 2 are .9 and .5, so that
    the third pass is the last one.  What it drew is drafted with it."""
    assert length(stopping("head", 0.4), score=[0.0, 0.9, 0.5, 0.9]) == (3, 3)
    assert length(stopping("head", 0.05), score=[0.0, 0.9, 0.5, 0.9]) == (2, 2)
    assert length(stopping("head", 0.56), score=[0.0, 0.9, 0.5, 0.9]) == (4, 4)


@pytest.mark.parametrize("max_depth", [0, 1, 3])
def test_chains_end_at_the_text_s_end(max_depth):
    assert length(stopping("confidence", 0.9), max_depth=max_depth, max_probability=[1.0]) == (
        max_depth,
        max_depth,
    )


def test_a_step_starts_with_nothing_rejected():
    policy = stopping("confidence", 0.3)
    first = length(policy, max_probability=[0.8])
    assert first == length(policy, max_probability=[0.8]) == (2, 2)


def dynamic(**settings):
    return DynamicDrafting(max_depth=50, **settings).policy(deterministic=False)


def test_heuristic_schedule_by_hand():
    """Five tokens; all accepted: two more; not all: one less; never below one.  The text's end
    cuts a chain, and a chain that was cut may be accepted whole."""
    policy = dynamic(num_tokens=5, schedule="heuristic", confidence=0.0)
    drafted = []
    for num_accepted, max_depth in [(5, 99), (6, 99), (0, 99), (2, 2), (0, 99), *[(0, 99)] * 9]:
        drafted.append(length(policy, values=[0.1], max_depth=max_depth)[0])
        policy.verified(list(range(1, num_accepted + 1)), 1.0)
    assert drafted == [5, 7, 6, 2, 7, 6, 5, 4, 3, 2, 1, 1, 1, 1]


def test_constant_schedule_keeps_its_length():
    policy = dynamic(num_tokens=5, confidence=0.0)
    for num_accepted in (5, 0, 3):
        assert length(policy, values=[0.1])[0] == 5
        policy.verified(list(range(1, num_accepted + 1)), 1.0)


def test_a_token_short_of_the_confidence_ends_the_chain_and_is_drafted():
    policy = dynamic(num_tokens=20, confidence=0.4)
    assert length(policy, values=[0.9, 0.4, 0.39, 0.9]) == (3, 3)
    assert length(policy, values=[0.1]) == (1, 1)
    assert length(policy, values=[0.4])[0] == 20


def confident(confidence: float, max_depth: int):
    settings = ConfidentDrafting(max_depth=max_depth, confidence=confidence)
    return settings.policy(deterministic=False)


def test_a_token_that_the_draft_is_not_sure_of_is_not_drafted():
    """The pass that finds .39 is spent, and so is one that finds it at the root; a chain of full
    length needs no pass to end."""
    assert length(confident(0.4, 20), max_probability=[0.9, 0.4, 0.39, 0.9]) == (2, 3)
    assert length(confident(0.4, 20), max_probability=[0.1]) == (0, 1)
    assert length(confident(0.4, 3), max_probability=[0.4]) == (3, 3)
    assert length(confident(0.0, 5), max_probability=[0.1], max_depth=2) == (2, 2)
    assert length(confident(0.4, 5), max_probability=[0.9], max_depth=0) == (0, 0)


def plan_of(**more) -> Plan:
    drafting = {"kind": "dynamic", "max_depth": 5, **more}
    sampling = {"temperature": 1.0}
    content = {"format": "plan", "version": 1, "verifier": "chain"}
    return Plan.parse(content | {"drafting": drafting, "sampling": sampling}, "plan.json")


def test_a_plan_that_says_that_its_confidence_stays_is_still_read():
    """Plans of earlier versions do so."""
    assert plan_of(adaptive=False) == plan_of()
    assert "adaptive" not in plan_of(adaptive=False).to_json()


@pytest.mark.parametrize("got", [True, 0, "no"])
def test_a_confidence_that_would_be_set_anew_is_refused_in_one_line(got):
    with pytest.raises(PlannerError) as error:
        plan_of(adaptive=got)
    line = str(error.value)
    assert line.startswith("plan.json: drafting: expected adaptive to be false, since ")
    assert f"not {got!r}; remove the key" in line
    assert "\n" not in line
