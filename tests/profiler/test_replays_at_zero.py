"""At temperature 0 nothing is left to chance: replayed rounds are the real ones, one by one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from planner.documents.arrays import replay_arrays
from planner.documents.sampling import Sampling
from planner.policies import GreedyDrafting, StoppingDrafting, TreeDrafting
from planner.policies.fixed import FixedTree
from planner.replay.replays import Replays
from profiler import Pair
from profiler.recording import Recording, Width, record_replays, replay_entry
from profiler.target_texts import sample_continuations
from runtime import VERIFIERS, Session
from runtime.randomness import seeded_source
from runtime.written import Written

from .test_replays import table

GREEDY = Sampling(temperature=0.0)
PENAL = Sampling(temperature=0.0, repetition_penalty=1.6)
PROMPTS = [[1, 2], [7], [3, 3, 9]]


def greedy_pair():
    return table(4, size=11, scale=2.0), table(5, size=11, scale=2.0)


def replays_at_zero(target, draft, prompts, texts, sampling, num_expanded=120) -> Replays:
    width = Width(num_expanded=num_expanded, num_children=4)
    written = [Written(*each) for each in zip(prompts, texts, strict=True)]
    pair, recording = Pair(target, draft), Recording("topk", width, seed=0)
    piece = record_replays(pair, written, sampling, recording)
    entry, arrays = replay_entry(piece, sampling, "topk", width)
    return Replays.of(entry, replay_arrays(arrays, entry.arrays, ""))


@cache
def recorded_at_zero(repetition_penalty: float) -> tuple[list[list[int]], Replays]:
    """Texts of the greedy pair behind `PROMPTS`, and the trees recorded along them."""
    target, draft = greedy_pair()
    sampling = Sampling(temperature=0.0, repetition_penalty=repetition_penalty)
    texts = sample_continuations(target, PROMPTS, sampling, 25, seed=0)
    return texts, replays_at_zero(target, draft, PROMPTS, texts, sampling)


def steps_along(target, draft, prompt, text, policy, sampling) -> list:
    """Real steps from `prompt` until `text` is written, trees never cut."""
    rng = seeded_source(0, target.device)
    session = Session(target, draft, verifier=VERIFIERS["topk"], sampling=sampling, rng=rng)
    session.prefill(prompt)
    steps = []
    while len(session.tokens) < len(prompt) + len(text):
        steps.append(session.step(policy))
    written = session.tokens[len(prompt) : len(prompt) + len(text)]
    assert written == text
    return steps


@pytest.mark.parametrize(
    "drafting",
    [
        GreedyDrafting(num_nodes=12, max_depth=6, max_children=4),
        StoppingDrafting(score="confidence", threshold=0.9, max_depth=8),
        StoppingDrafting(score="entropy", threshold=0.95, max_depth=8),
        TreeDrafting(parents=[-1, 0, 0, 0, 1, 1, 2, 4, 5]),
    ],
    ids=lambda drafting: drafting.kind,
)
@pytest.mark.parametrize("sampling", [GREEDY, PENAL], ids=str)
def test_at_temperature_zero_replayed_rounds_are_the_real_ones(drafting, sampling):
    target, draft = greedy_pair()
    texts, replays = recorded_at_zero(sampling.repetition_penalty)
    tally = replays.play(drafting)
    assert tally.unknown.sum() == 0
    for index, (prompt, text) in enumerate(zip(PROMPTS, texts, strict=True)):
        grown = not isinstance(drafting, TreeDrafting)
        policy = drafting.policy(deterministic=True) if grown else FixedTree(drafting.tree)
        steps = steps_along(target, draft, prompt, text, policy, sampling)
        assert tally.rounds[index] == len(steps)
        for n in range(tally.sizes.shape[1]):
            assert tally.sizes[index, n] == sum(step.num_nodes == n for step in steps)
            later = [width for step in steps for width in step.widths[1:]]
            assert tally.widths[index, n] == later.count(n) * (n > 0)


def test_at_temperature_zero_chains_longer_than_their_records_are_the_real_ones():
    """Below a rejected token another stands in, which ends the chain elsewhere and no more."""
    target, draft = greedy_pair()
    texts, replays = recorded_at_zero(GREEDY.repetition_penalty)
    drafting = StoppingDrafting(score="confidence", threshold=0.9, max_depth=8)
    narrow = [
        replays_at_zero(target, draft, PROMPTS, texts, GREEDY, size).play(drafting)
        for size in (3, 1)
    ]
    whole = replays.play(drafting)
    assert whole.unknown.sum() == 0
    assert whole.depths[:, 3:].any()
    for tally in narrow:
        assert tally.unknown.any()
        np.testing.assert_array_equal(tally.tokens, whole.tokens)
        np.testing.assert_array_equal(tally.rounds, whole.rounds)
