"""The choice of a plan where trees grow: odd times, which a profile or given costs may hold."""

import pytest

from planner.estimates.step_costs import step_costs
from planner.optimizer import solve
from planner.optimizer.choice import Question, rank_candidates
from planner.optimizer.grading import grade_grown
from planner.policies import StoppingDrafting
from planner.replay.replays import Played
from planner.show.thresholds import priced_thresholds

from . import factory
from .choosing import made, random_traces
from .recorded_trees import in_profile, made_up

TEXTS = (70, 50, 60, 64)


def growing(costs):
    """Traces and recorded trees of a draft that is right about itself."""
    replays = made_up(0, lengths=TEXTS, num_expanded=14)
    return in_profile(made(costs, entries=[random_traces(0, "rrsw")]), replays)


@pytest.mark.parametrize("solver", ["price", "specdecpp", "sequoia"])
@pytest.mark.parametrize("factor", [1e-6, 1e4])
def test_the_unit_of_time_does_not_matter(solver, factor):
    """Times of nanoseconds are kept as well as those of seconds."""
    here, there = (
        solve(
            growing(
                factory.costs(
                    verify=lambda n, ms=ms: ms * (10 + n / 2),
                    draft=lambda width, ms=ms: ms * (0.5 + width / 32),
                    overhead=lambda n, ms=ms: ms / 10,
                    step=ms * 10,
                    counts=range(1, 17),
                )
            ),
            solver=solver,
        )
        for ms in (1.0, factor)
    )
    assert there.drafting.most_nodes == here.drafting.most_nodes > 1
    assert there.predicted.speedup.value == pytest.approx(here.predicted.speedup.value)


def test_trees_that_grow_below_what_was_timed_do_not_stop_other_plans():
    """Costs may begin anywhere: here with three nodes, or with two of a level."""
    widths = factory.curve(range(1, 17), lambda width: 0.5)
    costs = factory.costs(verify=lambda n: 10 + n / 2, draft=lambda width: 0.5, counts=range(3, 17))
    candidates = rank_candidates(growing(costs.model_copy(update={"draft": widths})), Question())
    assert {c.solver for c in candidates if c.speculates} >= {"sequoia", "dyspec"}
    for c in candidates:
        if c.grows:
            assert sum(c.predicted.steps.nodes[2:3]) == 0  # nobody knows what those take
    wide = factory.curve(range(2, 17), lambda width: 0.5)
    candidates = rank_candidates(growing(costs.model_copy(update={"draft": wide})))
    assert {c.drafting.most_nodes > 2 for c in candidates if c.speculates} == {True}


def test_a_step_emits_a_token_however_slow_other_settings_were():
    """Speed is that of settings from other texts, whose steps may be much longer."""
    replays = made_up(0, lengths=(30, 30), skill=0.0)
    costs = step_costs(made(factory.costs(draft=lambda width: 50.0)))
    short, long = (
        StoppingDrafting(score="probability", threshold=0.99, max_depth=most) for most in (1, 8)
    )
    played = Played.of(long, replays, costs)
    graded = grade_grown(short, played, replays, control=None)
    assert played.tokens_per_ms * graded.step_ms.value < 0.5
    assert graded.tokens_per_step.model_dump() == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert graded.speedup.value == pytest.approx(10 / graded.step_ms.value)


@pytest.mark.parametrize("sizes", [[1], [4, 8]])
def test_where_no_tree_has_a_time_no_threshold_pays(sizes):
    """One node alone was timed, or no size both to verify and to walk."""
    costs = factory.costs(counts=(1, 2))
    profile = growing(costs.model_copy(update={"verify": factory.curve(sizes, lambda n: 10.0)}))
    plan = solve(profile)
    assert not plan.speculates
    assert priced_thresholds(profile, plan) is None
