"""The choice of a plan where trees grow: settings graded beside fixed trees, crosswise."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from planner import Plan, PlannerError
from planner.estimates.law import AcceptanceLaw
from planner.estimates.step_costs import step_costs
from planner.optimizer import solve
from planner.optimizer.choice import NO_SOLVER, Question, rank_candidates, ranked_by_verifier
from planner.optimizer.paired_comparison import compare
from planner.optimizer.problem import LEAST_TEXTS, Limits, Problem
from planner.optimizer.ranking import ranked
from planner.optimizer.solvers import SOLVERS
from planner.optimizer.solvers.dyspec import THRESHOLDS, worthwhile_sizes
from planner.optimizer.solvers.pricing import LOOKAHEADS, NODE_PRICES, priced, within
from planner.policies import GreedyDrafting, TreeDrafting
from planner.replay.replays import Played, Replays
from planner.show.thresholds import priced_thresholds

from . import factory
from .choosing import made, random_traces
from .recorded_trees import HEAD, in_profile, made_up

LAW = AcceptanceLaw.by_rank([0.5])
"""Recordings for solvers that look at recorded trees alone."""
GROWN = ("dyspec", "specdecpp", "assisted", "price")


@pytest.fixture(scope="module")
def growing():
    """Traces and recorded trees of a draft that is right about itself."""
    replays = made_up(0, lengths=(70, 50, 60, 64), num_expanded=14)
    costs = factory.costs(verify=lambda n: 10 + n / 2, draft=lambda width: 0.5 + width / 32,
                          counts=range(1, 17))  # fmt: skip
    return in_profile(made(costs, entries=[random_traces(0, "rrsw")]), replays)


@pytest.fixture(scope="module")
def held(growing):
    """Its candidates, by verifier."""
    return ranked_by_verifier(growing)


@pytest.fixture(scope="module")
def ranking(held):
    """Those of its only verifier."""
    (found,) = held
    return found


def test_every_growing_solver_is_graded_beside_the_trees(growing):
    candidates = rank_candidates(growing)
    assert {c.solver for c in candidates} == {
        NO_SOLVER,
        *(name for name, each in SOLVERS.items() if each.by_default),
    }
    assert {c.solver for c in candidates if c.grows} == set(GROWN)
    rates = [candidate.tokens_per_ms for candidate in candidates]
    assert rates == sorted(rates, reverse=True)
    for c in candidates:
        if c.grows:
            assert c.predicted.steps.mean_nodes <= c.drafting.most_nodes
            assert sum(c.predicted.steps.nodes) == pytest.approx(1, abs=1e-3)
            assert c.predicted.reach is None


@pytest.mark.parametrize("solver", ["grown", *GROWN])
def test_a_growing_solver_can_be_asked_for(growing, solver):
    plan = solve(growing, solver=solver)
    assert not plan.speculates or plan.grows
    assert Plan.model_validate(plan.model_dump()) == plan
    for candidate in rank_candidates(growing, Question(solver=solver)):
        assert candidate.grows or not candidate.speculates


def test_fixed_trees_can_be_asked_for(growing):
    candidates = rank_candidates(growing, Question(solver="fixed"))
    assert not any(candidate.grows for candidate in candidates)
    assert solve(growing, solver="fixed").tree.num_nodes >= 1


def problem_of(ranking, **changes):
    problem = Problem(LAW, ranking.costs, ranking.limits, ranking.replays, 0.1, 4)
    return replace(problem, **changes)


def test_growing_trees_are_graded_crosswise_and_by_their_control(ranking):
    """tokens(control by traces) x speed(grown) / tokens played(control), the grown settings of
    either half of the texts being those that the other half proposes.  The step is the plan's own,
    on all texts, and tokens per step are that speed at that step."""
    fixed = [c for c in ranking.candidates if c.speculates and not c.grows]
    control = max(fixed, key=lambda c: c.tokens_per_ms)
    best = max((c for c in ranking.candidates if not c.grows), key=lambda c: c.tokens_per_ms)
    replays = ranking.replays
    for name in GROWN:
        solver = SOLVERS[name]
        halves = [
            solver.propose(
                problem_of(ranking, replays=replays.half(which), price_per_ms=best.tokens_per_ms)
            )
            for which in (0, 1)
        ]
        for key in halves[0]:
            tallies = [replays.half(which).play(halves[1 - which][key]) for which in (0, 1)]
            tokens = sum(each.tokens.sum() for each in tallies)
            ms = sum(Played(each, ranking.costs).step.ms * each.rounds.sum() for each in tallies)
            beside = replays.play(control.drafting)
            ratio = tokens / ms / (beside.tokens.sum() / beside.rounds.sum())
            speed = control.tokens_per_step.value * ratio
            (found,) = (
                c for c in ranking.candidates
                if c.solver == name and c.tokens_per_ms == pytest.approx(speed, rel=1e-12)
            )  # fmt: skip
            own = Played(replays.play(found.drafting), ranking.costs).step.ms
            assert found.step_ms.value == pytest.approx(own, rel=1e-12)
            alone = found.autoregressive_ms.value
            assert found.speedup.value == pytest.approx(speed * alone, rel=1e-12)


def test_a_planned_threshold_is_the_best_of_its_grid_and_no_level_is_its_last(ranking):
    problem = problem_of(ranking)
    planned = SOLVERS["dyspec"].propose(problem)["threshold"]
    assert planned.max_depth == ranking.limits.max_depth

    def rate(threshold):
        played = ranking.replays.play(planned.model_copy(update={"threshold": threshold}))
        return Played(played, ranking.costs).tokens_per_ms

    assert rate(planned.threshold) >= max(map(rate, THRESHOLDS)) > min(map(rate, THRESHOLDS))


def test_budgets_are_also_those_that_stairs_of_time_go_down_to():
    times = 10.0 + np.arange(1, 41)  # of 1 node and more; 14 nodes are cheaper than 11
    times[13] = times[10]
    assert worthwhile_sizes(times) == [2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 40]
    assert worthwhile_sizes(np.ones(7)) == [2, 3, 4, 5, 6, 7]


def test_a_cheap_budget_between_the_usual_ones_is_found(growing, ranking):
    costs = factory.costs(
        verify=lambda n: 8 if n == 14 else 10 + n, draft=lambda width: 0.2, counts=range(1, 17)
    )
    steep = step_costs(growing.model_copy(update={"costs": [costs]}), verifier="rrsw").growing()
    problem = problem_of(ranking, costs=steep)
    planned = SOLVERS["dyspec"].propose(problem)["greedy"]
    assert planned.num_nodes == 14


@pytest.mark.parametrize("node_ms", [0.01, 1.0, 8.0])
def test_no_threshold_pays_much_more_than_the_planned_one(growing, ranking, node_ms):
    """Where verifying is dear, the best ones are near to one."""
    costs = factory.costs(
        verify=lambda n: 10 + node_ms * (n - 1), draft=lambda width: 0.5, counts=range(1, 17)
    )
    profile = growing.model_copy(update={"costs": [costs]})
    steep = step_costs(profile, verifier="rrsw").growing()
    problem = problem_of(ranking, costs=steep)
    planned = SOLVERS["dyspec"].propose(problem)["threshold"]
    any_value = [round(0.01 * place, 2) for place in range(1, 100)]
    rates = {
        each: problem.rate(planned.model_copy(update={"threshold": each})) for each in any_value
    }
    assert problem.rate(planned) >= 0.98 * max(rates.values())
    assert node_ms < 8 or max(rates, key=rates.get) > 0.8


def test_a_price_is_the_best_of_its_grid_at_a_price_that_it_reaches(ranking):
    """No other node price and lookahead are faster at the same price; and that price is the rate
    of the fastest known, or of an earlier round."""
    problem = problem_of(ranking)
    planned = SOLVERS["price"].propose(problem)["price"]
    rates = [
        problem.rate(priced(planned, planned.price_per_ms, *point))
        for point in product(NODE_PRICES, LOOKAHEADS)
    ]
    assert problem.rate(planned) >= max(rates) > min(rates)
    assert 0.1 <= planned.price_per_ms <= max(problem.rate(planned), 0.1) * (1 + 1e-9)


def test_a_price_stops_in_front_of_a_stair(growing, ranking):
    """Three nodes are verified in no time, a fourth takes as long as all else: every fixed tree of
    three nodes is at most as fast, and so is every setting that may become larger."""
    stair = factory.costs(
        verify=lambda n: 10 if n <= 3 else 40, draft=lambda width: 0.2, counts=range(1, 17)
    )
    steep = step_costs(growing.model_copy(update={"costs": [stair]}), verifier="rrsw").growing()
    problem = problem_of(ranking, costs=steep)
    planned = SOLVERS["price"].propose(problem)["price"]
    assert planned.num_nodes == 3
    for parents in ([-1, 0, 1], [-1, 0, 0]):
        fixed = Played(ranking.replays.play(TreeDrafting(parents=parents)), steep)
        assert problem.rate(planned) > fixed.tokens_per_ms
    larger = [
        priced(within(planned, 16, planned.max_children), planned.price_per_ms, *point)
        for point in product(NODE_PRICES, LOOKAHEADS)
    ]
    assert problem.rate(planned) > 1.02 * problem.rates(larger).max()


def test_a_price_may_grow_chains(ranking):
    """With one child a node and the lowest prices they are fixed chains (of one token here, as the
    records end below many a child); and what is planned is as fast as any of them."""
    problem = problem_of(ranking)
    planned = SOLVERS["price"].propose(problem)["price"]
    chains = [priced(within(planned, size, 1), 1e-9, 0.0, 4.0) for size in (2, 3, 5)]
    assert (problem.rates(chains) <= problem.rate(planned)).all()
    assert type(planned).model_validate(chains[0].model_dump()) == chains[0]
    played, fixed = map(ranking.replays.play, (chains[0], TreeDrafting(parents=[-1, 0])))
    assert played.tokens.tolist() == fixed.tokens.tolist()
    assert played.rounds.tolist() == fixed.rounds.tolist()


def greedy_grid():
    return [
        GreedyDrafting(num_nodes=size, max_depth=depth, max_children=4)
        for size in range(2, 15)
        for depth in range(1, size)
    ]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(each, marks=pytest.mark.soak) for each in (1, 2))]
)
def test_the_fastest_of_many_is_found_without_playing_all_to_the_end(seed):
    """On few texts all are played; on more of them what is found is nearly the best of all."""
    costs = step_costs(made(factory.costs(verify=lambda n: 10 + n / 2, counts=range(1, 17))))
    grid = greedy_grid()
    few, many = (
        Problem(LAW, costs, Limits(16, 8), made_up(seed, lengths=(30,) * count), 0.1, 4)
        for count in (LEAST_TEXTS - 1, 32)
    )
    rates = [few.rate(each) for each in grid]
    assert few.rates(grid).tolist() == rates
    assert (
        few.fastest_of_many(grid) == few.fastest(grid) == (grid[int(np.argmax(rates))], max(rates))
    )
    played = []

    class Counting(Replays):
        def play(self, drafting):
            played.append(self.num_texts)
            return super().play(drafting)

    counted = replace(many, replays=Counting(**vars(many.replays)))
    found, rate = counted.fastest_of_many(grid)
    assert played.count(4) == 91 + 46  # all of the grid, then the better half on four texts more
    assert (played.count(8), played.count(16), played.count(32)) == (23, 12, 0)
    assert rate == many.rate(found)
    assert many.fastest_of_many(grid[:8]) == many.fastest(grid[:8])  # none is left out of so few
    rates = np.sort([many.rate(each) for each in grid])
    assert rates[-1] * 0.99 < rate
    assert rate >= rates[-3]


def test_never_drafting_is_no_setting_of_a_policy_that_drafts():
    replays = made_up(0, lengths=(30, 30))
    dear = step_costs(made(factory.costs(verify=lambda n: 10.0, draft=lambda w: 50.0)))
    problem = Problem(LAW, dear, Limits(max_nodes=8, max_depth=4), replays, 10.0, 4)
    settings = SOLVERS["price"].propose(problem)
    assert settings == {}


def test_a_heads_chains_pay_for_its_word():
    """The head's candidate costs its own passes and deciding, the other one those of chains."""
    replays = made_up(0, lengths=(70, 50, 60, 64), num_expanded=14, scores=True)
    costs = factory.costs(verify=lambda n: 10, draft=lambda w: 0.5, counts=range(1, 17))
    passes, deciding = {"head": 0.9, "other": 0.7}, {"head": 0.3, "other": 0.2}
    chains, scored = (
        factory.growing_times(passes[who], lambda w, who=who: passes[who],
                              lambda n, who=who: 0.1 + deciding[who])
        for who in ("other", "head")
    )  # fmt: skip
    costs = costs.model_copy(update={"chains": chains, "scored": {HEAD.sha256: scored}})
    profile = in_profile(made(costs, entries=[random_traces(0, "rrsw")]), replays)
    found = {
        candidate.drafting.score: candidate
        for candidate in rank_candidates(profile, Question(solver="specdecpp"))
        if candidate.speculates
    }
    assert len(found) == 2
    assert found["head"].drafting.head == HEAD
    for score, candidate in found.items():
        steps = candidate.predicted.steps
        drafted = sum(steps.nodes[2:])  # by the share of steps that draft, as does the overhead
        who = "head" if score == "head" else "other"
        expected = 10 + steps.draft_passes * passes[who] + (0.1 + deciding[who]) * drafted
        assert candidate.step_ms.value == pytest.approx(expected, rel=1e-3)
    assert solve(profile, solver="specdecpp").drafting in [c.drafting for c in found.values()]


