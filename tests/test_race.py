"""The benchmark in which several plans decode the same texts side by side."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.decoding import Steps
from benchmarks.race import Lap, Race, StepTime, slopes, undisturbed
from planner import Plan
from planner.documents.sampling import Sampling
from planner.policies import TreeDrafting
from runtime import Decoder
from tests.policies.settings import trees
from tests.runtime.small_models import small_model

PROMPTS = [[11, 42, 7], [3, 19, 5, 8]]
NUM_TOKENS = 12


def decoders(temperature: float) -> list[Decoder]:
    model = small_model("llama")  # drafts for itself
    ways = [trees(6, 2)["greedy"], TreeDrafting(parents=[-1, 0, 0, 1]), TreeDrafting(parents=[-1])]
    sampling = Sampling(temperature=temperature)
    plans = [Plan(drafting=way, verifier="rrsw", sampling=sampling) for way in ways]
    return [Decoder.from_plan(plan, model, model) for plan in plans]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_everyone_takes_the_steps_of_the_real_loop(temperature):
    found = decoders(temperature)
    race = Race(found, PROMPTS, NUM_TOKENS)
    for index in (0, 1, 0, 1):
        race.decode(index)
    expected = [
        [
            each.generate(
                prompt, max_new_tokens=NUM_TOKENS, seed=index
            ).report.measured.num_steps
            for index, prompt in enumerate(PROMPTS)
        ]
        for each in found
    ]  # fmt: skip
    laps = race.laps()
    assert [lap.steps.tolist() for lap in laps] == expected
    assert all((lap.ms > 0).all() for lap in laps)
    *_, fixed, alone = laps
    assert (fixed.nodes <= 4 * fixed.steps).all()
    assert (alone.nodes == alone.steps).all()
    assert (alone.passes == 0).all()
    assert (alone.pass_ms, alone.node_ms) == (0, 0)
    assert expected[-1] == [NUM_TOKENS] * 2 != expected[0]


def test_a_disturbed_step_counts_as_the_median_of_its_kind():
    text = [StepTime(1, 2, 2.0), StepTime(1, 2, 2.0), StepTime(1, 2, 5.0), StepTime(0, 1, 9.0)]
    slower = [StepTime(1, 2, 2.9)]
    assert undisturbed([text, slower]) == [[2, 2, pytest.approx(2.45), 9], [2.9]]
    assert undisturbed([text[:3], []]) == [[2, 2, 2], []]


def test_slopes_are_what_passes_and_nodes_add():
    steps = [StepTime(passes, nodes, 0) for passes in (1, 2, 3) for nodes in (2, 4, 7)]
    assert slopes(steps, [1 + 2 * each.passes + 0.5 * each.nodes for each in steps]) == (
        pytest.approx(2), pytest.approx(0.5),
    )  # fmt: skip
    always_the_same = [StepTime(2, 3, 0)] * 3
    assert slopes(always_the_same, [1.0, 2.0, 3.0]) == (0, 0)


def test_other_texts_are_carried_over_by_their_passes_and_nodes():
    """Without noise, a text with other trees says what its own steps take, and no text moves it."""
    passes, nodes, steps = np.array([4.0, 9]), np.array([7.0, 30]), np.array([3.0, 5])
    lap = Lap(steps, passes, nodes, 5 * steps + 2 * passes + 0.5 * nodes, 2.0, 0.5)
    assert lap.influence == pytest.approx([0, 0], abs=1e-15)
    others = Steps(np.array([1.0, 3]), np.array([2.0, 6]), np.array([6.0, 18]))
    assert lap.step_on(others) == pytest.approx(5 + 2 * 2 + 0.5 * 6)
    alone = Lap(steps, 0 * steps, steps, 4 * steps, 0.0, 0.0)
    assert alone.step_ms == 4


def test_of_repeated_texts_the_shortest_counts():
    race = Race(decoders(1.0), PROMPTS[:1], NUM_TOKENS)
    for _ in range(3):
        race.decode(0)
    for lap, (rounds,) in zip(race.laps(), race._taken, strict=True):
        assert lap.steps.tolist() == [len(rounds[0])]
        assert lap.ms[0] <= min(sum(step.ms for step in text) for text in rounds)
