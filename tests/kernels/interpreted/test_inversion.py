"""Draws by inversion, interpreted, against the plain form: the same tokens by the same random
numbers, none without a chance, each as often as it should be."""

from __future__ import annotations

from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
import torch
from scipy import stats

from runtime import randomness
from runtime.randomness import seeded_source
from tree_kernels import launches, reference
from tree_kernels.judges import BELOW_ONE
from tree_kernels.launches import inverted

from .guarded import guarded_allocations, holding

FEW = 1e-3
"""Least p-value; seeds are fixed."""
LAST = 1 - 2**-53
"""The greatest random number."""


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def coins(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(
        shape, dtype=torch.float64, generator=torch.Generator().manual_seed(100 + seed)
    )


def drawn(probs: torch.Tensor, uniforms: torch.Tensor, block: int = 64) -> torch.Tensor:
    """Tokens by the kernel, whose blocks are small, so that a vocabulary is several."""
    given = holding(uniforms)
    with patch.object(launches, "INVERTED", block), guarded_allocations():
        found = inverted(probs, given.tensor)
    assert given.intact()
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "num_tokens", [1, 2, 63, 64, 65, 500, pytest.param(1000, marks=pytest.mark.soak)]
)
def test_every_draw_is_the_plain_forms(dtype, num_tokens):
    for seed, (rows, draws) in enumerate([(1, 1), (3, 1), (2, 10)]):
        probs = (4 * normal(rows, num_tokens, seed=seed)).softmax(-1).mul_(1 + seed).to(dtype)
        probs[normal(rows, num_tokens, seed=9) > 0.8] = 0
        probs[:, num_tokens // 2] += 0.01
        uniforms = coins(rows, draws, seed=seed)
        assert torch.equal(drawn(probs, uniforms), reference.inverted(probs, uniforms))


def test_one_block_serves_a_small_vocabulary_and_any_shape_in_front_does():
    probs, uniforms = normal(2, 3, 77).softmax(-1), coins(2, 3, 5)
    exact = reference.inverted(probs, uniforms)
    assert torch.equal(drawn(probs, uniforms, 8192), exact)
    assert torch.equal(drawn(probs[1, 2], uniforms[1, 2]), exact[1, 2])
    assert torch.equal(
        drawn(probs.transpose(0, 1), uniforms.transpose(0, 1)).transpose(0, 1), exact
    )
    assert drawn(probs[:0], uniforms[:0]).shape == (0, 3, 5)


@pytest.mark.parametrize("block", [2, 4, 8])
def test_a_random_number_at_a_threshold_goes_to_the_token_behind_it(block):
    """Eighths, whose sums are exact: numbers whose heights are these sums, and a little less."""
    probs = torch.tensor([[1, 0, 2, 0, 0, 4, 1, 0]]) / 8
    ends = torch.tensor([1 / 8, 3 / 8, 7 / 8], dtype=torch.float64)
    below, there = ends * (1 - 2**-48), ends * (1 + 2**-50)
    assert torch.equal(there * BELOW_ONE, ends)
    uniforms = torch.cat((torch.tensor([0.0]).double(), below, there))[None]
    assert drawn(probs, uniforms, block).tolist() == [[0, 0, 2, 5, 2, 5, 6]]


@pytest.mark.parametrize(
    ("block", "dtype"), [(1, torch.float64), *product((4, 64), (torch.float32, torch.float64))]
)
def test_the_ends_of_the_unit_interval_draw_tokens_that_have_mass(dtype, block):
    """Whole blocks at both ends have none, nor have tokens between; sums are of any rounding."""
    probs = normal(3, 80).softmax(-1).to(dtype)
    probs[:, :9], probs[:, 30:40], probs[:, -9:] = 0, 0, 0
    probs[0, :-10] = 0  # one token alone
    uniforms = torch.tensor([[0.0, 2**-53, 1 - 2**-50, LAST]]).double().expand(3, -1).contiguous()
    found = drawn(probs, uniforms, block)
    assert found[0].tolist() == [70] * 4
    assert (found[1:] == torch.tensor([9, 9, 70, 70])).all()


def test_sums_that_fall_short_of_the_height_give_the_last_token_that_has_mass():
    """The whole is summed in another order than the running sums, and may be the greater one."""
    probs = normal(16, 20_010).softmax(-1)
    probs[:, -10:] = 0
    found = drawn(probs, torch.full((16, 1), LAST).double(), 32_768)
    ends, wholes = np.cumsum(probs.numpy(), -1)[:, -1], probs.numpy().sum(-1)
    short = torch.from_numpy(ends <= wholes * LAST * BELOW_ONE)
    assert 0 < short.sum() < 16
    assert (found[short] == 19_999).all()
    assert (probs.gather(1, found) > 0).all()
    assert (found > 19_990).all()


@pytest.mark.filterwarnings("ignore:invalid value")  # infinity times nothing
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0.0])
def test_a_sum_that_is_no_number_above_zero_gives_no_token(bad):
    probs = normal(3, 200).softmax(-1).float()
    probs[1] = 0
    probs[1, 130] = bad
    uniforms = coins(3, 4)
    uniforms[:, 0], uniforms[:, 1] = 0, LAST
    found = drawn(probs, uniforms)
    assert (found[1] == 200).all()
    assert torch.equal(found, reference.inverted(probs, uniforms))


def test_tokens_are_drawn_as_often_as_they_should_be():
    """And not as another distribution would have it."""
    p = torch.tensor([0.5, 0.0, 0.3, 0.15, 0.0, 0.05])
    counts = np.bincount(drawn(p[None], coins(1, 500), 4)[0].numpy(), minlength=6)
    assert counts[1] == counts[4] == 0
    for factor in (1.0, 1.5):
        law = p.double().numpy()[p > 0] * [1.0, factor, 1.0, 1.0]
        pvalue = stats.chisquare(counts[p > 0], law / law.sum() * counts.sum()).pvalue
        assert (pvalue > FEW) == (factor == 1)


def test_a_source_draws_the_same_tokens_by_the_kernel():
    probs, device = normal(4, 90).softmax(-1).float(), torch.device("cpu")
    plain, other = seeded_source(5, device), seeded_source(5, device)
    for draw in (
        lambda source: source.with_replacement(probs, 3),
        lambda source: source.with_replacement(probs[0], 2),
        lambda source: source.categorical(probs.double()),
        lambda source: source.categorical(probs[1]),
    ):
        with (
            patch.object(randomness, "has_kernels", lambda device: True),
            patch.object(randomness, "inverted", wraps=inverted) as called,
        ):
            found = draw(other)
        assert called.call_count == 1
        assert torch.equal(found, draw(plain))
