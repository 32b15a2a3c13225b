"""The choice of a plan: the best of all that is possible, and honest about it."""

import numpy as np
import pytest

from planner import Plan, PlannerError, Tree
from planner.documents.version import WRITTEN_BY
from planner.estimates.evidence import recorded
from planner.estimates.law import AcceptanceLaw
from planner.estimates.step_costs import step_costs
from planner.optimizer import expected_tokens, solve
from planner.optimizer.choice import NO_SOLVER, Question, rank_candidates
from planner.optimizer.problem import Limits, Problem, Solver, numbered
from planner.optimizer.solvers import SOLVERS
from planner.trees.best_first import BestFirst
from planner.verifiers import VERIFIERS

from . import factory
from .choosing import VECTOR, made, random_traces
from .twins import all_trees, product_sum

FIXED = [name for name, solver in SOLVERS.items() if not solver.grows]


class BruteSolver(Solver):
    """Every tree there is: Catalan's number of them, so for a few nodes only."""

    def propose(self, problem):
        return numbered(
            tree
            for size in range(2, problem.limits.max_nodes + 1)
            for tree in all_trees(size)
            if tree.depth <= problem.limits.max_depth
            and tree.num_children.max() <= problem.law.num_ranks
        )


def proposed(solver, law, costs, limits):
    found = SOLVERS[solver].propose(Problem(law, costs, limits))
    return [settings.tree for settings in found.values()]


def rate(costs, tree, acceptance):
    return product_sum(tree, acceptance) / costs.step_ms(tree)


@pytest.mark.parametrize("step", [4.0, 10.0])
def test_no_tree_at_all_beats_the_plan(step):
    """Draft passes cost the same at any width here, so that Sequoia's trees are the best."""
    bumpy = {1: 10, 2: 10.5, 3: 12, 4: 11, 5: 14, 6: 11.5, 7: 12}
    profile = made(factory.costs(verify=bumpy.__getitem__, counts=list(bumpy), step=step))
    costs = step_costs(profile)
    best = max(
        rate(costs, tree, VECTOR)
        for size in range(1, 8)
        for tree in all_trees(size)
        if tree.num_children.max() <= len(VECTOR)
    )
    plan = solve(profile)
    assert rate(costs, plan.tree, VECTOR) == pytest.approx(best, rel=1e-12)
    assert plan.predicted.speedup.value == pytest.approx(best * step, rel=1e-12)


def test_a_dear_size_is_stepped_over():
    """n = 8 costs more than n = 16: the plan takes 16, or fewer than the bump, never the bump."""
    bumpy = {1: 10, 2: 10.5, 8: 30, 16: 12, 32: 40}
    plan = solve(made(factory.costs(verify=bumpy.__getitem__, counts=list(bumpy))))
    assert plan.tree.num_nodes == 16


def test_every_size_is_looked_at():
    """A sharp notch at a size that is no power of two is found."""
    counts = list(range(1, 33))
    notch = factory.costs(verify=lambda n: 10.0 if n == 23 else 25.0, counts=counts)
    assert solve(made(notch)).tree.num_nodes == 23


@pytest.mark.parametrize("solver", ["auto", *FIXED])
def test_where_drafting_is_dear_the_plan_is_not_to_speculate(solver):
    plan = solve(made(factory.costs(draft=lambda width: 50.0)), solver=solver)
    assert not plan.speculates
    assert plan.made_from.solver == NO_SOLVER
    assert plan.predicted.tokens_per_step.value == 1.0
    assert plan.predicted.speedup.model_dump() == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert plan.predicted.step_ms == plan.predicted.autoregressive_ms
    assert plan.predicted.reach == [1.0]


def test_a_useless_draft_is_not_used():
    profile = made(entries=[factory.positional([[0.0, 0.0]] * 3)])
    assert not solve(profile).speculates


def test_the_machine_decides_the_tree():
    """One acceptance, two machines: dear verification narrows the tree, dear drafting flattens."""
    narrow = solve(made(factory.costs(verify=lambda n: 5 + 5 * n, draft=lambda width: 0.1)))
    flat = solve(made(factory.costs(verify=lambda n: 10.0, draft=lambda width: 6.0)))
    assert narrow.tree.num_nodes < flat.tree.num_nodes
    assert narrow.tree != flat.tree


def test_batch_and_context_decide_too():
    profile = made(
        factory.costs(verify=lambda n: 10.0, context=100),
        factory.costs(verify=lambda n: 10.0 + 9 * n, context=100, batch_size=8),
        factory.costs(verify=lambda n: 10.0 + n, context=900),
    )
    single, batch, late = (
        solve(profile),
        solve(profile, batch_size=8),
        solve(profile, context=900),
    )
    assert single.tree.num_nodes > late.tree.num_nodes > batch.tree.num_nodes
    assert (late.made_from.context, batch.made_from.batch_size) == (900, 8)


