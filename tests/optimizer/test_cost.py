"""Step times: exact at what was measured, linear between, nothing beyond."""

import numpy as np
import pytest

from planner import PlannerError, Tree
from planner.documents.estimate import Estimate
from planner.documents.sampling import Sampling
from planner.documents.times import Costs
from planner.estimates.step_costs import CHAINS, SITTING_ERROR, THREADS_ERROR, speedup, step_costs
from planner.optimizer import solve
from planner.policies import ConfidentDrafting, TreeDrafting

from . import factory

EPS = np.finfo(float).eps
BUMPY = {1: 10.0, 2: 10.5, 8: 14.0, 16: 12.0, 32: 13.0}


def profile(*all_costs):
    return factory.profile([factory.positional([[0.5, 0.2]])], all_costs)


def bumpy(**changes):
    return factory.costs(verify=BUMPY.__getitem__, counts=list(BUMPY), **changes)


def test_measured_points_are_kept_even_where_the_curve_falls():
    costs = step_costs(profile(bumpy()))
    assert [costs.verify_ms(n) for n in BUMPY] == list(BUMPY.values())


def test_between_measured_points_the_line_is_straight():
    costs = step_costs(profile(bumpy()))
    assert costs.verify_ms(5) == pytest.approx(10.5 + 3.5 * 3 / 6, rel=4 * EPS)
    assert costs.verify_ms(12) == pytest.approx(13.0, rel=4 * EPS)


def test_contexts_are_interpolated_too():
    made = profile(bumpy(context=100), bumpy(context=300, step=20.0))
    heavy = factory.costs(verify=lambda n: 2 * BUMPY[n], counts=list(BUMPY), context=300, step=20.0)
    made = profile(bumpy(context=100), heavy)
    costs = step_costs(made, context=150)
    assert costs.verify_ms(8) == pytest.approx(14.0 * 1.25, rel=4 * EPS)
    assert costs.autoregressive_ms == pytest.approx(12.5, rel=4 * EPS)
    assert step_costs(made, context=300).verify_ms(8) == 28.0
    assert step_costs(made).context == 100


@pytest.mark.parametrize(
    ("sampling", "step"),
    [
        (None, 10.0),
        (Sampling(temperature=0.6), 10.0),
        (Sampling(temperature=0), 7.0),
        (Sampling(temperature=0, draft_temperature=0.5), 7.0),
    ],
)
@pytest.mark.parametrize("backwards", [False, True])
def test_greedy_steps_have_times_of_their_own(sampling, step, backwards):
    greedy = bumpy(step=7.0).model_copy(update={"sampling": Sampling(temperature=0)})
    entries = [bumpy(step=10.0), greedy]
    made = profile(*(entries[::-1] if backwards else entries))
    assert step_costs(made, sampling=sampling).autoregressive_ms == step


@pytest.mark.parametrize(("temperature", "step"), [(0, 7.0), (0.3, 8.0), (1, 9.0), (0.8, 8.0)])
def test_where_every_sampling_was_timed_each_has_its_own(temperature, step):
    """One that was not has those of the first of its kind."""
    entries = [
        bumpy(step=ms).model_copy(update={"sampling": Sampling(temperature=each)})
        for each, ms in ((0, 7.0), (0.3, 8.0), (1, 9.0))
    ]
    asked = Sampling(temperature=temperature)
    assert step_costs(profile(*entries), sampling=asked).autoregressive_ms == step


def test_step_adds_a_draft_pass_per_level():
    made = profile(bumpy(root=1.5, draft=lambda width: 1 + width / 8, overhead=lambda n: n / 32))
    tree = Tree([-1, 0, 0, 1, 2, 2, 3, 4])  # levels expand the root, then 2 and 2 nodes
    step = step_costs(made).step(tree)
    assert step.ms == pytest.approx(14.0 + 1.5 + 2 * 1.25 + 0.25, rel=8 * EPS)
    chain = step_costs(made).step(Tree([-1, 0, 1, 2]))
    verify = 10.5 + 3.5 * 2 / 6  # between the measured sizes 2 and 8
    assert chain.ms == pytest.approx(verify + 1.5 + 2 * 1.125 + 4 / 32, rel=8 * EPS)


def test_what_starts_differ_by_is_an_error_of_steps_with_a_draft():
    drifting = bumpy(spread=0.01).model_copy(update={"start_error": 0.04})
    steady, costs = (step_costs(profile(each)) for each in (bumpy(spread=0.01), drifting))
    chain, lone = Tree([-1, 0, 1]), Tree([-1])
    step, known = costs.step(chain), steady.step(chain)
    assert step.ms == known.ms
    assert step.error_ms == pytest.approx(np.hypot(known.error_ms, 0.04 * step.ms))
    assert costs.step(lone) == steady.step(lone)


