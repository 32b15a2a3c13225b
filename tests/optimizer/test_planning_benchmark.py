"""The planning benchmark compares the same thing, and its extrapolation is a power law."""

import numpy as np
import pytest

from benchmarks.planning import algorithm_5, power_law
from benchmarks.side_by_side import SideBySide, same, table
from planner.optimizer import frontier

EPS = np.finfo(float).eps


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize(("num_ranks", "layers"), [(1, 1), (1, 5), (2, 3), (5, 1), (7, 4)])
def test_the_plain_transcription_is_the_frontier(num_ranks, layers, monotone):
    """Tolerance: 12 products summed in two orders, of a value of at most 12."""
    rng = np.random.default_rng([num_ranks, layers])
    for _ in range(5):
        acceptance = rng.dirichlet(np.ones(num_ranks + 1))[:-1]
        acceptance[rng.random(num_ranks) < 0.3] = 0.0
        if monotone:
            acceptance = np.sort(acceptance)[::-1]
        slow = algorithm_5(acceptance.tolist(), 12, layers)
        fast = frontier(acceptance, 12, layers - 1)
        assert np.array_equal(slow == -np.inf, fast == -np.inf)
        assert slow == pytest.approx(fast, abs=4 * 12 * 12 * EPS)


@pytest.mark.parametrize("exponent", [0.5, 2.0, 3.7])
def test_the_fit_recovers_a_power_law(exponent):
    sizes = (16, 24, 48, 96)
    times = [0.3 * size**exponent for size in sizes]
    assert power_law(sizes, times) == pytest.approx((exponent, 0.3), rel=1e-9)


def test_different_values_end_the_run():
    values = np.array([-np.inf, 1.0])
    same("equal", values, values.copy(), 1e-9)
    with pytest.raises(SystemExit, match="other: values differ"):
        same("other", values, np.array([-np.inf, 1.1]), 1e-9)
    with pytest.raises(SystemExit, match="other: values differ"):
        same("other", values, np.array([0.0, 1.0]), 1e-9)


@pytest.mark.parametrize(
    ("row", "met", "printed"),
    [
        (SideBySide("a", 10.0, "b", 50.0), None, "5 × as fast"),
        (SideBySide("a", 10.0, "b", 5.0, goal_times=3), True, "2.00 × its time"),
        (SideBySide("a", 16.0, "b", 5.0, goal_times=3), False, "**missed**"),
        (SideBySide("a", 10.0, goal_ms=200), True, "| < 200 ms | met |"),
        (SideBySide("a", 2e3, goal_ms=200), False, "| 2 s |"),
        (SideBySide("a", 1.0, "b", 9e4, extrapolated=True), None, "90,000 × as fast, extrapolated"),
    ],
)
def test_a_row_says_whether_its_goal_is_met(row, met, printed):
    assert row.met is met
    assert printed in table([row])