@pytest.mark.parametrize("solver", FIXED)
def test_solvers_stay_within_the_limits_and_repeat_themselves(solver):
    costs = step_costs(made(factory.costs()))
    for max_nodes, max_depth in [(1, 0), (2, 1), (7, 2), (32, 0), (32, 31), (1, 5)]:
        given = AcceptanceLaw.by_rank(VECTOR), costs, Limits(max_nodes, max_depth)
        trees = proposed(solver, *given)
        assert all(t.num_nodes <= max_nodes and t.depth <= max_depth for t in trees)
        assert all(t.num_children.max() <= len(VECTOR) for t in trees)
        assert len(set(trees)) == len(trees)
        assert trees == proposed(solver, *given)


def test_chains_of_every_length_are_proposed():
    costs = step_costs(made(factory.costs()))
    trees = proposed("chain", AcceptanceLaw.by_rank([0.5]), costs, Limits(7, 24))
    assert [t.parents.tolist() for t in trees] == [list(range(-1, n)) for n in range(1, 7)]


def test_full_trees_of_every_arity_and_depth_are_proposed():
    costs = step_costs(made(factory.costs()))
    trees = proposed("kary", AcceptanceLaw.by_rank(VECTOR), costs, Limits(13, 3))
    assert [t.parents.tolist() for t in trees] == [
        [-1, 0, 0],
        [-1, 0, 0, 1, 1, 2, 2],
        [-1, 0, 0, 0],
        [-1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3],
        [-1, 0, 0, 0, 0],
        [-1, 0, 0, 0, 0, 0],
    ]


def test_chains_side_by_side_are_proposed():
    costs = step_costs(made(factory.costs()))
    law = AcceptanceLaw.by_rank([0.5, 0.2, 0.1])
    trees = proposed("independent", law, costs, Limits(7, 5))
    assert [t.parents.tolist() for t in trees] == [
        [-1, 0, 0],
        [-1, 0, 0, 1, 2],
        [-1, 0, 0, 1, 2, 3, 4],
        [-1, 0, 0, 0],
        [-1, 0, 0, 0, 1, 2, 3],
    ]


@pytest.mark.parametrize("verifier", ["rrsw", "kseq", "spechub"])
@pytest.mark.parametrize("step", [4.0, 10.0])
def test_no_solver_beats_brute_force_and_sequoia_equals_it(verifier, step, monkeypatch):
    """Positional evidence, so that the law is the truth: the same plan out of every tree."""
    rng = np.random.default_rng(2)
    siblings = not VERIFIERS[verifier].by_rank_alone
    num_ranks = VERIFIERS[verifier].max_children or 3
    rows = [
        rng.dirichlet(np.full(count + 1, 0.6))[:count]
        for count in (range(1, num_ranks + 1) if siblings else [num_ranks])
    ]
    entry = factory.positional([np.concatenate(rows)] * 2, verifier=verifier, siblings=siblings)
    profile = made(factory.costs(verify=lambda n: 10 + n * n / 9, step=step), entries=[entry])
    monkeypatch.setitem(SOLVERS, "brute", BruteSolver())
    speeds = {
        name: solve(profile, solver=name, max_nodes=7).predicted.speedup.value
        for name in (*FIXED, "brute")
    }
    assert max(speeds.values()) == pytest.approx(speeds["brute"], rel=1e-12)
    assert speeds["sequoia"] == pytest.approx(speeds["brute"], rel=1e-12)


def test_sequoia_proposes_as_well_as_the_best_of_its_frontier():
    costs = step_costs(made(factory.costs(verify=lambda n: 10 + n / 4)))
    trees = proposed("sequoia", AcceptanceLaw.by_rank(VECTOR), costs, Limits(8, 7))
    rates = [rate(costs, tree, VECTOR) for tree in trees]
    assert rates[0] == pytest.approx(max(rates), rel=1e-12)
    brute = max(
        rate(costs, t, VECTOR)
        for size in range(2, 9)
        for t in all_trees(size)
        if t.num_children.max() <= len(VECTOR)
    )
    assert rates[0] == pytest.approx(brute, rel=1e-12)


def test_a_leap_in_the_draft_is_kept_below():
    """Passes over more than two nodes are dear: the narrow tree is better than any by size."""
    acceptance = [0.3, 0.25, 0.2, 0.15]
    dear = factory.costs(verify=lambda n: 10 + n / 32, draft=lambda w: 1.0 if w <= 2 else 20.0)
    entries = [factory.positional([acceptance] * 2)]
    profile = made(dear, entries=entries)
    plan = solve(profile)
    assert plan.made_from.solver == "narrow"
    assert plan.tree.widths.max() <= 2
    by_size = solve(profile, solver="sequoia").predicted
    assert plan.predicted.speedup.value > 1.02 * by_size.speedup.value
    assert plan.predicted.optimality_gap < by_size.optimality_gap


