"""Recorded trees: drawn given the text, they are the trees and outcomes that decoding has."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from planner.documents.arrays import replay_arrays
from planner.documents.sampling import Sampling
from planner.policies import GreedyDrafting, StoppingDrafting
from planner.replay.replays import Replays
from planner.replay.rounds import play
from profiler import Pair
from profiler.recording import Recording, Width, record_replays, replay_entry
from profiler.target_texts import sample_continuations
from runtime import VERIFIERS, Session, TableModel
from runtime.written import Written
from tests.runtime.exact_source import EnumeratingSource, law
from tests.verifiers.distributions import FLAVOURS, random_pair

EXACT = 1e-12
LEVEL = 1e-4
"""Chance that a right recording fails a statistical test."""


RECORDED = sorted({each.recorded_as or name for name, each in VERIFIERS.items() if each.grows})
"""Verifiers whose trees are recorded."""


# ------------------------------------------------------- one node, by enumeration


def law_given_the_token(name, p, q, num_children):
    """P(token, children, which of them is accepted): the token comes first, drawn from the target;
    then `num_children` children given the token."""

    def experiment(source):
        token = source.categorical(p[None])
        children, taken = VERIFIERS[name].draw_given(p[None], q[None], token, num_children, source)
        return int(token), tuple(children[0].tolist()), int(taken)

    return law(experiment)


def of_the_first(given, most):
    """The same of the first `most` children."""
    masses = defaultdict(float)
    for (token, children, taken), mass in given.items():
        masses[token, children[:most], taken if 0 <= taken < most else -1] += mass
    return masses


def law_of_verifying(name, p, q, num_children, most):
    """The same from the runtime's own verifier, which draws children first, and then the token."""
    rule = VERIFIERS[name]

    def experiment(source):
        children = rule.sample(q[None], num_children, source)[0, :most]
        rank, token = rule.verify(p, q, children, source)
        return token, tuple(children.tolist()), rank

    return law(experiment)


def rows(size, flavour):
    p, q = random_pair(np.random.default_rng(size), size, flavour)
    return torch.tensor(p), torch.tensor(q)


def distance(one: dict, other: dict) -> float:
    return max(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in one.keys() | other.keys())


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("name", RECORDED)
def test_children_and_acceptance_have_the_law_of_decoding(name, flavour):
    """Nodes of one child, of two and of three, from the same drawing."""
    size = 4 if VERIFIERS[name].distinct else 3
    p, q = rows(size, flavour)
    given = law_given_the_token(name, p, q, 3)
    for most in range(1, 4):
        expected = law_of_verifying(name, p, q, 3, most)
        assert distance(of_the_first(given, most), expected) < EXACT


def test_the_exact_check_sees_children_drawn_without_the_token():
    p, q = rows(4, "dense")

    def blindly(source):
        token = source.categorical(p[None])
        children = VERIFIERS["rrsw"].sample(q[None], 3, source)[0].tolist()
        rank = children.index(int(token)) if int(token) in children else -1
        return int(token), tuple(children), rank

    assert distance(law(blindly), law_of_verifying("rrsw", p, q, 3, 3)) > 1e-2


# ------------------------------------------------------------- whole trees, by counting

SIZE = 3
SAMPLING = Sampling(temperature=0.9)


def table(seed: int, *, size: int = SIZE, scale: float = 1.5, **settings) -> TableModel:
    """A model whose distribution depends on the last token only."""
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(size, size, generator=rng, dtype=torch.float64)
    return TableModel(logits * scale, name=f"table-{seed}", **settings)


class Spy:
    """A rule that remembers what it was shown and what it asked for."""

    def __init__(self, grower):
        self._grower, self.log = grower, []
        self.num_nodes, self.num_candidates = grower.num_nodes, grower.num_candidates
        self.columns, self.start, self.verified = grower.columns, grower.start, grower.verified

    def grow(self):
        requests = list(self._grower.grow())
        self.log.append(tuple(requests))
        return requests

    def expanded(self, nodes, drawn, features):
        assert not np.isnan(drawn).any()
        self.log.append(tuple(np.round(drawn, 5).ravel().tolist()))
        self._grower.expanded(nodes, drawn, features)


RULES = {
    "greedy": GreedyDrafting(num_nodes=4, max_depth=3, max_children=2),
    "chain": StoppingDrafting(score="probability", threshold=0.8, max_depth=3),
}


