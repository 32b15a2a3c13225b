"""Rounds played on recorded trees: compiled, asked through the protocol, and by hand."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from planner import PlannerError, Tree
from planner.estimates.step_costs import step_costs
from planner.policies import (
    ConfidentDrafting,
    DynamicDrafting,
    GreedyDrafting,
    PriceDrafting,
    StoppingDrafting,
    ThresholdDrafting,
    TreeDrafting,
)
from planner.replay.recorded import Tally
from planner.replay.replays import Played
from planner.replay.rounds import PLAYED, play

from . import factory
from .recorded_trees import HEAD, made_up


def price(**change) -> PriceDrafting:
    settings = {
        "num_nodes": 16, "max_depth": 6, "max_children": 4, "price_per_ms": 0.25,
        "node_price": 0.05, "lookahead": 1.2, "draft_root_ms": 0.5,
        "draft_ms": [0.4, 0.5, 0.5, 0.7, 0.9], "knots": [0.0, 0.3, 1.0],
        "verify_ms": [4 + 0.1 * n + (n > 8) for n in range(1, 17)],
        "before": [[0.2, 0.4, 0.9], [0.1, 0.3, 0.9]], "after": [[0.1, 0.4, 1.0], [0.0, 0.3, 1.0]],
        "ahead": [[0.6, 0.2, 0.1, 0.0], [0.7, 0.1, 0.05, 0.0]],
    }  # fmt: skip
    return PriceDrafting.model_validate(settings | change)


DRAFTINGS = {
    "greedy": GreedyDrafting(num_nodes=9, max_depth=4, max_children=4),
    "greedy, deep": GreedyDrafting(num_nodes=20, max_depth=12, max_children=3),
    "greedy, one node": GreedyDrafting(num_nodes=1, max_depth=4, max_children=4),
    "threshold": ThresholdDrafting(threshold=0.1, num_nodes=16, max_depth=4, max_children=4),
    "threshold, cut": ThresholdDrafting(threshold=0.01, num_nodes=7, max_depth=9, max_children=2),
    "confidence": StoppingDrafting(score="confidence", threshold=0.7, max_depth=6),
    "entropy": StoppingDrafting(score="entropy", threshold=0.9, max_depth=4),
    "probability": StoppingDrafting(score="probability", threshold=0.5, max_depth=20),
    "head": StoppingDrafting(score="head", threshold=0.6, max_depth=5, head=HEAD),
    "constant": DynamicDrafting(max_depth=5, schedule="constant", confidence=0.3),
    "heuristic": DynamicDrafting(max_depth=9, num_tokens=3, schedule="heuristic", confidence=0.2),
    "heuristic, never ended": DynamicDrafting(
        max_depth=4, num_tokens=1, schedule="heuristic", confidence=0
    ),
    "confident": ConfidentDrafting(max_depth=5, confidence=0.5),
    "confident, never ended": ConfidentDrafting(max_depth=3, confidence=0),
    "price": price(),
    "price, dear": price(price_per_ms=0.6),
    "price, all is cheap": price(price_per_ms=1e-6, node_price=0.0, max_depth=3),
}


def tallies_equal(one: Tally, other: Tally) -> None:
    for name, a, b in zip(Tally._fields, one, other, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)


def obvious_row(recorded, parent, rank, place, number):
    """(row or None, its tree) of a child, as `below` has it.

    parent  the row and tree of the node above
    place   (that of the child, should it be on the text; the text's end)
    number  the child's
    """
    row, tree = parent
    if row is None:
        return None, tree
    if recorded.child[row, rank] >= 0:
        return int(recorded.first[tree] + recorded.child[row, rank]), tree
    if recorded.goes_on and recorded.taken[row] == rank and place[0] < place[1]:
        return int(recorded.first[place[0]]), place[0]
    others = list(range(recorded.first[tree] + 1, recorded.first[tree + 1]))
    turned = others * 2 if recorded.goes_on else []
    start = number % max(1, len(others))
    return next((o for o in turned[start:] if recorded.taken[o] < 0), None), tree


def obvious_rounds(recorded, policy_of_text):
    """(tokens, nodes, widths, depth) of every round of every text: dictionaries and recursion.

    A node is the path of ranks that leads to it.
    """
    found = []
    for text in range(len(recorded.texts)):
        policy = policy_of_text()
        place, end = recorded.texts[text]
        while place < end:
            nodes, children, expanded, widths = [()], {}, set(), []
            rows = {(): (int(recorded.first[place]), place)}

            def row_of(path, rows=rows, place=place, end=end, nodes=nodes):
                for depth in range(1, len(path) + 1):
                    part = path[:depth]
                    if part not in rows:
                        here = (place + depth, end), nodes.index(part)
                        rows[part] = obvious_row(recorded, rows[part[:-1]], part[-1], *here)
                return rows[path][0]

            policy.start(99)
            while requests := policy.grow():
                new = []
                for node, count in requests:
                    path = nodes[node]
                    if path not in expanded:
                        expanded.add(path)
                        new.append(node)
                    for _ in range(count):
                        rank = children.get(path, 0)
                        children[path] = rank + 1
                        nodes.append((*path, rank))
                if new:
                    there = [row_of(nodes[node]) for node in new]
                    unknown = np.full(recorded.drawn.shape[1], np.nan)
                    drawn = [unknown if r is None else recorded.drawn[r] for r in there]
                    blank = np.full(4, np.nan)
                    shown = [blank if r is None else recorded.features[r] for r in there]
                    policy.expanded(
                        new, np.array(drawn)[:, : policy.num_candidates], np.array(shown)
                    )
                    widths.append(0 if new == [0] else len(new))
            path = ()
            while row_of(path) is not None:
                rank = int(recorded.taken[row_of(path)])
                if rank < 0 or rank >= children.get(path, 0):
                    break
                path = (*path, rank)
            accepted = [nodes.index(path[: i + 1]) for i in range(len(path))]
            policy.verified(accepted, 0.0)
            tokens = min(len(path) + 1, end - place)
            found.append((text, tokens, len(nodes), widths, max(map(len, nodes))))
            place += tokens
    return found


RECORDS = [{}, {"num_expanded": 3}, {"num_expanded": 1}, {"goes_on": False}]


@pytest.mark.parametrize("name", DRAFTINGS)
@pytest.mark.parametrize("record", RECORDS, ids=str)
@pytest.mark.parametrize("deterministic", [False, True])
def test_compiled_rounds_are_those_of_the_protocol(name, deterministic, record):
    replays = made_up(1, deterministic=deterministic, scores=True, **record)
    drafting = DRAFTINGS[name]
    assert drafting.kind in PLAYED
    policy = partial(drafting.policy, deterministic=deterministic)
    tallies_equal(replays.play(drafting), play(replays.recorded_for(drafting), policy))


@pytest.mark.parametrize("drafting", DRAFTINGS.values(), ids=lambda drafting: drafting.kind)
@pytest.mark.parametrize("record", RECORDS, ids=str)
def test_rounds_are_what_one_plays_by_hand(drafting, record):
    replays = made_up(2, scores=True, **record)
    recorded = replays.recorded_for(drafting)
    found = obvious_rounds(recorded, lambda: drafting.policy(deterministic=False))
    tally = replays.play(drafting)
    for text in range(replays.num_texts):
        own = [each[1:] for each in found if each[0] == text]
        assert tally.rounds[text] == len(own)
        assert tally.tokens[text] == sum(tokens for tokens, *_ in own)
        for n in range(tally.sizes.shape[1]):
            drafted = [each for each in own if each[2]]
            assert tally.sizes[text, n] == sum(nodes == n for _, nodes, _, _ in drafted)
            assert tally.depths[text, n] == sum(depth == n for *_, depth in own)
            assert tally.widths[text, n] == sum(w.count(n) for _, _, w, _ in own) * (n > 0)
        assert tally.root_passes[text] == sum(widths.count(0) for _, _, widths, _ in own)


@pytest.mark.parametrize("parents", [[-1], [-1, 0], [-1, 0, 0, 1, 1, 2, 3], [-1, 0, 1, 2, 3]])
def test_a_fixed_tree_emits_its_part_of_the_path(parents):
    replays, tree = made_up(3, lengths=(9, 7, 12)), Tree(parents)
    tally = replays.play(TreeDrafting(parents=parents))
    texts = replays.recorded.texts
    for text in range(replays.num_texts):
        (place, end), rounds = texts[text], 0
        while place < end:
            node, emitted = 0, 1
            for rank in replays.recorded.path[place]:
                if rank < 0 or rank >= len(tree.children[node]):
                    break
                node = tree.children[node][rank]
                emitted += 1
            place, rounds = place + emitted, rounds + 1
        assert tally.rounds[text] == rounds
        assert tally.tokens[text] == end - texts[text, 0]


@pytest.mark.parametrize("name", ["greedy, deep", "threshold", "probability"])
def test_rounds_that_meet_the_end_of_their_tree_are_known(name):
    """A round meets the end where a node is expanded of which the record has no row."""
    replays, drafting = made_up(6, num_expanded=4), DRAFTINGS[name]
    played = Played(replays.play(drafting), step_costs(made()))
    tally = play(replays.recorded, lambda: drafting.policy(deterministic=False))
    assert 0 < played.cut_short == tally.unknown.sum() / tally.rounds.sum() <= 1
    small = replays.play(GreedyDrafting(num_nodes=2, max_depth=1, max_children=4))
    assert Played(small, step_costs(made())).cut_short == 0  # only roots are expanded


def test_a_mean_step_is_the_mean_over_the_rounds():
    profile = factory.profile(
        [factory.positional([[0.5]])],
        [factory.costs(verify=lambda n: 10 + n, draft=lambda w: 1 + w / 8, root=0.7, step=9.0)],
    )
    costs, replays = step_costs(profile), made_up(4)
    drafting = DRAFTINGS["price"]
    rounds = obvious_rounds(replays.recorded, lambda: drafting.policy(deterministic=False))
    times = [
        costs.verify_ms(nodes) + costs.overhead_ms(nodes)
        + sum(costs.draft_ms(w) if w else costs.draft_root.ms for w in widths)
        if widths
        else costs.autoregressive_ms
        for _, _, nodes, widths, _ in rounds
    ]  # fmt: skip
    tokens = sum(tokens for _, tokens, *_ in rounds)
    played = Played(replays.play(drafting), costs)
    assert played.step.ms == pytest.approx(np.mean(times), rel=1e-12)
    assert played.tokens_per_ms == pytest.approx(tokens / sum(times), rel=1e-12)
    assert played.rate == pytest.approx(played.tokens_per_ms, rel=1e-12)
    assert played.verification_rate == pytest.approx(len(rounds) / tokens)
    assert played.passes_per_step == pytest.approx(np.mean([len(w) for *_, w, _ in rounds]))
    assert played.sizes.sum() == pytest.approx(1)
    assert played.sizes @ np.arange(17) == pytest.approx(np.mean([n for _, _, n, _, _ in rounds]))


def test_draft_tokens_are_emitted_or_discarded():
    """A text's last round may accept more than the text has room for."""
    played = Played(made_up(5).play(DRAFTINGS["greedy"]), step_costs(made()))
    drafted = 8 * played.tally.rounds.sum()
    accepted = played.tally.accepted.sum()
    assert played.discard_rate == pytest.approx((drafted - accepted) / played.tally.tokens.sum())
    surplus = accepted + played.tally.rounds.sum() - played.tally.tokens.sum()
    assert 0 <= surplus <= 3 * 4


def made():
    return factory.profile([factory.positional([[0.5]])])


def test_errors_of_one_curve_are_fully_correlated():
    """All rounds of one size: as the step of that tree."""
    profile = factory.profile([factory.positional([[0.5]])], [factory.costs(spread=0.2)])
    costs = step_costs(profile)
    played = Played(made_up(6).play(TreeDrafting(parents=[-1, 0, 0, 1])), costs)
    assert played.step.ms == pytest.approx(costs.step(Tree([-1, 0, 0, 1])).ms)
    assert played.step.error_ms == pytest.approx(costs.step(Tree([-1, 0, 0, 1])).error_ms)


def test_half_and_half_are_the_whole():
    replays = made_up(7, lengths=(11, 8, 14, 9, 10))
    costs = step_costs(made())
    drafting = DRAFTINGS["greedy"]
    whole = replays.play(drafting)
    tallies_equal(replays.played_by_halves([drafting, drafting], costs).tally, whole)
    other = replays.played_by_halves([drafting, DRAFTINGS["threshold"]], costs).tally
    level = replays.play(DRAFTINGS["threshold"])
    for text, of in enumerate([whole, level, whole, level, whole]):
        assert other.tokens[text] == of.tokens[text]
        assert other.rounds[text] == of.rounds[text]
        assert other.sizes[text] @ np.arange(17) == of.sizes[text] @ np.arange(len(of.sizes[text]))


def test_each_half_takes_its_own_limits_times():
    replays = made_up(7, lengths=(11, 8, 14, 9, 10))
    ended = {1: factory.exact([2], [8.0]), 2: factory.exact([2, 3], [6.0, 9.0])}
    limited = factory.costs().model_copy(
        update={"unbegun": factory.exact([1, 2], [5.0, 4.5]), "ended": ended}
    )
    short, long = (ConfidentDrafting(max_depth=most, confidence=0.4) for most in (1, 2))
    any_limit, costs = (
        step_costs(factory.profile([factory.positional([[0.5]])], [each]))
        for each in (factory.costs(), limited)
    )
    one, other = Played.of(short, replays, costs), Played.of(long, replays, costs)
    plain = Played.of(long, replays, any_limit)
    assert one.ms == pytest.approx(Played.of(short, replays, any_limit).ms)
    ended_early = other.tally.sizes @ np.array([0.0, -0.5, -2.0, 0.0])
    assert other.tally.sizes[:, 1].sum() > 0 < other.tally.sizes[:, 2].sum()
    assert other.ms == pytest.approx(plain.ms + ended_early)
    assert other.rate == pytest.approx(other.tokens_per_ms)
    assert other.step.ms < plain.step.ms
    mixed = replays.played_by_halves([short, long], costs).ms
    assert mixed == pytest.approx([one.ms[0], other.ms[1], one.ms[2], other.ms[3], one.ms[4]])


def test_what_was_not_timed_is_not_graded():
    few = factory.costs(counts=(1, 4))
    costs = step_costs(factory.profile([factory.positional([[0.5]])], [few]))
    greedy = DRAFTINGS["greedy"]
    assert made_up(8).played_by_halves([greedy, greedy], costs) is None


def test_below_what_was_not_recorded_nothing_grows_where_records_do_not_go_on():
    """Trees of a single expanded node: a chain that goes on is cut there, and counted."""
    replays = made_up(9, num_expanded=1, goes_on=False)
    chain = StoppingDrafting(score="probability", threshold=0.99, max_depth=5)
    tally = replays.play(chain)
    going_on = replays.recorded.drawn[:, 0] >= 0.01
    assert 0 < tally.unknown.sum() <= tally.rounds.sum()
    assert tally.sizes[:, 4:].sum() == 0
    if going_on.all():
        assert tally.unknown.sum() == tally.rounds.sum()


@pytest.mark.parametrize(
    ("drafting", "words"),
    [
        (GreedyDrafting(num_nodes=8, max_depth=4, max_children=5), "got up to 5 children"),
        (DRAFTINGS["head"], r"head\.safetensors, but .* hold no scores"),
    ],
)
def test_what_was_not_recorded_is_said_in_one_line(drafting, words):
    with pytest.raises(PlannerError, match=words) as caught:
        made_up(10).play(drafting)
    assert "\n" not in str(caught.value)


def test_another_heads_scores_do_not_serve():
    other = HEAD.model_copy(update={"file": "other", "sha256": "1" * 64})
    drafting = DRAFTINGS["head"].model_copy(update={"head": other})
    with pytest.raises(PlannerError, match=r"got other, but .* the scores of head\.safetensors"):
        made_up(10, scores=True).play(drafting)