def limited() -> Costs:
    """Costs under which chains that may have 4 tokens are quicker than those of at most 1 or 2."""
    steps = {1: [8.0], 2: [8.0, 9.0], 4: [6.0, 7.0, 9.0, 10.0]}
    unbegun = factory.exact([1, 2, 4], [5.0, 5.0, 4.5])
    ended = {most: factory.exact(range(2, most + 2), times) for most, times in steps.items()}
    return bumpy().model_copy(update={"unbegun": unbegun, "ended": ended})


@pytest.mark.parametrize(
    ("most", "besides"),
    [
        (1, [0.0, 0.0]),
        (2, [0.0, 0.0, 0.0]),
        (3, [-0.25, -1.0, -1.0, 0.0]),  # between 2 and 4
        (4, [-0.5, -2.0, -2.0, -0.5, 0.0]),  # full chains of 3 are taken to need 9.5
        (7, [-0.5, -2.0, -2.0, -0.5, 0.0]),
    ],
)
def test_what_a_chain_may_have_changes_what_shorter_ones_take(most, besides):
    costs, any_limit = (step_costs(profile(each)) for each in (limited(), bumpy()))
    found = costs.limit(ConfidentDrafting(max_depth=most, confidence=0.5))
    assert found.ms == pytest.approx(np.array(besides))
    chain = Tree([-1, *range(most)])
    assert costs.step(chain) == any_limit.step(chain)
    assert costs.limit(TreeDrafting(parents=chain.parents.tolist())) is None
    assert any_limit.limit(ConfidentDrafting(max_depth=most, confidence=0.5)) is None


def test_limits_that_were_half_timed_are_refused():
    content = limited().model_dump(mode="json")
    with pytest.raises(PlannerError, match="unbegun and ended of the same limits; profile again"):
        Costs.parse(content | {"ended": {}}, "profile.json")
    short = {**content["ended"], "4": content["ended"]["2"]}
    with pytest.raises(PlannerError, match="ended from 2 nodes to one more than the limit"):
        Costs.parse(content | {"ended": short}, "profile.json")
    assert Costs.parse(content, "profile.json") == limited()


def test_lone_root_is_autoregressive_decoding():
    costs = step_costs(profile(bumpy(step=9.0)))
    assert costs.step_ms(Tree([-1])) == costs.autoregressive_ms == 9.0


def test_error_of_a_median_follows_from_the_distance_of_the_quartiles():
    """2000 medians of 101 normal times: their spread, against the mean claimed standard error.

    The spread of M medians is known to 1 / sqrt(2 M) = 1.6 %, 5 of those; the two large-sample
    formulas (variance of a median, quartiles of a sample) are good to 1 / R = 1 %.
    """
    rng = np.random.default_rng(0)
    times = rng.normal(10, 1, size=(2000, 101))
    low, middle, high = np.quantile(times, (0.25, 0.5, 0.75), axis=1)
    claimed = np.mean([
        step_costs(profile(with_quartiles(a, b, c, 101))).autoregressive.error_ms
        for a, b, c in zip(low[:200], middle[:200], high[:200], strict=True)
    ])  # fmt: skip
    # the claim varies: an IQR of 101 by 12 %, the mean of 200 by .8 %, 5 of those
    assert claimed == pytest.approx(middle.std(), rel=5 * 0.016 + 5 * 0.008 + 0.01)


def test_a_stall_in_every_third_repetition_changes_nothing_but_what_is_sure():
    """12 passes of 5 ms, some of them 4 ms longer: the machine's own time is 5 ms."""
    errors = []
    for stalled in (0, 4):
        times = [5.0] * (12 - stalled) + [9.0] * stalled
        costs = step_costs(profile(with_quartiles(*np.quantile(times, (0.25, 0.5, 0.75)), 12)))
        assert costs.autoregressive_ms == 5.0
        errors.append(costs.autoregressive.error_ms)
    assert errors[0] == 0.0 < 0.5 < errors[1]


def with_quartiles(low, middle, high, repeats):
    costs = factory.costs()
    step = costs.target_step.model_copy(
        update={"low_ms": [low], "median_ms": [middle], "high_ms": [high], "repeats": repeats}
    )
    return costs.model_copy(update={"target_step": step})