def real_law(verifier, rule, context):
    """P(what the rule saw and asked for, tokens emitted) of one step behind `context`."""
    return _real_law(verifier, rule, context, SAMPLING.repetition_penalty)


@cache
def _real_law(verifier, rule, context, repetition_penalty):
    sampling = SAMPLING.model_copy(update={"repetition_penalty": repetition_penalty})
    session = Session(
        table(0),
        table(1),
        verifier=VERIFIERS[verifier],
        sampling=sampling,
        rng=EnumeratingSource([]),
    )
    session.prefill([context])

    def experiment(source):
        spy, session.rng = Spy(RULES[rule].policy(deterministic=False)), source
        session.rewind(1)
        step = session.step(spy)
        return tuple(spy.log), step.tokens

    return law(experiment)


def recorded_trees(verifier, num_texts, length, width):
    """(texts behind one token each, the trees recorded along them)."""
    rule, penalty = VERIFIERS[verifier], SAMPLING.repetition_penalty
    return _recorded_trees(verifier, rule.draw_entered, num_texts, length, width, penalty)


@cache
def _recorded_trees(verifier, draw_entered, num_texts, length, width, repetition_penalty):
    """The same; `draw_entered` is how the verifier draws, which some tests change."""
    target, draft = table(0), table(1)
    sampling = SAMPLING.model_copy(update={"repetition_penalty": repetition_penalty})
    prompts = [[seed % SIZE] for seed in range(num_texts)]
    texts = sample_continuations(target, prompts, sampling, length, seed=1)
    written = [Written(*each) for each in zip(prompts, texts, strict=True)]
    recording = Recording(verifier, width, seed=2)
    return written, record_replays(Pair(target, draft), written, sampling, recording)


def replayed_counts(verifier, drafting, num_texts):
    """{context: Counter of the same outcomes}, on the recorded tree in front of every text."""
    length, width = 4, Width(num_expanded=7, num_children=2)
    written, piece = recorded_trees(verifier, num_texts, length, width)
    counts = defaultdict(Counter)
    for index, (prompt, text) in enumerate(written):
        spy = Spy(drafting.policy(deterministic=False))
        num_accepted = walked(piece, index * length, spy)
        counts[prompt[0]][tuple(spy.log), tuple(text[: num_accepted + 1])] += 1
    return counts


def walked(piece, tree, grower) -> int:
    """How many tokens of a recorded tree are accepted, as far as `grower` wants it grown."""
    first = int(piece["first"][tree])
    rows, on_text, revealed, expanded = [first], [True], [0], set()
    grower.start(99)
    while requests := grower.grow():
        new = []
        for node, count in requests:
            if node not in expanded:
                expanded.add(node)
                new.append(node)
            for _ in range(count):
                row, rank = rows[node], revealed[node]
                own = int(piece["child"][row, rank]) if row is not None else -1
                rows.append(first + own if own >= 0 else None)
                on_text.append(bool(on_text[node] and piece["taken"][row] == rank))
                revealed[node] += 1
                revealed.append(0)
        if new:
            there = [rows[node] for node in new]
            drawn = piece["drawn"][there].astype(np.float64)
            grower.expanded(new, drawn[:, : grower.num_candidates], piece["features"][there])
    return sum(on_text) - 1


def p_value(counts: Counter, exact: dict) -> float:
    """The chi-square test's, rare outcomes taken together; 0 for what cannot happen at all."""
    if not counts.keys() <= exact.keys():
        return 0.0
    total = sum(counts.values())
    expected = np.array(list(exact.values())) * total
    observed = np.array([counts[outcome] for outcome in exact])
    rare = expected < 5
    expected = np.append(expected[~rare], expected[rare].sum())
    observed = np.append(observed[~rare], observed[rare].sum())
    filled = expected > 0
    statistic = ((observed - expected)[filled] ** 2 / expected[filled]).sum()
    return float(chi2.sf(statistic, filled.sum() - 1))


def p_values(verifier, rule, num_texts=300) -> list[float]:
    counts = replayed_counts(verifier, RULES[rule], num_texts)
    assert len(counts) == SIZE
    return [p_value(seen, real_law(verifier, rule, context)) for context, seen in counts.items()]


@pytest.mark.parametrize(
    ("verifier", "rule"),
    [
        *(("rrsw", "greedy"), ("rrsw", "chain"), ("rrs", "greedy")),
        *(("traversal", "greedy"), ("traversal", "chain")),
    ],
)
def test_replayed_rounds_have_the_law_of_real_ones(verifier, rule):
    assert min(p_values(verifier, rule)) > LEVEL / SIZE


