"""Attention's mixtures are those of numpy, and the highest score is."""

from __future__ import annotations

import numpy as np
import pytest

from tree_kernels.host.few_rows import _highest
from tree_kernels.host.mixing import mix


@pytest.mark.parametrize("num_rows", [*range(9), 13])
@pytest.mark.parametrize("size", [1, 8, 16, 20, 64, 80, 128, 152])
@pytest.mark.parametrize("num_values", [1, 2, 37])
def test_all_shapes_and_nothing_beside(num_rows, size, num_values):
    """All three are pieces of longer ones, which stay as they are."""
    rng = np.random.default_rng(num_rows)
    weights = rng.random((num_rows, num_values + 2), np.float32)[:, 1:-1]
    values = rng.standard_normal((num_values, size + 3)).astype(np.float32)[:, 1:-2]
    out = np.full((num_rows, size + 2), 7, np.float32)
    mix(weights, values, out[:, 1:-1])
    expected = weights.astype(np.float64) @ values.astype(np.float64)
    assert (np.abs(out[:, 1:-1] - expected) <= 1e-6 * (weights @ np.abs(values))).all()
    assert (out[:, [0, -1]] == 7).all()


@pytest.mark.parametrize(
    "scores",
    [[3, -1, 2], [-3, -1, -2], [-np.inf, -2], [-np.inf, -np.inf], [0.0, -0.0], [-1e-40, -1e-39],
     [np.inf, 1]],
    ids=str,
)  # fmt: skip
def test_the_highest_score_is_numpys(scores):
    for each in (scores, scores[::-1], 9 * scores):
        assert _highest(np.array(each, np.float32)) == np.float32(max(scores))


@pytest.mark.parametrize("number", [np.nan, -np.nan])
def test_a_score_that_is_none_shows(number):
    """Through what follows from it: no sum of exponentials hides it."""
    scores = np.array([1, number, 2], np.float32)
    assert np.isnan(scores - _highest(scores)).any()