def test_errors_on_one_curve_add_up_and_of_different_curves_in_squares():
    made = profile(bumpy(spread=0.1))
    costs = step_costs(made)
    relative = 0.1 * 1.2533141 / 0.6744898 / 10  # half a range of 10 %, 100 repeats
    tree = Tree([-1, 0])
    own = relative * np.hypot(np.hypot(10.5, 1.0), 0.1)
    expected = np.hypot(own, SITTING_ERROR * costs.step_ms(tree))
    assert costs.step(tree).error_ms == pytest.approx(expected, rel=1e-9)
    deep = Tree([-1, 0, 1, 2, 3, 4, 5, 6])
    own = relative * np.hypot(np.hypot(14.0, 7.0), 0.1)
    expected = np.hypot(own, SITTING_ERROR * costs.step_ms(deep))
    assert costs.step(deep).error_ms == pytest.approx(expected, rel=1e-9)
    estimate = costs.step(deep).estimate
    assert estimate.low < estimate.value < estimate.high


def test_without_spread_the_speedup_is_as_sure_as_tokens_and_sittings():
    costs = step_costs(profile(bumpy()))
    step = costs.step(Tree([-1, 0]))
    tokens = Estimate(value=2.0, low=1.5, high=3.0)
    gain = speedup(tokens, step, costs.autoregressive)
    assert gain.value == pytest.approx(2.0 * 10 / step.ms, rel=16 * EPS)
    for field in ("low", "high"):
        off = np.log(getattr(tokens, field) / tokens.value)
        wide = abs(np.log(getattr(gain, field) / gain.value))
        assert wide == pytest.approx(np.hypot(off, 1.96 * SITTING_ERROR), rel=1e-9)


@pytest.mark.parametrize(
    ("num_threads", "device", "error"),
    [(1, "cpu", SITTING_ERROR), (2, "cpu", THREADS_ERROR), (2, "cuda", SITTING_ERROR)],
)
def test_several_threads_of_a_cpu_differ_more_between_sittings(num_threads, device, error):
    made = profile(bumpy())
    machine = made.machine.model_copy(update={"num_threads": num_threads, "device": device})
    costs = step_costs(made.model_copy(update={"machine": machine}))
    assert costs.shared_error == pytest.approx(error)
    step = costs.step(Tree([-1, 0]))
    assert step.error_ms == pytest.approx(error * step.ms)


def test_spread_widens_the_speedup():
    tokens = Estimate(value=2.0, low=1.9, high=2.1)
    widths = []
    for spread in (0.0, 0.05, 0.2):
        costs = step_costs(profile(bumpy(spread=spread)))
        gain = speedup(tokens, costs.step(Tree([-1, 0])), costs.autoregressive)
        widths.append(gain.high - gain.low)
    assert widths == sorted(set(widths))


def test_every_verifier_has_an_overhead_of_its_own():
    slow = factory.curve(list(BUMPY), lambda n: 3.0)
    costs = bumpy(overhead=lambda n: 1.0)
    made = profile(costs.model_copy(update={"overhead": costs.overhead | {"lookahead": slow}}))
    tree = Tree([-1, 0])
    steps = [step_costs(made, verifier=rule).step_ms(tree) for rule in ("rrsw", "lookahead")]
    assert steps[1] - steps[0] == pytest.approx(2.0, rel=16 * EPS)


def growing_costs(**without):
    """Passes of .5 ms a node where the tree is fixed, .5 more where it grows, less so for chains;
    deciding takes .25 ms, or .125, more for trees of over 2 nodes."""
    costs = bumpy(root=2.0, draft=lambda width: 0.5 * width, overhead=lambda n: n / 8)
    timed = {
        "growing": factory.growing_times(
            2.5, lambda width: 0.5 + 0.5 * width, lambda n: n / 8 + (n > 2) / 4, widths=list(BUMPY)
        ),
        "chains": factory.growing_times(2.25, lambda width: 0.75, lambda n: n / 8 + (n > 2) / 8),
        "scored": {"a": factory.growing_times(2.75, lambda width: 1.25, lambda n: n / 8 + 0.5)},
    }
    return costs.model_copy(update=timed | without)


def test_where_trees_grow_passes_and_deciding_take_longer():
    fixed = step_costs(profile(growing_costs()))
    trees, chains, scored = fixed.growing(), fixed.growing(CHAINS), fixed.growing("a")
    assert [trees.draft_ms(1), trees.draft_ms(4), trees.draft_root.ms] == [1.0, 2.5, 2.5]
    assert [chains.draft_ms(1), chains.draft_root.ms] == [0.75, 2.25]
    assert [scored.draft_ms(1), scored.draft_root.ms] == [1.25, 2.75]
    assert chains.draft.last == scored.draft.last == 1
    more = [
        [each.overhead_ms(n) - fixed.overhead_ms(n) for n in (1, 2, 3, 4, 8, 32)]
        for each in (trees, chains, scored)
    ]
    assert more == [[0, 0, 0.125, 0.25, 0.25, 0.25], [0, 0, 0.0625, *[0.125] * 3], [0.5] * 6]
    for each in (trees, chains, scored):
        assert (each.verify_ms(4), each.autoregressive) == (
            fixed.verify_ms(4), fixed.autoregressive
        )  # fmt: skip
        assert each.growing(CHAINS) == chains  # of whichever it is asked, the same is said


