"""Tokens per step: hand-worked values, slow twins, and simulated decoding."""

import numpy as np
import pytest

from planner import PlannerError, Tree
from planner.estimates.evidence import PromptMeans, Traces, recorded
from planner.optimizer import expected_tokens

from . import factory
from .twins import all_trees, product_sum, rounds_by_dictionary

EPS = np.finfo(float).eps

TREES = {
    "root": Tree([-1]),
    "chain": Tree([-1, 0, 1, 2]),
    "star": Tree([-1, 0, 0, 0]),
    "mixed": Tree([-1, 0, 0, 1, 1, 2, 3, 6]),
}


def chain(length):
    return Tree(list(range(-1, length)))


def traces(*texts):
    lengths = [len(text) for text in texts]
    rows = np.concatenate(texts).astype(float)
    return Traces(rows, np.cumsum([0, *lengths]), expected=rows)


def random_text(seed, length, num_ranks=3):
    """Rows like measured ones: some certain, some hopeless, some in between."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(num_ranks + 1, 0.4), size=length)[:, :num_ranks]
    rows[rng.random(length) < 0.2] = 0.0
    rows[rng.random(length) < 0.2] = np.eye(num_ranks)[0]
    return rows


@pytest.mark.parametrize("length", [0, 1, 2, 7, 63, 100])
def test_chain_is_a_geometric_sum(length):
    tokens = expected_tokens(chain(length), [0.75])
    assert tokens == pytest.approx((1 - 0.75 ** (length + 1)) / 0.25, rel=(length + 2) * EPS)


def test_lone_root_scores_exactly_one():
    assert expected_tokens(Tree([-1]), [0.3]) == 1.0


def test_full_binary_tree():
    """Each level multiplies by the total acceptance: 1 + .8 + .64."""
    tokens = expected_tokens(Tree([-1, 0, 0, 1, 1, 2, 2]), [0.5, 0.3])
    assert tokens == pytest.approx(2.44, rel=8 * EPS)


def test_expected_tokens_is_the_sum_of_path_products():
    acceptance = [0.4, 0.1, 0.2, 0.05, 0.0, 0.1]
    for tree in all_trees(7):
        slow = product_sum(tree, acceptance)
        assert expected_tokens(tree, acceptance) == pytest.approx(slow, rel=16 * EPS)


def test_a_child_beyond_the_known_ranks_is_refused():
    with pytest.raises(PlannerError, match="a node with 2 children, but acceptance has 1 ranks"):
        expected_tokens(Tree([-1, 0, 0]), [0.5])


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("length", [1, 2, 7, 63])
def test_recursion_is_the_dictionary_recursion(name, length):
    tree, text = TREES[name], random_text(length, length)
    examined: dict[int, float] = {}
    rounds, visits = rounds_by_dictionary(tree, text, examined)
    prediction = traces(text).predict(tree)
    close = {"rel": 1e3 * length * EPS, "abs": 1e3 * length * EPS}
    assert prediction.tokens_per_step.value == pytest.approx(length / rounds, **close)
    for node in range(len(tree)):
        assert prediction.reach[node] == pytest.approx(visits[node] / rounds, **close)
    total = sum(examined.values())
    if total:
        mean = sum(mass * text[place] for place, mass in examined.items()) / total
        assert prediction.acceptance == pytest.approx(mean, **close)


def ends(tree, arrays, node, place, e):
    """float64 [N + 1]: where the next round starts, given that this one ends at `node` or below it,
    entered with the acceptance of number e, the text going on at `place`; from the leaves up."""
    emitted, entering, entered = arrays
    found, left = np.zeros(len(emitted) + 1), 1.0
    for rank, child in enumerate(tree.children[node] if place + 1 < len(emitted) else []):
        share = np.array([  # linear between its neighbours, 1 at itself
            np.interp(entering[place, e, rank], entered, hat) for hat in np.eye(len(entered))
        ])  # fmt: skip
        below = [ends(tree, arrays, child, place + 1, k) for k in range(len(entered))]
        found += emitted[place, e, rank] * (share @ below)
        left -= emitted[place, e, rank]
    found[place + 1] += left
    return found


@pytest.mark.parametrize("name", TREES)
def test_whole_paths_are_followed_by_the_acceptance_that_nodes_are_entered_with(name):
    """Rounds of the renewal recursion, level by level, are those of the recursion over subtrees."""
    length, entered = 9, np.array([0.2, 0.5, 1.0])
    rng = np.random.default_rng(0)
    emitted = rng.dirichlet(np.full(4, 0.5), size=(length, 3))[:, :, :3]
    entering = rng.random((length, 3, 3)) * 1.1  # some beyond either end
    arrays = emitted, np.minimum(entering, 1.0), entered
    starts = np.zeros(length + 1)
    starts[0] = 1.0
    for place in range(length):
        starts += starts[place] * ends(TREES[name], arrays, 0, place, 2)
    rows, given = emitted.reshape(length, -1), arrays[1].reshape(length, -1)
    found = Traces(rows, np.array([0, length]), rows, entering=given, entered=entered)
    tokens, rounds = found.rounds(TREES[name])
    assert rounds[0] == pytest.approx(starts[:-1].sum(), rel=1e3 * EPS)
    assert tokens[0] == pytest.approx(length, rel=1e3 * EPS)


@pytest.mark.parametrize("name", TREES)
def test_reach_sums_to_tokens_per_step_and_the_root_is_always_visited(name):
    texts = [random_text(seed, length) for seed, length in enumerate([1, 63, 100, 2])]
    prediction = traces(*texts).predict(TREES[name])
    assert prediction.reach[0] == pytest.approx(1, rel=1e3 * EPS)
    assert prediction.reach.sum() == pytest.approx(
        prediction.tokens_per_step.value, rel=1e3 * 166 * EPS
    )


def test_every_prompt_is_followed_along_its_own_text():
    texts = [random_text(seed, length) for seed, length in enumerate([7, 63, 20])]
    rounds = sum(rounds_by_dictionary(TREES["mixed"], text)[0] for text in texts)
    value = traces(*texts).predict(TREES["mixed"]).tokens_per_step.value
    assert value == pytest.approx(90 / rounds, rel=1e3 * 90 * EPS)


def test_prompts_do_not_run_into_each_other():
    """Two certain texts of 3 with a chain of 4: one round each, not one for both."""
    certain = np.ones((3, 1))
    assert traces(certain, certain).predict(chain(4)).tokens_per_step.value == 3.0


def test_rounds_by_hand():
    """Text of three; the child is right at positions 0 and 2 only: rounds start at 0 and 2."""
    prediction = traces(np.array([[1.0], [0.0], [1.0]])).predict(chain(1))
    assert prediction.tokens_per_step.value == 1.5
    # the root was examined at 0 and 2, where acceptance is 1; the mean over positions is 2/3
    assert prediction.acceptance.tolist() == [1.0]
    assert prediction.reach.tolist() == [1.0, 0.5]  # the second child lies behind the end


def test_half_chances_by_hand():
    """Rounds start at 0; at 1 with 1/2; at 2 with 1/2 (behind the child) + 1/4: 2.25 for 3."""
    prediction = traces(np.full((3, 1), 0.5)).predict(chain(1))
    assert prediction.tokens_per_step.value == pytest.approx(3 / 2.25, rel=16 * EPS)


def test_lone_root_sees_every_position():
    text = random_text(3, 63)
    prediction = traces(text).predict(Tree([-1]))
    assert prediction.tokens_per_step.value == 1.0
    assert prediction.tokens_per_step.low == prediction.tokens_per_step.high == 1.0
    assert prediction.acceptance == pytest.approx(text.mean(axis=0), rel=64 * EPS)


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("length", [7, 100, 1000])
def test_constant_acceptance_gives_the_product_form(name, length):
    """Wald: rounds * G = tokens of all rounds = length + what the last round has too much.

    That is between 0 and the tree's depth, so tokens per step lie in [G N / (N + depth), G].
    """
    vector = np.array([0.5, 0.2, 0.1])
    tree = TREES[name]
    product = expected_tokens(tree, vector)
    value = traces(np.tile(vector, (length, 1))).predict(tree).tokens_per_step.value
    slack = 1 + 1e3 * length * EPS
    assert product * length / (length + tree.depth) / slack <= value <= product * slack


def test_acceptance_inside_the_tree_reproduces_its_visits():
    """With one rank, children visited = examined nodes * acceptance, cut-off rounds apart."""
    text = np.vstack([random_text(5, 400, 1), np.zeros((3, 1))])  # nothing is cut off at the end
    tree = chain(3)
    prediction = traces(text).predict(tree)
    parents, children = prediction.reach[:-1].sum(), prediction.reach[1:].sum()
    assert prediction.acceptance[0] * parents == pytest.approx(children, rel=1e3 * 403 * EPS)


def test_rows_above_one_by_rounding_are_brought_back():
    entry, arrays = factory.traced([np.full((50, 3), np.float32(0.333335))])
    profile = factory.profile([(entry, arrays)])
    prediction = recorded(profile, profile.acceptance[0]).predict(Tree([-1, 0, 0, 0]))
    assert prediction.tokens_per_step.value == pytest.approx(2.0, rel=1e3 * 50 * EPS)


def test_recorded_takes_traces_where_there_are_any():
    text = random_text(1, 20)
    with_traces = factory.profile([factory.traced([text, text[:7]])])
    found = recorded(with_traces, with_traces.acceptance[0])
    assert isinstance(found, Traces)
    assert found.starts.tolist() == [0, 20, 27]
    assert np.array_equal(found.emitted[20:].astype(np.float32), text[:7].astype(np.float32))
    without = factory.profile([factory.positional([[0.5, 0.2]])])
    assert isinstance(recorded(without, without.acceptance[0]), PromptMeans)


def test_without_traces_the_mean_over_positions_is_multiplied_out():
    means = PromptMeans(np.array([[0.8], [0.2]]), np.array([300.0, 100.0]))
    prediction = means.predict(chain(2))
    assert prediction.acceptance.tolist() == pytest.approx([0.65])
    assert prediction.tokens_per_step.value == pytest.approx(1 + 0.65 + 0.65**2, rel=16 * EPS)
    assert prediction.reach.tolist() == pytest.approx([1, 0.65, 0.65**2], rel=16 * EPS)


@pytest.mark.parametrize("name", ["chain", "mixed"])
def test_recursion_predicts_simulated_rounds(name):
    """Rounds drawn coin by coin along a fixed text; 5 standard errors."""
    tree, text = TREES[name], random_text(11, 40)
    rng = np.random.default_rng(0)
    counts = [simulated_rounds(tree, text, rng) for _ in range(3000)]
    predicted = len(text) / traces(text).predict(tree).tokens_per_step.value
    assert abs(np.mean(counts) - predicted) < 5 * np.std(counts) / np.sqrt(len(counts))


def simulated_rounds(tree, text, rng):
    place, rounds = 0, 0
    while place < len(text):
        rounds += 1
        node = 0
        while place < len(text):
            chances = np.cumsum(text[place][: len(tree.children[node])])
            rank = int(np.searchsorted(chances, rng.random(), side="right"))
            place += 1
            if rank >= len(chances):
                break
            node = tree.children[node][rank]
    return rounds


def test_recursion_predicts_speculative_decoding_itself():
    """A Markov pair over 4 tokens, rrsw decoding without replacement, two children a node.

    Decoded for real (drafting, rejection, bonus), N tokens at a time, and predicted from texts that
    the target alone wrote, with P(child accepted | token) worked out by enumeration.  Both are
    means over independent texts: 5 standard errors of their difference.
    """
    rng = np.random.default_rng(1)
    vocabulary, length, texts = 4, 24, 1500
    target = rng.dirichlet(np.full(vocabulary, 0.5), size=vocabulary)
    draft = 0.6 * target + 0.4 * rng.dirichlet(np.full(vocabulary, 0.5), size=vocabulary)
    tree = Tree([-1, 0, 0, 1, 1, 3])
    given_token = [conditional_acceptance(p, q) for p, q in zip(target, draft, strict=True)]
    decoded, predicted = [], []
    for _ in range(texts):
        decoded.append(decoded_rounds(tree, target, draft, length, rng))
        state, rows = 0, []
        for _ in range(length):
            token = int(rng.choice(vocabulary, p=target[state]))
            rows.append(given_token[state][token])
            state = token
        rounds, _ = rounds_by_dictionary(tree, rows)
        predicted.append(rounds)
    error = np.sqrt((np.var(decoded) + np.var(predicted)) / texts)
    assert abs(np.mean(decoded) - np.mean(predicted)) < 5 * error


def conditional_acceptance(p, q):
    """[token, rank]: P(child of that rank was accepted | token emitted), two children."""
    accepted = np.zeros((len(p), 2))
    accepted[:, 0] = np.minimum(p, q)
    residual = np.maximum(p - q, 0)
    residual /= residual.sum()
    for x in range(len(q)):
        rest = np.where(np.arange(len(q)) == x, 0, q) / (1 - q[x])
        accepted[:, 1] += max(q[x] - p[x], 0) * np.minimum(residual, rest)
    return accepted / p[:, None]


def decoded_rounds(tree, target, draft, length, rng):
    state, emitted, rounds = 0, 0, 0
    while emitted < length:
        rounds += 1
        node = 0
        while True:
            p, q = target[state], draft[state].copy()
            accepted = -1
            for child in tree.children[node]:
                x = int(rng.choice(len(q), p=q / q.sum()))
                q /= q.sum()
                if rng.random() * q[x] < p[x]:
                    accepted, state = child, x
                    break
                p = np.maximum(p - q, 0)
                p /= p.sum()
                q[x] = 0
            emitted += 1
            if accepted < 0:
                state = int(rng.choice(len(p), p=p))
                break
            node = accepted
    return rounds


def test_one_prompt_says_nothing_about_the_spread():
    prediction = traces(random_text(2, 63)).predict(TREES["mixed"])
    interval = prediction.tokens_per_step
    assert (interval.low, interval.high) == (1.0, TREES["mixed"].depth + 1)


def test_equal_prompts_leave_no_spread():
    text = random_text(2, 63)
    interval = traces(text, text, text).predict(TREES["mixed"]).tokens_per_step
    assert interval.high - interval.low < 1e3 * 63 * EPS * interval.value


@pytest.mark.parametrize("num_prompts", [8, 40])
def test_interval_covers_what_as_many_other_prompts_show(num_prompts):
    """Means of normal clusters: it holds the mean of another draw 95 times in 100, and of an
    endless one more often; 400 trials, within 4 standard errors."""
    rng = np.random.default_rng(4)
    trials, covered = 400, np.zeros(2)
    for _ in range(trials):
        means, others = np.clip(rng.normal(0.5, 0.1, size=(2, num_prompts, 1)), 0, 1)
        interval = PromptMeans(means, np.ones(num_prompts)).predict(chain(1)).tokens_per_step
        found = 1 + np.array([others.mean(), 0.5])
        covered += (interval.low <= found) & (found <= interval.high)
    room = 4 * np.sqrt(0.95 * 0.05 / trials)
    assert abs(covered[0] / trials - 0.95) < room
    assert covered[1] > covered[0]
