"""Products of few rows are those of numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tree_kernels.host.products import LINE, MOST_ADDED, multiply


@pytest.mark.parametrize("num_rows", range(1, 10))
@pytest.mark.parametrize(
    "shape",
    [(4, LINE), (7, 2 * LINE), (3, LINE), (9, 20), (8, MOST_ADDED), (6, MOST_ADDED + LINE),
     (5, 3 * MOST_ADDED + 5 * LINE)],
    ids=str,
)  # fmt: skip
def test_all_shapes_and_nothing_beside(shape, num_rows):
    """Rows of x and of the outcome are pieces of longer ones, which stay as they are."""
    rng = np.random.default_rng(num_rows)
    weight = rng.standard_normal(shape).astype(np.float32)
    longer = rng.standard_normal((num_rows, shape[1] + 3)).astype(np.float32)
    out = np.full((num_rows, shape[0] + 2), 7, np.float32)
    multiply(weight, longer[:, 1:-2], out[:, 1:-1])
    expected = longer[:, 1:-2].astype(np.float64) @ weight.T.astype(np.float64)
    terms = np.abs(longer[:, 1:-2]) @ np.abs(weight.T)
    assert (np.abs(out[:, 1:-1] - expected) <= 1e-6 * terms).all()
    assert (out[:, [0, -1]] == 7).all()