@pytest.mark.parametrize("verifier", ["rrsw", "traversal"])
def test_under_a_repetition_penalty_too(verifier, monkeypatch):
    penal = SAMPLING.model_copy(update={"repetition_penalty": 2.5})
    monkeypatch.setattr(f"{__name__}.SAMPLING", penal)
    assert min(p_values(verifier, "greedy")) > LEVEL / SIZE


def test_the_statistical_check_sees_trees_that_do_not_know_the_text(monkeypatch):
    """Children drawn freely, and those that happen to be the text's token taken for accepted."""

    def free(entered, p, q, tokens, num_children, source):
        children = VERIFIERS["rrsw"].sample(q, num_children, source)
        found = children == tokens[:, None]
        taken = torch.where(found.any(-1), found.int().argmax(-1), -1)
        return children, taken, torch.ones_like(q[:, :num_children])

    monkeypatch.setattr(VERIFIERS["rrsw"], "draw_entered", free)
    assert min(p_values("rrsw", "greedy")) < LEVEL / SIZE


def test_the_statistical_check_sees_rejected_subtrees_that_do_not_know_it(monkeypatch):
    """Below a child that was rejected with all below it, children drawn as anywhere."""
    traversal = VERIFIERS["traversal"]
    given = traversal.draw_entered

    def free(entered, p, q, tokens, num_children, source):
        children, *others = given(entered, p, q, tokens, num_children, source)
        unaware = tokens < 0
        if unaware.any():
            children[unaware] = traversal.sample(q[unaware], num_children, source)
        return children, *others

    monkeypatch.setattr(traversal, "draw_entered", free)
    assert min(p_values("traversal", "greedy")) < LEVEL / SIZE


# ------------------------------------------- where recorded trees end: beyond their roots alone


class FirstRound:
    """A policy asked through its protocol: what it was shown up to the rejection, in one round."""

    def __init__(self, drafting):
        self._policy, self.outcome = drafting.policy(deterministic=False), None
        self._shown = []
        self.num_nodes, self.num_candidates = self._policy.num_nodes, self._policy.num_candidates
        self.columns, self.start, self.grow = (
            self._policy.columns, self._policy.start, self._policy.grow
        )  # fmt: skip

    def expanded(self, nodes, drawn, features):
        self._shown.append(tuple(np.round(drawn, 5).ravel().tolist()))
        self._policy.expanded(nodes, drawn, features)

    def verified(self, path, step_ms):
        if self.outcome is None:
            self.outcome = tuple(self._shown[: len(path) + 1]), len(path) + 1


def shown_until_rejected(exact: dict) -> dict:
    """P(what a chain's rule saw up to the rejection, tokens emitted), from `real_law`."""
    found = defaultdict(float)
    for (log, tokens), chance in exact.items():
        shown = [entry for entry in log if entry and isinstance(entry[0], float)]
        found[tuple(shown[: len(tokens)]), tuple(tokens)] += chance
    return found


def p_values_beyond(verifier, *, goes_on, num_texts=300) -> list[float]:
    """Chains longer than the record, whose trees are of one expanded node each."""
    drafting, width = RULES["chain"], Width(num_expanded=1, num_children=2)
    written, piece = recorded_trees(verifier, num_texts, 6, width)
    rounds = [FirstRound(drafting) for _ in written]
    entry, arrays = replay_entry(piece, SAMPLING, verifier, width)
    replays = Replays.of(entry, replay_arrays(arrays, entry.arrays, ""))
    recorded = replays.recorded._replace(goes_on=goes_on)
    waiting = iter([rounds[0], *rounds])  # the first is asked for its size alone
    play(recorded, lambda: next(waiting))
    counts = defaultdict(Counter)
    for (prompt, text), one in zip(written, rounds, strict=True):
        shown, num_tokens = one.outcome
        counts[prompt[0]][shown, tuple(text[:num_tokens])] += 1
    return [
        p_value(seen, shown_until_rejected(real_law(verifier, "chain", context)))
        for context, seen in counts.items()
    ]


@pytest.mark.parametrize("verifier", ["rrsw", "rrs"])
def test_where_a_tree_ends_rounds_go_on_with_the_law_of_real_ones(verifier):
    assert min(p_values_beyond(verifier, goes_on=True)) > LEVEL / SIZE


def test_the_statistical_check_sees_rounds_that_end_with_their_tree():
    assert min(p_values_beyond("rrsw", goes_on=False)) < LEVEL / SIZE