def test_fixed_trees_of_more_children_than_were_recorded_do_not_stop_growing_ones():
    """They are no control, and compared with growing ones text by text they cannot be."""
    narrow = made_up(0, lengths=(70, 50, 60, 64), num_expanded=14, num_children=2)
    flat = np.full((60, 6), 0.15)
    wide = factory.traced([flat + 0.005 * i for i in range(3)])
    costs = factory.costs(verify=lambda n: 10 + n / 50, counts=range(1, 17))
    profile = in_profile(factory.profile([wide], [costs]), narrow)
    held = ranked_by_verifier(profile)
    candidates = ranked(held)
    assert candidates[0].drafting.most_children > 2
    grown = next(c for c in candidates if c.grows)
    ratio = compare(candidates[0], grown, held).speed
    assert ratio.low < ratio.value < ratio.high


def test_it_is_told_what_is_being_weighed(growing):
    said = []
    solve(growing, doing=said.append)
    growers = [f"growing trees, rrsw, {solver}" for solver in GROWN]
    assert said == ["fixed trees, rrsw", *(3 * growers)]  # from all texts, and from either half


@pytest.mark.parametrize("max_nodes", [1, 2, 5])
@pytest.mark.parametrize("max_depth", [0, 1, 3])
def test_growing_trees_stay_within_the_limits(growing, max_nodes, max_depth):
    for c in rank_candidates(
        growing, Question(solver="grown", max_nodes=max_nodes, max_depth=max_depth)
    ):
        if c.grows:
            assert c.played.tally.sizes[:, max_nodes + 1 :].sum() == 0
            assert c.played.tally.depths[:, max_depth + 1 :].sum() == 0


