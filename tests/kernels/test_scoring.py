"""Scores of many queries: numpy's product of as many queries and keys."""

import numpy as np
import pytest

from tree_kernels.host.products import LANES
from tree_kernels.host.scoring import BLOCK, ENOUGH, score


@pytest.mark.parametrize("size", [LANES, 64, 80])
@pytest.mark.parametrize("num_keys", [LANES, LANES + 3, BLOCK, 2 * BLOCK + LANES + 1])
@pytest.mark.parametrize("num_queries", [ENOUGH, ENOUGH + 5, 40])
def test_scores_are_numpys(num_queries, num_keys, size):
    rng = np.random.default_rng(num_queries * num_keys)
    queries = rng.standard_normal((num_queries, size + 3), dtype=np.float32)[:, :size]
    keys = rng.standard_normal((num_keys, size + 5), dtype=np.float32)[:, :size]
    out = np.full((num_queries, num_keys + 2), np.nan, np.float32)
    scored = score(queries, keys, out[:, 1:-1])
    assert scored == num_keys - num_keys % LANES
    expected = queries.astype(np.float64) @ keys.astype(np.float64).T
    off = np.abs(out[:, 1 : 1 + scored] - expected[:, :scored])
    assert (off <= 1e-6 * (np.abs(queries) @ np.abs(keys).T)[:, :scored]).all()
    assert np.isnan(out[:, [0, *range(1 + scored, num_keys + 2)]]).all()


@pytest.mark.parametrize(
    ("num_queries", "num_keys", "size"),
    [(ENOUGH - 1, BLOCK, 64), (ENOUGH, BLOCK, LANES + 4), (ENOUGH, LANES - 1, 64)],
)
def test_none_are_scored_where_it_would_not_pay(num_queries, num_keys, size):
    shapes = (num_queries, size), (num_keys, size)
    queries, keys = (np.ones(shape, np.float32) for shape in shapes)
    out = np.full((num_queries, num_keys), np.nan, np.float32)
    assert score(queries, keys, out) == 0
    assert np.isnan(out).all()
