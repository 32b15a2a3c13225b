"""Chances of acceptance learnt from recorded trees."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from planner.replay.chance_tables import KNOTS, RANKS, fitted_tables, tried

from .recorded_trees import made_up


@pytest.mark.parametrize("seed", range(6))
def test_pooling_is_the_nearest_non_decreasing_sequence(seed):
    """Quadratic programming's own condition: no feasible change of level improves it."""
    rng = np.random.default_rng(seed)
    values, weights = rng.normal(size=9), rng.uniform(0.1, 2, size=9)
    fitted = isotonic_regression(values, weights=weights).x
    assert (np.diff(fitted) >= -1e-12).all()

    def loss(levels):
        return (weights * (levels - values) ** 2).sum()

    # min-max formula of isotonic regression
    def mean(i, j):
        return np.average(values[i : j + 1], weights=weights[i : j + 1])

    expected = [
        max(min(mean(i, j) for j in range(place, 9)) for i in range(place + 1))
        for place in range(9)
    ]
    np.testing.assert_allclose(fitted, expected, atol=1e-12)
    assert loss(fitted) <= loss(np.full(9, np.average(values, weights=weights)))


def test_trials_are_those_of_the_nodes_on_the_text():
    replays = made_up(0, lengths=(6, 9))
    recorded = replays.recorded
    found = []
    for text in range(2):
        for tree in range(*recorded.texts[text]):
            row, depth = recorded.first[tree], 0
            while tree + depth < recorded.texts[text, 1]:
                left, squares = 1.0, recorded.features[row, 2]
                for rank in range(4):
                    accepted = recorded.taken[row] == rank
                    drawn = recorded.drawn[row, rank]
                    collision = max(squares, 0) / left**2 if left > 1e-6 else 0.0
                    found.append((rank, depth, collision, drawn, accepted))
                    if accepted:
                        break
                    squares -= (drawn * left) ** 2
                    left *= 1 - drawn
                rank = recorded.taken[row]
                if rank < 0 or recorded.child[row, rank] < 0:
                    break
                row, depth = recorded.first[tree] + recorded.child[row, rank], depth + 1
    trials = tried(recorded)
    got = (trials.rank, trials.depth, trials.collision, trials.drawn, trials.accepted)
    np.testing.assert_allclose(np.array(got, float).T, np.array(found, float), atol=1e-12)


@pytest.mark.parametrize("skill", [1.0, 0.6])
def test_tables_recover_the_chances_that_trees_were_made_with(skill):
    """Within five binomial standard errors of the trials near each knot, and the prior's share."""
    replays = made_up(1, lengths=(400, 400), num_expanded=4, skill=skill)
    tables, trials = fitted_tables(replays.recorded, 4), tried(replays.recorded)
    knots = np.array(KNOTS)
    for rank in range(2):
        here = trials.rank == rank
        for place in range(1, len(knots) - 1):
            width = (knots[place + 1] - knots[place - 1]) / 2
            count = (here & (np.abs(trials.drawn - knots[place]) <= width)).sum()
            if count < 100:
                continue
            noise = 5 * np.sqrt(0.25 / count) + 8 / count
            assert abs(tables.after[rank, place] - skill * knots[place]) <= noise + width / 2


def test_tables_never_fall_and_ahead_counts_what_is_accepted():
    replays = made_up(2, lengths=(200, 100), num_expanded=4)
    tables, trials = fitted_tables(replays.recorded, 4), tried(replays.recorded)
    assert tables.before.shape == tables.after.shape == (RANKS, len(KNOTS))
    for table in (tables.before, tables.after):
        assert (np.diff(table, axis=1) >= -1e-12).all()
        assert (table >= 0).all()
        assert (table <= 1).all()
    at_root = trials.depth == 0
    assert tables.ahead[0, 0] == pytest.approx(trials.accepted[at_root & (trials.rank == 0)].mean())
    assert tables.ahead[0].sum() == pytest.approx(trials.accepted[at_root].sum() / 300)
