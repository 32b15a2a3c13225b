"""Chains that end early: by hand, and against a slow twin of Hugging Face's schedule."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from planner.policies import grower_of
from planner.policies.policy import FEATURES
from planner.policies.settings import ConfidentDrafting, DynamicDrafting, StoppingDrafting
from planner.policies.stopping import best_confidence
from tests.policies.driving import grown
from tests.policies.settings import HEAD


def stopping(score: str, threshold: float, max_depth: int = 9):
    settings = StoppingDrafting(
        score=score,  # type: ignore[arg-type]
        threshold=threshold,
        max_depth=max_depth,
        head=HEAD if score == "head" else None,
    )
    return grower_of(settings, deterministic=False)


def length(rule, *, values=None, max_depth: int = 99, **columns: list[float]) -> tuple[int, int]:
    """(tokens drafted, draft passes) with drawn values and features by depth of the node."""

    def features(path):
        row = np.full(len(FEATURES), np.nan)
        for name, by_depth in columns.items():
            row[FEATURES.index(name)] = by_depth[min(len(path), len(by_depth) - 1)]
        return row

    def drawn(path):
        return np.array([np.nan if values is None else values[min(len(path), len(values) - 1)]])

    tree = grown(rule, drawn, max_depth=max_depth, features=features)
    assert tree.parents == list(range(-1, len(tree.parents) - 1))
    return len(tree.revealed), len(tree.passes)


@pytest.mark.parametrize(
    ("threshold", "tokens"),
    [(0.05, 1), (0.15, 2), (0.25, 3), (0.3, 4)],
)
def test_stopping_by_confidence_by_hand(threshold, tokens):
    """Products .9, .81, .729 after one, two, three tokens: P(some token is rejected) = .1, .19,
    .271 exceeds the threshold there, and the token that was just paid for is drafted."""
    rule = stopping("confidence", threshold, max_depth=4)
    assert length(rule, max_probability=[0.9, 0.9, 0.9, 0.9]) == (tokens, tokens)


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
    rule = stopping("confidence", 0.3)
    first = length(rule, max_probability=[0.8])
    assert first == length(rule, max_probability=[0.8]) == (2, 2)


def dynamic(**settings):
    return grower_of(DynamicDrafting(max_depth=50, **settings), deterministic=False)


def test_heuristic_schedule_by_hand():
    """Five tokens; all accepted: two more; not all: one less; never below one.  The text's end
    cuts a chain, and a chain that was cut may be accepted whole."""
    rule = dynamic(num_tokens=5, schedule="heuristic", confidence=0.0)
    drafted = []
    for num_accepted, max_depth in [(5, 99), (6, 99), (0, 99), (2, 2), (0, 99), *[(0, 99)] * 9]:
        drafted.append(length(rule, values=[0.1], max_depth=max_depth)[0])
        rule.verified(list(range(1, num_accepted + 1)), 1.0)
    assert drafted == [5, 7, 6, 2, 7, 6, 5, 4, 3, 2, 1, 1, 1, 1]


def test_constant_schedule_keeps_its_length():
    rule = dynamic(num_tokens=5, confidence=0.0)
    for num_accepted in (5, 0, 3):
        assert length(rule, values=[0.1])[0] == 5
        rule.verified(list(range(1, num_accepted + 1)), 1.0)


def test_a_token_short_of_the_confidence_ends_the_chain_and_is_drafted():
    rule = dynamic(num_tokens=20, confidence=0.4)
    assert length(rule, values=[0.9, 0.4, 0.39, 0.9]) == (3, 3)
    assert length(rule, values=[0.1]) == (1, 1)
    assert length(rule, values=[0.4])[0] == 20


def confident(confidence: float, max_depth: int):
    return grower_of(
        ConfidentDrafting(max_depth=max_depth, confidence=confidence), deterministic=False
    )


def test_a_token_that_the_draft_is_not_sure_of_is_not_drafted():
    """The pass that finds .39 is spent, and so is one that finds it at the root; a chain of full
    length needs no pass to end."""
    assert length(confident(0.4, 20), max_probability=[0.9, 0.4, 0.39, 0.9]) == (2, 3)
    assert length(confident(0.4, 20), max_probability=[0.1]) == (0, 1)
    assert length(confident(0.4, 3), max_probability=[0.4]) == (3, 3)
    assert length(confident(0.0, 5), max_probability=[0.1], max_depth=2) == (2, 2)
    assert length(confident(0.4, 5), max_probability=[0.9], max_depth=0) == (0, 0)


def slow_best_confidence(probabilities: list[float], accepted: list[bool]) -> float:
    """Every threshold there is, tried one by one, the largest first."""
    best, least = 0.0, np.inf
    for threshold in [np.inf, *sorted(set(probabilities), reverse=True)]:
        passes = [probability >= threshold for probability in probabilities]
        wrong = sum(p and not a for p, a in zip(passes, accepted, strict=True))
        missed = sum(a and not p for p, a in zip(passes, accepted, strict=True))
        cost = wrong / accepted.count(False) + 3 * missed / accepted.count(True)
        if cost < least - 1e-12:
            best, least = threshold, cost
    return best


def test_best_confidence_by_hand():
    """At .6 nothing is wrong; at .9 one accepted of two is missed."""
    assert best_confidence([0.9, 0.6, 0.5, 0.1], [True, True, False, False]) == 0.6
    assert best_confidence([0.9, 0.6, 0.5, 0.1], [True, False, True, False]) == 0.5


@pytest.mark.parametrize("seed", range(20))
def test_best_confidence_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    probabilities = rng.integers(1, 8, size=30) / 8  # with ties
    accepted = rng.random(30) < probabilities
    assert set(accepted.tolist()) == {True, False}
    got = best_confidence(probabilities.tolist(), accepted.tolist())
    assert got == slow_best_confidence(probabilities.tolist(), accepted.tolist())


def test_the_adaptive_confidence_learns_from_what_was_judged():
    """Two steps of four tokens, two accepted each: the third is rejected, the fourth never judged.
    So there are six judged tokens, the accepted ones at .8 and .7, the rejected at .45: .7 tells
    them apart, and the next chain ends at its third token."""
    rule = dynamic(num_tokens=4, confidence=0.4, adaptive=True)
    for _ in range(2):
        assert length(rule, values=[0.8, 0.7, 0.45, 0.6])[0] == 4
        rule.verified([1, 2], 1.0)
    assert length(rule, values=[0.8, 0.7, 0.69, 0.9])[0] == 3