def test_deciding_comes_on_top_of_every_verifiers_own_walk():
    """It was timed under the verifier named first alone."""
    costs = growing_costs()
    slow = {**costs.overhead, "lookahead": factory.curve([2, 32], lambda n: 7.0)}
    made = profile(costs.model_copy(update={"overhead": slow}))
    assert next(iter(slow)) != "lookahead"
    walks = step_costs(made, verifier="lookahead").growing().overhead
    assert [walks(n).ms for n in (2, 4, 32)] == [7.0, 7.25, 7.25]


def test_deciding_never_takes_less_than_nothing():
    """Times where growing trees happened to be walked faster."""
    fast = factory.growing_times(2.5, lambda width: 1.0, lambda n: n / 16)
    fixed = step_costs(profile(growing_costs(growing=fast)))
    assert fixed.growing().overhead.ms.tolist() == fixed.overhead.ms.tolist()


def test_growing_trees_are_interpolated_between_contexts():
    near = growing_costs()
    twice = {
        "growing": factory.growing_times(
            5.0, lambda width: 1 + width, lambda n: n / 8 + (n > 2) / 2, widths=list(BUMPY)
        )
    }
    far = growing_costs(**twice, context=near.context + 100)
    between = step_costs(profile(near, far), context=near.context + 50).growing()
    assert [between.draft_root.ms, between.draft_ms(4)] == [3.75, 3.75]
    assert between.overhead_ms(8) == 1 + 0.375


def test_what_a_profile_did_not_time_of_growing_trees():
    """Chains count as trees, and trees as fixed ones; of a head nothing is known."""
    nothing = {"growing": None, "chains": None, "scored": {}}
    costs = step_costs(profile(growing_costs(**nothing)))
    assert costs.growing() == costs.growing(CHAINS) == costs
    trees = step_costs(profile(growing_costs(chains=None)))
    assert trees.growing(CHAINS) == trees.growing()
    with pytest.raises(PlannerError, match=r"SHA-256 b, .* timed no draft passes; profile with it"):
        costs.growing("b")


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (lambda p: step_costs(p, verifier="luck"), "verifier: got 'luck', but .* only chain, "),
        (lambda p: step_costs(p, batch_size=3), "batch_size: got 3, but .* only 1, 8"),
        (lambda p: step_costs(p, context=99), "context: got 99, .*contexts 100, 300"),
        (lambda p: step_costs(p, context=301), "context: got 301, .*contexts 100, 300"),
        (lambda p: step_costs(p, batch_size=8, context=200), "batch size 8 .*contexts 100"),
        (lambda p: step_costs(p).verify_ms(33), r"verify\): got 33, but .*1\.\.32"),
        (lambda p: step_costs(p).draft_ms(0), r"draft\): got 0, but .*1\.\.32"),
        (lambda p: step_costs(p).step(Tree([-1] + [0] * 40)), r"verify\): got 41"),
    ],
)
def test_what_was_not_measured_is_refused(call, fault):
    made = profile(bumpy(context=100), bumpy(context=300), bumpy(context=100, batch_size=8))
    with pytest.raises(PlannerError, match=fault):
        call(made)


def test_where_verification_and_overhead_share_no_size_no_tree_has_a_time():
    costs = factory.costs(counts=(1, 2))
    apart = costs.model_copy(update={"verify": factory.curve([4, 8], lambda n: 10.0)})
    assert step_costs(profile(apart)).max_nodes == 1
    assert not solve(profile(apart)).speculates


def test_quartiles_far_apart_give_an_interval_that_a_float_can_hold():
    """Wider than any measurement's: times that were edited, or a clock that stood still."""
    alone = factory.costs(step=10.0).target_step
    torn = alone.model_copy(update={"low_ms": [1e-9]})
    costs = step_costs(profile(factory.costs().model_copy(update={"target_step": torn})))
    for estimate in (
        costs.autoregressive.estimate,
        speedup(Estimate(value=2, low=1, high=3), costs.step(Tree([-1, 0])), costs.autoregressive),
    ):
        assert 0 < estimate.low < estimate.value < estimate.high < np.inf


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ({"batch_size": "1"}, "batch_size: got '1', expected a whole number"),
        ({"batch_size": True}, "batch_size: got True, expected a whole number"),
        ({"context": "128"}, "context: got '128', expected a whole number"),
        ({"context": 128.5}, "context: got 128.5, expected a whole number"),
    ],
)
def test_conditions_that_are_no_whole_numbers_are_refused(conditions, words):
    with pytest.raises(PlannerError, match=words):
        step_costs(profile(bumpy()), **conditions)