def test_the_same_trees_give_the_same_growing_plan(growing):
    plans = [solve(growing, solver="price").model_dump(exclude={"made_from"}) for _ in range(2)]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"solver": "luck"}, "expected auto or one of fixed, grown, "),
        ({"solver": "price", "max_nodes": 0}, "max_nodes: got 0"),
        ({"solver": "price", "max_nodes": 99}, "up to 16 nodes"),
    ],
)
def test_what_cannot_be_grown_is_said_in_one_line(growing, change, words):
    with pytest.raises(PlannerError, match=words) as caught:
        solve(growing, **change)
    assert "\n" not in str(caught.value)


def test_a_profile_without_recorded_trees_says_so():
    bare = made(entries=[random_traces(0, "rrsw"), random_traces(1, "kseq")])
    with pytest.raises(PlannerError, match="holds no recorded trees"):
        solve(bare, solver="dyspec")
    with pytest.raises(PlannerError, match="'kseq', which cannot serve trees that grow"):
        solve(bare, solver="dyspec", verifier="kseq")
    with pytest.raises(PlannerError, match="profile again with --num-replayed of 2 or more"):
        solve(bare, solver="grown", verifier="rrsw")
    assert not solve(bare).grows


@pytest.mark.parametrize("verifier", ["rrs", "naive", "topk"])
@pytest.mark.parametrize("has_trees", [True, False])
def test_what_no_profile_records_is_not_advised(verifier, has_trees):
    """Profiling again would record trees of rrsw and traversal alone."""
    profile = made(entries=[random_traces(0, verifier), random_traces(1, "rrsw")])
    if has_trees:
        profile = in_profile(profile, made_up(0, lengths=(70, 50)))
    words = "choose verifier chain or rrsw or traversal, or another"
    with pytest.raises(PlannerError, match=words) as caught:
        solve(profile, solver="grown", verifier=verifier)
    assert "profile again" not in str(caught.value)
    assert not solve(profile, verifier=verifier).grows


def test_growing_trees_are_compared_on_the_same_texts(held):
    candidates = ranked(held)
    grown = next(c for c in candidates if c.solver == "price")
    fixed = next(c for c in candidates if c.solver == "sequoia")
    there, back = compare(grown, fixed, held), compare(fixed, grown, held)
    assert there.speed.value == pytest.approx(grown.tokens_per_ms / fixed.tokens_per_ms)
    assert there.speed.value == pytest.approx(1 / back.speed.value)
    for ratio in (there.tokens_per_step, there.step_ms, there.speed):
        assert ratio.low <= ratio.value <= ratio.high
    itself = compare(grown, grown, held)
    assert itself.speed.model_dump() == pytest.approx({"value": 1, "low": 1, "high": 1})


def test_thresholds_of_the_papers_at_the_plans_price(growing):
    """t' = 1/2 ms a node and .1 ms overhead: C = price / 2."""
    plan = solve(growing, solver="sequoia")
    priced = priced_thresholds(growing, plan)
    assert priced.dyspec == pytest.approx(priced.price_per_ms * 0.5, abs=1e-4)
    assert 0 < priced.specdecpp < 1
    assert priced_thresholds(made(entries=[random_traces(0, "rrsw")]), plan) is None
