"""Chains that an engine counted: the nearest concave line, its interval, and what is refused."""

from __future__ import annotations

from itertools import pairwise

import cvxpy
import numpy as np
import pytest

from planner.documents.counted_chains import CountedChains, CountedPrompt
from planner.documents.document import PlannerError
from planner.documents.profile import Acceptance, PromptAcceptance
from planner.documents.sampling import Sampling
from planner.documents.tree import Tree
from planner.estimates.chain_counts import ChainCounts, accepted_in_a_row


def chain(length: int) -> Tree:
    return Tree(range(-1, length))


def nearest(lengths: np.ndarray, tokens: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The slow and obvious twin: chances that never rise, equal between lengths, least squares."""
    chances = cvxpy.Variable(int(lengths[-1]))
    known = steps > 0
    missed = [
        np.sqrt(steps[row]) * (1 + cvxpy.sum(chances[: lengths[row]]) - tokens[row] / steps[row])
        for row in np.flatnonzero(known)
    ]
    bounds = [chances[1:] <= chances[:-1], chances >= 0]
    for low, high in pairwise(lengths):
        bounds += [chances[place] == chances[low] for place in range(low, high)]
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(cvxpy.hstack(missed))), bounds)
    problem.solve(solver=cvxpy.CLARABEL)
    return np.minimum(chances.value, 1.0)


@pytest.mark.parametrize("lengths", [[1, 2, 3, 4, 5, 6], [1, 2, 4, 8, 12]])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_nearest_concave_line(lengths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = np.array(lengths)
    steps = rng.integers(1, 300, len(lengths)).astype(float)
    tokens = steps * (1 + np.cumsum(rng.random(len(lengths)) * 0.8 ** np.arange(len(lengths))))
    found = accepted_in_a_row(lengths, tokens, steps)
    np.testing.assert_allclose(found, nearest(lengths, tokens, steps), atol=1e-5)


def test_a_length_that_nobody_counted_weighs_nothing() -> None:
    lengths = np.array([1, 2, 3])
    tokens, steps = np.array([150.0, 0.0, 190.0]), np.array([100.0, 0.0, 100.0])
    np.testing.assert_allclose(accepted_in_a_row(lengths, tokens, steps)[[0, 1, 2]].sum(), 0.9)


def test_steps_of_known_chances_are_found_again() -> None:
    reached = np.array([0.8, 0.6, 0.3, 0.3, 0.1])
    lengths, steps = np.arange(1, 6), np.full((5, 3), 1000.0)
    evidence = ChainCounts(lengths, steps * (1 + np.cumsum(reached))[:, None], steps)
    for length in range(6):
        found = evidence.predict(chain(length)).tokens_per_step
        assert found.value == pytest.approx(1 + reached[:length].sum())
        assert (found.low, found.high) == pytest.approx((found.value, found.value))
    np.testing.assert_allclose(evidence.reach(chain(3)), [1, 0.8, 0.6, 0.3])
    np.testing.assert_allclose(evidence.law.rates.ravel(), [0.8, 0.75, 0.5, 1.0, 1 / 3], atol=1e-12)
    assert evidence.law.expected_tokens(chain(5)) == pytest.approx(1 + reached.sum())
    np.testing.assert_allclose(evidence.acceptance_inside(chain(2)), [1.4 / 1.8])
    np.testing.assert_allclose(evidence.acceptance_inside(Tree([-1])), [0.8])


def test_intervals_hold_the_tokens_of_other_prompts() -> None:
    """Prompts differ, and steps do: of 200 pairs of runs nine in ten or more are foreseen."""
    rng = np.random.default_rng(5)
    lengths, inside = np.arange(1, 5), 0
    for _ in range(200):
        tokens, steps = np.zeros((2, 2, 4, 16))
        for run, prompt in np.ndindex(2, 16):
            rate = rng.beta(12, 8)
            for row, length in enumerate(lengths):
                accepted = np.minimum(rng.geometric(1 - rate, 40) - 1, length)
                tokens[run, row, prompt], steps[run, row, prompt] = accepted.sum() + 40, 40
        found = ChainCounts(lengths, tokens[0], steps[0]).predict(chain(3)).tokens_per_step
        inside += found.low <= tokens[1, 2].sum() / steps[1, 2].sum() <= found.high
    assert 180 <= inside <= 200


@pytest.mark.parametrize("tree", [Tree([-1, 0, 0]), chain(6), Tree([-1, 0, 1, 1])])
def test_other_trees_are_refused(tree: Tree) -> None:
    evidence = ChainCounts(np.arange(1, 6), np.full((5, 2), 12.0), np.full((5, 2), 8.0))
    with pytest.raises(PlannerError, match="expected a chain of at most 5"):
        evidence.predict(tree)


def counted(*lengths: int) -> list[CountedChains]:
    of = [
        CountedPrompt(prompt=7, tokens=30, steps=20),
        CountedPrompt(prompt=9, tokens=25, steps=20),
    ]
    return [CountedChains(length=length, prompts=of) for length in lengths]


def entry(**changed: object) -> Acceptance:
    fields = {"counted": counted(1, 2), "num_ranks": 1} | changed
    prompts = [PromptAcceptance(num_positions=20, acceptance=[0.5] * fields["num_ranks"])]
    return Acceptance(
        sampling=Sampling(temperature=0.0), verifier="topk", prompts=prompts, **fields
    )


def test_entries_say_what_was_counted_and_others_say_nothing_of_it() -> None:
    evidence = ChainCounts.of(entry())
    assert (evidence.num_prompts, evidence.lengths.tolist()) == (2, [1, 2])
    assert evidence.predict(chain(1)).tokens_per_step.value == pytest.approx(55 / 40)
    assert Acceptance.parse(entry().model_dump(mode="json"), "here") == entry()
    assert "counted" not in entry(counted=[]).model_dump()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"counted": counted(2, 3)}, "lengths that ascend from 1"),
        ({"counted": counted(1, 3, 2)}, "lengths that ascend from 1"),
        ({"counted": counted(1, 1)}, "lengths that ascend from 1"),
        ({"num_ranks": 2}, "one rank and no traces"),
        ({"expected": "e", "emitted": "e"}, "one rank and no traces"),
    ],
)
def test_what_cannot_have_been_counted_is_refused(changed: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        entry(**changed)


def test_a_step_emits_a_token_or_more() -> None:
    with pytest.raises(ValueError, match="tokens of 5 or more"):
        CountedPrompt(prompt=0, tokens=4, steps=5)
