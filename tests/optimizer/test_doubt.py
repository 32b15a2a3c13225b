"""The fastest plan may be slower than not to speculate: gains against losses."""

from dataclasses import replace
from math import log, sqrt

import numpy as np
import pytest
from scipy.stats import norm

from planner.documents.estimate import Estimate
from planner.documents.surroundings import Surroundings
from planner.optimizer import solve
from planner.optimizer.choice import rank_candidates
from planner.optimizer.ranking import LOSS, prospect, settled
from planner.policies import TreeDrafting
from planner.show.document_text import render
from planner.show.widest_doubt import widest_doubt

from . import factory
from .choosing import made
from .test_other_costs import ENGINE


def with_speedup(drafting, value, low, high):
    """A candidate of that speedup."""
    speedup = Estimate(value=value, low=low, high=high)
    lone = rank_candidates(made())[0]
    return replace(lone, drafting=drafting, speedup=speedup)


def test_where_the_fastest_may_be_slower_a_surer_one_is_taken():
    none = with_speedup(TreeDrafting(parents=[-1]), 1.0, 1.0, 1.0)
    sure = with_speedup(TreeDrafting(parents=[-1, 0]), 1.04, 1.02, 1.06)
    doubtful = with_speedup(TreeDrafting(parents=[-1, 0, 0]), 1.05, 0.8, 1.38)
    likely = with_speedup(TreeDrafting(parents=[-1, 0, 1]), 1.2, 0.97, 1.45)
    for candidates, first in [
        ([none], none),
        ([none, sure], none),
        ([sure, none], sure),
        ([doubtful, none], none),
        ([doubtful, sure, none], sure),
        ([likely, doubtful, sure, none], likely),
        ([sure, doubtful, none], sure),
    ]:
        found = settled(candidates)
        assert found[0] is first
        assert found[1:] == [each for each in candidates if each is not first]


@pytest.mark.parametrize(("low", "high"), [(0.8, 1.3), (0.5, 1.1), (1.01, 1.4)])
def test_a_prospect_weighs_losses(low, high):
    """Against the mean over normal quantiles, whose step is 1 / N: good to about sigma / N."""
    number, value = 200_000, sqrt(low * high)
    shares = (np.arange(number) + 0.5) / number
    log_speed = log(value) + log(high / low) / 3.92 * norm.ppf(shares)
    weighed = np.where(log_speed < 0, LOSS * log_speed, log_speed).mean()
    speedup = Estimate(value=value, low=low, high=high)
    assert prospect(speedup) == pytest.approx(weighed, abs=1e-5)


def test_a_plan_in_doubt_is_not_to_speculate_and_says_why():
    """Trees that seem 10 % faster, of which other programs may have changed the times by half."""
    costs = factory.costs(step=4.8)
    quiet = made(costs)
    loud = Surroundings(piece="sweep-0", seconds=1.0, others=float(quiet.machine.num_threads))
    busy = quiet.model_copy(update={"surroundings": [loud]})
    known, doubted = solve(quiet), solve(busy)
    assert known.speculates
    assert 1 < known.predicted.speedup.value < 1.2
    assert not doubted.speculates
    fastest = max(doubted.made_from.alternatives, key=lambda each: each.speedup.value)
    assert fastest.speedup.value == pytest.approx(known.predicted.speedup.value)
    assert fastest.speedup.high / fastest.speedup.value == pytest.approx(
        np.exp(1.96 * 0.5), rel=0.1
    )
    text = " ".join(render(doubted).split())
    assert "Not speculating is chosen." in text
    assert "more may be lost than a third of what may be won" in text
    assert "Not speculating is chosen." not in render(known)


ALIKE, UNLIKE = [[0.7, 0.1]] * 4, [[0.95, 0.04], [0.5, 0.1], [0.9, 0.05], [0.6, 0.1]]
THREADS = "several threads differ most from one sitting to the next"


@pytest.mark.parametrize(
    ("vectors", "changes", "num_threads", "others", "said"),
    [
        (UNLIKE, {}, 1, 0.0, "texts differ most; profile again with more prompts"),
        (ALIKE, {"spread": 0.5}, 1, 0.0, "repetitions of the times differ most"),
        (ALIKE, {}, 1, 0.5, "other programs ran beside the profile"),
        (ALIKE, {}, 1, 0.0, "one sitting differs most from the next"),
        (ALIKE, {}, 2, 0.0, THREADS),
        (ALIKE, {"spread": 0.2}, 2, 0.05, THREADS),
    ],
)
def test_the_largest_part_of_the_doubt_is_named(vectors, changes, num_threads, others, said):
    profile = factory.profile([factory.positional(vectors)], [factory.costs(**changes)])
    beside = Surroundings(piece="sweep-0", seconds=1.0, others=others)
    machine = profile.machine.model_copy(update={"num_threads": num_threads})
    profile = profile.model_copy(update={"surroundings": [beside], "machine": machine})
    plan = solve(profile, solver="chain", max_nodes=4)
    words = widest_doubt(profile, plan)
    assert words.startswith(said)
    if said is THREADS:
        assert "--threads 1" in words
        assert words.endswith("planner decode --follow notices")


def test_threads_are_named_where_they_take_the_steps():
    profile = factory.profile([factory.positional(ALIKE)], [factory.costs()])
    machine = profile.machine.model_copy(update={"num_threads": 16, "device": "cuda"})
    profile = profile.model_copy(update={"machine": machine})
    plan = solve(profile, solver="chain", max_nodes=4)
    assert widest_doubt(profile, plan).startswith("one sitting differs most")


def test_of_an_engine_a_trial_is_a_check():
    costs = factory.costs().model_copy(update={"start_error": 0.2})
    profile = factory.profile([factory.positional(ALIKE, verifier="topk")], [costs])
    profile = profile.model_copy(update={"engine": ENGINE})
    plan = solve(profile, solver="chain", max_nodes=4)
    assert widest_doubt(profile, plan) == (
        "one start of the engine differs most from the next; planner check tries it"
    )
    assert widest_doubt(profile, plan.model_copy(update={"predicted": None})) == ""
