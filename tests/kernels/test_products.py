"""Products of few rows are those of numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tree_kernels.host.products import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    INT8,
    LINE,
    MOST_ADDED,
    multiply,
    multiply_fours,
)


@pytest.mark.parametrize("num_rows", range(10))
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
    multiply(weight, longer[:, 1:-2], out, 1)
    expected = longer[:, 1:-2].astype(np.float64) @ weight.T.astype(np.float64)
    terms = np.abs(longer[:, 1:-2]) @ np.abs(weight.T)
    assert (np.abs(out[:, 1:-1] - expected) <= 1e-6 * terms).all()
    assert (out[:, [0, -1]] == 7).all()


@pytest.mark.parametrize("num_rows", range(10))
@pytest.mark.parametrize("shape", [(4, LINE), (12, MOST_ADDED + LINE)], ids=str)
@pytest.mark.parametrize(
    ("written_as", "dtype", "special"),
    [(FLOAT16, torch.float16, [1e-7, -6e-8, 65504.0]),
     (BFLOAT16, torch.bfloat16, [1e-7, -6e-8, 65504.0]), (INT8, torch.int8, [-128, 127, -1])],
    ids=str,
)  # fmt: skip
def test_short_weights_give_what_they_give_in_32_bits(written_as, dtype, special, shape, num_rows):
    """The same to the last bit as those of 32 read by these vectors; subnormal entries, too."""
    generator = torch.Generator().manual_seed(num_rows)
    short = torch.randn(shape, generator=generator).mul_(30).to(dtype)
    short[0, :3] = torch.tensor(special)
    weight, x = short.float(), torch.randn((num_rows, shape[1]), generator=generator).numpy()
    got, expected = np.empty((2, num_rows, shape[0]), np.float32)
    multiply_fours(short.data_ptr(), written_as, x, got)
    multiply_fours(weight.data_ptr(), FLOAT32, x, expected)
    assert (got == expected).all()
    assert np.allclose(expected, x @ weight.numpy().T, rtol=1e-4, atol=1e-2)