@pytest.mark.parametrize("widest", [1, 2, 3])
def test_narrow_trees_are_the_best_of_their_width(widest):
    law = AcceptanceLaw(np.array([[[0.4, 0.3, 0.2]], [[0.5, 0.2, 0.1]]]))
    table = BestFirst(law, 8, 4, widest).expected_tokens
    for size in range(1, 9):
        for depth in range(5):
            scores = [
                law.expected_tokens(tree)
                for tree in all_trees(size)
                if tree.depth <= depth
                and tree.num_children.max() <= 3
                and tree.widths[1:].max(initial=0) <= widest
            ]
            assert table[size, depth] == pytest.approx(max(scores, default=-np.inf), rel=1e-12)


def test_widths_that_were_not_measured_are_not_planned():
    few = factory.costs().model_copy(update={"draft": factory.curve([1, 2], lambda width: 1.0)})
    plan = solve(made(few))
    assert plan.tree.widths.max() <= 2
    assert plan.tree.num_nodes > 2


@pytest.mark.parametrize("max_nodes", [1, 2, 7, 32])
@pytest.mark.parametrize("max_depth", [0, 1, 3, 99])
def test_plans_stay_within_the_limits(max_nodes, max_depth):
    plan = solve(made(), max_nodes=max_nodes, max_depth=max_depth)
    assert plan.tree.num_nodes <= max_nodes
    assert plan.tree.depth <= max_depth


def test_all_candidates_are_graded_alike_and_sorted():
    profile = made(entries=[random_traces(0, "rrsw"), random_traces(1, "topk", scale=0.9)])
    candidates = rank_candidates(profile)
    rates = [candidate.tokens_per_ms for candidate in candidates]
    assert rates == sorted(rates, reverse=True)
    assert {c.verifier for c in candidates if c.tree.num_nodes > 1} == {"rrsw", "topk"}
    assert [c.solver for c in candidates if c.tree.num_nodes == 1] == [NO_SOLVER]
    asked = {name for name in FIXED if SOLVERS[name].by_default}
    assert {c.solver for c in candidates} == {NO_SOLVER, *asked}
    costs = step_costs(profile)
    evidence = {entry.verifier: recorded(profile, entry) for entry in profile.acceptance}
    for c in candidates:
        assert c.tokens_per_step == evidence[c.verifier].predict(c.tree).tokens_per_step
        assert c.step_ms.value == costs.step_ms(c.tree)
        assert c.prediction.reach.sum() == pytest.approx(c.tokens_per_step.value, rel=1e-9)


def test_plan_says_what_it_was_made_from():
    profile = made(factory.costs(spread=0.1), entries=[random_traces(0, "rrsw")])
    plan = solve(profile, max_nodes=16)
    best = rank_candidates(profile, Question(max_nodes=16))
    assert plan.predicted.optimality_gap is not None
    assert plan.predicted.model_copy(update={"optimality_gap": None}) == best[0].predicted
    assert plan.written_by == WRITTEN_BY
    assert plan.made_from.num_candidates == len(best)
    assert plan.made_from.profile_sha256 == profile.fingerprint()
    assert plan.sampling == profile.acceptance[0].sampling
    assert sum(plan.predicted.reach) == pytest.approx(plan.predicted.tokens_per_step.value)
    speedup = plan.predicted.speedup
    assert speedup.low < speedup.value < speedup.high


def test_plan_survives_its_json(tmp_path):
    plan = solve(made(entries=[random_traces(0, "rrsw")]))
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan


def test_the_same_profile_gives_the_same_plan():
    profile = made(entries=[random_traces(0, "rrsw"), random_traces(1, "topk")])
    plans = [solve(profile).model_dump(exclude={"made_from": {"created"}}) for _ in range(2)]
    assert plans[0] == plans[1]


def test_equal_verifiers_leave_it_to_the_simpler_one():
    """At temperature 0 all verifiers accept the same."""
    entries = [random_traces(0, "rrsw", temperature=0.0), random_traces(0, "topk", temperature=0.0)]
    assert solve(made(entries=entries)).verifier == "topk"
    assert solve(made(entries=entries), verifier="rrsw").verifier == "rrsw"


def test_the_better_verifier_is_chosen_and_a_wish_is_obeyed():
    entries = [random_traces(0, "rrsw"), random_traces(0, "topk", scale=0.8)]
    profile = made(entries=entries)
    assert solve(profile).verifier == "rrsw"
    assert solve(profile, verifier="topk").verifier == "topk"


