"""Ancestor bits, kept rows and the acceptance walk, interpreted, against the reference."""

import pytest
import torch

import tree_kernels
from tests.kernels.trees import chain, int32, random_tree, stacked, star
from tree_kernels import reference

from .guarded import Guarded, guarded_allocations


@pytest.mark.parametrize("num_words", [None, 5])
@pytest.mark.parametrize("n", [1, 2, 33, 70])
def test_bits_are_the_references(n, num_words):
    parents = stacked(random_tree(n, 1), chain(n), star(max(1, n - 3)))
    with guarded_allocations():
        bits = tree_kernels.ancestor_bits(parents, num_words, backend="triton")
    assert torch.equal(bits, reference.ancestor_bits(parents, num_words))


def test_parents_that_lead_round_in_a_circle_end():
    parents = torch.tensor([[-1, 2, 1, 0]], dtype=torch.int32)
    bits = tree_kernels.ancestor_bits(parents, backend="triton")
    assert torch.equal(bits, reference.ancestor_bits(parents))


PATHS = {
    "nothing": [[], []],
    "the root": [[0], [3]],
    "already there": [[0, 1, 2], [0, 1, 2, 3]],
    "overlapping": [[0, 2, 3, 4, 9], [1, 2, 3]],
    "far": [[60], [0, 59, 61]],
    "more than one chunk": [list(range(1, 50)), [0, *range(2, 61, 3)]],
}


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kept_rows_are_the_references(name, dtype):
    """Head dimension 200, so that a chunk is 16 rows; cache rows 200 of 208 apart."""
    paths = PATHS[name]
    most = max(map(len, paths)) + 1
    rows = torch.full((2, most), 62, dtype=torch.int32)  # would be rows, too
    for text, path in enumerate(paths):
        rows[text, : len(path)] = torch.tensor(path, dtype=torch.int32)
    counts, prefix = int32(*map(len, paths)), int32(3, 0)
    cache = Guarded((2, 2, 1, 70, 200), dtype)
    cache.tensor.copy_(torch.randn(2, 2, 1, 70, 200))
    expected = cache.tensor.clone()
    reference.keep_rows_(expected, prefix, rows, counts)
    tree_kernels.keep_rows_(cache.tensor, prefix, rows, counts, backend="triton")
    assert torch.equal(cache.tensor, expected)
    assert cache.intact()


def test_rows_beyond_the_cache_are_left_alone():
    cache = Guarded((1, 1, 1, 8, 4), torch.float32)
    cache.tensor.copy_(torch.randn(1, 1, 1, 8, 4))
    rows = torch.tensor([[1, 5, 7, 9]], dtype=torch.int32)
    tree_kernels.keep_rows_(cache.tensor, int32(6), rows, int32(4), backend="triton")
    assert cache.intact()
    assert cache.tensor.isfinite().all()


@pytest.mark.parametrize("seed", range(5))
def test_the_walk_is_the_references(seed):
    """Three tokens, so that paths are long and siblings often hold the same one."""
    rng = torch.Generator().manual_seed(seed)
    parents = stacked(random_tree(50, seed), chain(50), star(9), chain(1))
    tokens = torch.randint(3, parents.shape, generator=rng)
    sampled = torch.randint(3, parents.shape, generator=rng)
    sampled[1] = tokens[1].roll(-1)  # the whole chain is accepted
    sizes = int32(50, 50, 9, 1)
    with guarded_allocations():
        rows, counts, following = tree_kernels.accept_walk(
            parents, tokens, sampled, tree_sizes=sizes, backend="triton"
        )
    expected = reference.accept_walk(parents, tokens, sampled, tree_sizes=sizes)
    assert torch.equal(rows, expected[0])
    assert torch.equal(counts, expected[1])
    assert torch.equal(following, expected[2])
    assert counts[1] == 50
