"""Plans from elsewhere are graded as solve grades its own."""

from __future__ import annotations

import pytest

from planner import Plan, PlannerError
from planner.documents.sampling import Sampling
from planner.optimizer import solve
from planner.optimizer.choice import Question, rank_candidates
from planner.optimizer.given import graded_beside
from planner.policies import ConfidentDrafting, DynamicDrafting, TreeDrafting
from tests.export.made_up import profile_at

WARM = Sampling(temperature=0.6)
FIXED = Question(solver="fixed")


@pytest.fixture(scope="module")
def profile():
    return profile_at(0.6)


def chain(length: int, verifier: str = "topk", **others) -> Plan:
    settings = {"sampling": WARM} | others
    drafting = TreeDrafting(parents=[-1, *range(length)])
    return Plan(drafting=drafting, verifier=verifier, **settings)


def test_a_plan_of_this_profile_is_worth_what_it_promises(profile):
    """Fixed or growing, and it is the choice."""
    for group in ("fixed", "grown"):
        plan = solve(profile, solver=group)
        first, *rest = graded_beside({"mine": plan}, profile, Question(solver=group))
        assert (first.name, first.is_chosen, first.against_best) == ("mine", True, None)
        promised = plan.predicted.model_copy(update={"optimality_gap": None})
        assert first.candidate.predicted == promised
        assert [each.candidate.speculates for each in rest] == [False]


def test_any_fixed_tree_is_graded_by_the_traces(profile):
    """One that no solver proposed too: its step is the sum of the measured times."""
    standings = graded_beside({"long": chain(7), "short": chain(2)}, profile, FIXED)
    by_name = {each.name: each for each in standings}
    best = standings[0]
    assert best.is_chosen
    for name, length in (("long", 7), ("short", 2)):
        one = by_name[name]
        # made_up: a pass over n nodes takes 10 + n / 4, a draft pass of width 1 .4 + 1 / 64
        verify = 10 + (length + 1) / 4
        assert one.candidate.step_ms.value > verify + (length - 1) * (0.4 + 1 / 64)
        ratio = one.candidate.tokens_per_ms / best.candidate.tokens_per_ms
        assert one.against_best.speed.value == pytest.approx(ratio, rel=1e-9)
        assert ratio <= 1


def test_the_same_drafting_is_the_same_candidate(profile):
    """Whoever proposed it."""
    best = rank_candidates(profile, Question(solver="chain", verifier="topk"))[0]
    given = Plan(drafting=best.drafting, verifier="topk", sampling=WARM)
    question = Question(solver="chain", verifier="topk")
    first = graded_beside({"mine": given}, profile, question)[0]
    assert first.candidate.predicted == best.predicted


def test_chains_that_grow_are_played_on_recorded_trees(profile):
    """Also where only fixed trees are asked for to compare with."""
    drafting = DynamicDrafting(max_depth=3, num_tokens=3, confidence=0.3)
    plan = Plan(drafting=drafting, verifier="chain", sampling=WARM)
    (one,) = [each for each in graded_beside({"hf": plan}, profile, FIXED) if each.name]
    assert one.candidate.played is not None
    assert 1 < one.candidate.num_nodes <= 4
    assert one.against_best.speed.low < one.against_best.speed.high


def test_not_to_speculate_is_worth_exactly_one(profile):
    plan = chain(0, "rrsw")
    standings = graded_beside({"off": plan}, profile, FIXED)
    (one,) = [each for each in standings if not each.candidate.speculates]
    assert one.name == "off"
    assert one.candidate.speedup.value == 1


def test_at_temperature_zero_all_verifiers_are_one():
    profile, greedy = profile_at(0.0), Sampling(temperature=0)
    plans = {name: chain(2, name, sampling=greedy) for name in ("chain", "topk", "spechub")}
    standings = graded_beside(plans, profile, FIXED)
    named = [each.candidate for each in standings if each.name]
    assert len({each.speedup.value for each in named}) == 1


def refused(plans, profile) -> str:
    with pytest.raises(PlannerError) as caught:
        graded_beside(plans, profile, FIXED)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_was_not_measured_is_one_line(profile):
    cold = chain(2, sampling=Sampling(temperature=0.3))
    assert "cold: sampling: got T=0.3, but the profile measured only T=0.6" in refused(
        {"cold": cold}, profile
    )
    assert "cold: sampling: got T=0.3, but a is for T=0.6" in refused(
        {"a": chain(2), "cold": cold}, profile
    )
    both = {"a": chain(2), "b": chain(2, "spechub")}
    there = "at T=0.6 the profile measured only chain, rrsw, topk"
    assert f"b: verifier: got 'spechub', but {there}" in refused(both, profile)
    assert "long: tree size" in refused({"long": chain(40)}, profile)
    confident = ConfidentDrafting(max_depth=4, confidence=0.2)
    grown = Plan(drafting=confident, verifier="topk", sampling=WARM)
    assert "holds no trees recorded for 'topk'" in refused({"a": grown}, profile)
    wide = Plan(drafting=TreeDrafting(parents=[-1, *[0] * 12]), verifier="topk", sampling=WARM)
    assert "12 children" in refused({"wide": wide}, profile)