def test_a_slow_verifier_has_to_earn_its_time():
    """Look-ahead accepts a little more here, and is chosen unless its walk takes too long."""
    entries = [random_traces(0, "rrsw", scale=0.95), random_traces(0, "lookahead")]
    for overhead, chosen in ((0.1, "lookahead"), (5.0, "rrsw")):
        costs = factory.costs()
        slow = factory.curve([1, 32], lambda n, ms=overhead: ms)
        costs = costs.model_copy(update={"overhead": costs.overhead | {"lookahead": slow}})
        assert solve(made(costs, entries=entries)).verifier == chosen


def test_temperature_picks_the_entries():
    entries = [
        random_traces(0, "rrsw", temperature=1.0, scale=0.5),
        random_traces(0, "rrsw", temperature=0.0),
    ]
    profile = made(entries=entries)
    assert solve(profile).sampling.temperature == 1.0
    cold = solve(profile, temperature=0.0)
    assert cold.sampling.temperature == 0.0
    assert cold.predicted.tokens_per_step.value > solve(profile).predicted.tokens_per_step.value


def test_acceptance_of_the_plan_holds_inside_its_tree():
    """Texts whose rounds start at hard places: the vector in the plan is not the mean of all."""
    hard, easy = [0.2, 0.1], [0.95, 0.02]
    rows = np.array(([hard] + [easy] * 6) * 10)
    entry, arrays = factory.traced([rows, rows])
    profile = factory.profile([(entry, arrays)])
    plan = solve(profile, max_nodes=8)
    assert plan.speculates
    evidence = recorded(profile, profile.acceptance[0])
    inside = evidence.predict(plan.tree).acceptance
    assert plan.predicted.acceptance == inside.tolist()
    promised = expected_tokens(plan.tree, inside)
    naive = evidence.law.expected_tokens(plan.tree)
    truth = plan.predicted.tokens_per_step.value
    assert abs(promised - truth) < abs(naive - truth)


def test_solvers_are_asked_again_with_what_holds_inside_the_best_tree(monkeypatch):
    asked = []

    class Spy(Solver):
        def propose(self, problem):
            asked.append(problem.law)
            return numbered([Tree([-1, 0])])

    monkeypatch.setitem(SOLVERS, "spy", Spy())
    rows = np.array(([[0.2, 0.1]] + [[0.95, 0.02]] * 6) * 10)
    profile = made(entries=[factory.traced([rows, rows])])
    solve(profile, solver="spy")
    evidence = recorded(profile, profile.acceptance[0])
    assert asked == [evidence.law, evidence.law_inside(Tree([-1, 0]))]
    assert len(asked) == 2  # nothing new after that


@pytest.mark.parametrize(
    ("wishes", "fault"),
    [
        (
            {"solver": "magic"},
            "solver: got 'magic', expected auto or one of fixed, grown, chain, kary, independent, ",
        ),
        ({"solver": ["chain"]}, r"solver: got \['chain'\], expected auto or the name of one"),
        ({"verifier": ["rrsw"]}, r"verifier: got \['rrsw'\], but at T=0.6 .* only rrsw"),
        ({"verifier": "magic"}, "verifier: got 'magic', but at T=0.6 .* only rrsw"),
        ({"verifier": "topk"}, "verifier: got 'topk', but at T=0.6 .* only rrsw"),
        ({"temperature": 0.3}, "temperature: got 0.3, but .* only 0.6"),
        ({"max_nodes": 0}, "max_nodes: got 0"),
        ({"max_nodes": 33}, "max_nodes: got 33, but .* up to 32"),
        ({"max_nodes": "many"}, "max_nodes: got 'many'"),
        ({"max_depth": -1}, "max_depth: got -1"),
        ({"max_depth": 1.5}, "max_depth: got 1.5"),
        ({"batch_size": 2}, "batch_size: got 2, but .* only 1"),
        ({"context": 7}, "context: got 7, .* contexts 128"),
    ],
)
def test_what_cannot_be_had_is_refused_with_what_there_is(wishes, fault):
    with pytest.raises(PlannerError, match=fault):
        solve(made(), **wishes)
    with pytest.raises(PlannerError, match=r"profile: got a str, .* Profile\.load reads one"):
        solve("profile.json")


def test_lone_root_is_always_among_the_candidates():
    assert any(c.tree == Tree([-1]) for c in rank_candidates(made(), Question(solver="chain")))


def test_quartiles_far_apart_leave_comparisons_that_a_float_can_hold():
    """The plan's interval holds, and so do those of its alternatives."""
    whole = factory.costs()
    torn = whole.verify.model_copy(update={"high_ms": [1e7] * len(whole.verify.counts)})
    plan = solve(made(whole.model_copy(update={"verify": torn})))
    compared = [each.plan_against_it for each in plan.made_from.alternatives[1:]]
    assert compared
    for each in compared:
        assert 0 < each.step_ms.low < each.step_ms.value < each.step_ms.high < np.inf
        assert 0 < each.speed.low < each.speed.value < each.speed.high < np.inf
