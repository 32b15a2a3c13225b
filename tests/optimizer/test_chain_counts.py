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
from planner.estimates.chain_counts import ChainCounts, accepted_in_a_row, cut_off


def chain(length: int) -> Tree:
    return Tree(range(-1, length))


def nearest(lengths: np.ndarray, gains: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The slow and obvious twin: chances that never rise, equal between lengths, least squares."""
    chances = cvxpy.Variable(int(lengths[-1]))
    missed = [
        np.sqrt(steps[row]) * (cvxpy.sum(chances[: lengths[row]]) - gains[row])
        for row in np.flatnonzero(steps)
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
    steps = rng.integers(0, 300, len(lengths)).astype(float)
    gains = np.cumsum(rng.random(len(lengths)) * 0.8 ** np.arange(len(lengths)))
    found = accepted_in_a_row(lengths, gains, steps)
    known = slice(0, lengths[np.flatnonzero(steps)[-1]])
    np.testing.assert_allclose(found[known], nearest(lengths, gains, steps)[known], atol=1e-5)


def test_a_length_that_nobody_counted_weighs_nothing() -> None:
    gains, steps = np.array([0.5, 9.0, 0.9]), np.array([100.0, 0.0, 100.0])
    found = accepted_in_a_row(np.array([1, 2, 3]), gains, steps)
    assert found.sum() == pytest.approx(0.9)


def endless(lengths: np.ndarray, tokens: np.ndarray, steps: np.ndarray) -> ChainCounts:
    """Counts of steps that no text's end cut off."""
    return ChainCounts(lengths, tokens, steps, np.zeros(steps.shape))


def test_steps_of_known_chances_are_found_again() -> None:
    reached = np.array([0.8, 0.6, 0.3, 0.3, 0.1])
    lengths, steps = np.arange(1, 6), np.full((5, 3), 1000.0)
    evidence = endless(lengths, steps * (1 + np.cumsum(reached))[:, None], steps)
    for length in range(6):
        found = evidence.predict(chain(length)).tokens_per_step
        assert found.value == pytest.approx(1 + reached[:length].sum())
        assert (found.low, found.high) == pytest.approx((found.value, found.value))
    np.testing.assert_allclose(evidence.reach(chain(3)), [1, 0.8, 0.6, 0.3])
    np.testing.assert_allclose(evidence.law.rates.ravel(), [0.8, 0.75, 0.5, 1.0, 1 / 3], atol=1e-12)
    assert evidence.law.expected_tokens(chain(5)) == pytest.approx(1 + reached.sum())
    np.testing.assert_allclose(evidence.acceptance_inside(chain(2)), [1.4 / 1.8])
    np.testing.assert_allclose(evidence.acceptance_inside(Tree([-1])), [0.8])


def decoded(rates: np.ndarray, length: int, num_tokens: int, rng) -> np.ndarray:
    """Tokens and steps [2, prompts] of chains whose tokens are accepted at each prompt's rate."""
    emitted = 1 + np.minimum(rng.geometric(1 - rates, (num_tokens, len(rates))) - 1, length)
    steps = 1 + (np.cumsum(emitted, axis=0) < num_tokens).sum(axis=0)
    return np.array([np.full(len(rates), num_tokens), steps], np.float64)


@pytest.mark.parametrize("rate", [0.3, 0.6, 0.8])
def test_a_step_in_which_a_text_ends_is_made_whole(rate: float) -> None:
    """Of 63 tokens up to 4 % were missing."""
    rng, lengths, rates = np.random.default_rng(3), np.array([1, 2, 4, 6]), np.full(4000, rate)
    tokens, steps = np.moveaxis([decoded(rates, n, 63, rng) for n in lengths], 1, 0)
    true = (1 - rate ** (lengths + 1.0)) / (1 - rate)
    counts = ChainCounts(lengths, tokens, steps, np.ones(steps.shape))
    found = [counts.predict(chain(n)).tokens_per_step.value for n in lengths]
    np.testing.assert_allclose(found, true, rtol=0.006)
    reached = rate ** np.arange(1.0, 7)
    emitted = 1 + np.minimum(rng.geometric(1 - rate, (200, 20_000)) - 1, 6)
    ends = np.cumsum(emitted, axis=0)
    behind = ends[np.argmax(ends >= 63, axis=0), np.arange(20_000)] - 63
    assert cut_off(reached) == pytest.approx(behind.mean(), abs=5 * behind.std() / 20_000**0.5)


def test_prompts_that_only_some_lengths_were_decoded_behind_do_not_tell_lengths_apart() -> None:
    """The first four of twelve prompts are easy; only chains of 2 met the others."""
    lengths, steps = np.array([1, 2, 3]), np.full((3, 12), 500.0)
    reached = np.where(np.arange(12) < 4, 1.0, 0.5) * np.array([0.6, 0.3, 0.2])[:, None]
    tokens = steps * (1 + np.cumsum(reached, axis=0))
    steps[[0, 2], 4:] = tokens[[0, 2], 4:] = 0
    mean = np.array([0.6, 0.3, 0.2]) * 8 / 12
    found = endless(lengths, tokens, steps)
    for length in lengths:
        tokens_per_step = found.predict(chain(length)).tokens_per_step
        assert tokens_per_step.value == pytest.approx(1 + mean[:length].sum())
        assert tokens_per_step.low < tokens_per_step.value < tokens_per_step.high


def test_intervals_hold_the_tokens_of_other_prompts() -> None:
    """Prompts differ, and steps do: of 100 pairs of runs nine in ten or more are foreseen."""
    rng = np.random.default_rng(5)
    lengths, inside = np.arange(1, 5), 0
    for _ in range(100):
        both = rng.beta(12, 8, (2, 16))
        tokens, steps = np.moveaxis([decoded(both[0], n, 96, rng) for n in lengths], 1, 0)
        counts = ChainCounts(lengths, tokens, steps, np.ones(steps.shape))
        found = counts.predict(chain(3)).tokens_per_step
        others = decoded(both[1], 3, 960, rng).sum(axis=1)
        inside += found.low <= others[0] / others[1] <= found.high
    assert 90 <= inside <= 100


def test_chains_shorter_than_any_counted_are_promised_no_more_than_they_emit() -> None:
    reached = np.array([0.8, 0.6, 0.3, 0.1])
    lengths, steps = np.array([2, 4]), np.full((2, 3), 1000.0)
    emitted = 1 + np.cumsum(reached)
    evidence = endless(lengths, steps * emitted[lengths - 1][:, None], steps)
    found = [evidence.predict(chain(length)).tokens_per_step.value for length in range(1, 5)]
    assert found == pytest.approx([1.7, 2.4, 2.6, 2.8])
    assert all(found <= emitted + 1e-9)


@pytest.mark.parametrize("tree", [Tree([-1, 0, 0]), chain(6), Tree([-1, 0, 1, 1])])
def test_other_trees_are_refused(tree: Tree) -> None:
    evidence = endless(np.arange(1, 6), np.full((5, 2), 12.0), np.full((5, 2), 8.0))
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
    assert evidence.texts.tolist() == [[1, 1], [1, 1]]
    assert evidence.tokens.tolist() == [[30, 25], [30, 25]]
    assert Acceptance.parse(entry().model_dump(mode="json"), "here") == entry()
    assert "counted" not in entry(counted=[]).model_dump()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"counted": counted(1, 3, 2)}, "lengths that ascend, not"),
        ({"counted": counted(1, 1)}, "lengths that ascend, not"),
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
