"""The cache keeps accepted paths, rewinds and grows without touching what it holds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from planner import PlannerError
from runtime import cache as cache_module
from runtime.cache import TreeCache
from tree_kernels import reference
from tree_kernels.host.keeping import move_rows

LAYERS, HEADS, SIZE = 3, 2, 5


def rows(num_rows: int, seed: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """New keys and values [1, heads, n, head size] of each layer; head sizes may differ."""
    rng = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(1, HEADS, num_rows, SIZE, generator=rng),
            torch.randn(1, HEADS, num_rows, SIZE + 2, generator=rng),
        )
        for _ in range(LAYERS)
    ]


def append(cache: TreeCache, new: list[tuple[torch.Tensor, torch.Tensor]]) -> list:
    seen = [cache.update(keys, values, layer) for layer, (keys, values) in enumerate(new)]
    cache.append(new[0][0].shape[2])
    return seen


def held(cache: TreeCache) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The keys and values that an empty forward pass would see."""
    nothing = rows(0, seed=0)
    return [
        (keys.clone(), values.clone())
        for keys, values in (cache.update(*nothing[layer], layer) for layer in range(LAYERS))
    ]


def assert_same(got, expected) -> None:
    for pair, wanted in zip(got, expected, strict=True):
        for tensor, other in zip(pair, wanted, strict=True):
            assert torch.equal(tensor, other)


def joined(*parts):
    return [
        tuple(torch.cat([part[layer][which] for part in parts], dim=2) for which in (0, 1))
        for layer in range(LAYERS)
    ]


def picked(content, index: list[int]):
    return [tuple(tensor[:, :, index] for tensor in pair) for pair in content]


@pytest.mark.parametrize("capacity", [0, 1, 7, 100])
def test_a_pass_sees_all_rows_before_it_and_its_own(capacity):
    cache = TreeCache(LAYERS, capacity)
    first, second, third = rows(4, 1), rows(1, 2), rows(9, 3)
    assert_same(append(cache, first), first)
    assert_same(append(cache, second), joined(first, second))
    assert_same(append(cache, third), joined(first, second, third))
    assert cache.length == cache.get_seq_length() == 14


@pytest.mark.parametrize("kept", [[], [0], [0, 1, 2], [0, 2, 5], [1], [5], [3, 4, 5]])
def test_keep_rows_keeps_the_prefix_and_the_path(kept):
    cache = TreeCache(LAYERS, 3)
    prefix, tree, after = rows(4, 1), rows(6, 2), rows(2, 3)
    append(cache, prefix)
    append(cache, tree)
    cache.keep_rows(4, kept)
    assert cache.length == 4 + len(kept)
    expected = joined(prefix, picked(tree, kept))
    assert_same(held(cache), expected)
    assert_same(append(cache, after), joined(expected, after))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kept", [[1], [0, 2, 5], [5, 6, 7], [3, 4, 5]])
def test_rows_are_moved_alike_by_all_who_move_them(kept, dtype):
    rng = torch.Generator().manual_seed(1)
    store = torch.randn(2 * LAYERS, 1, HEADS, 12, SIZE, generator=rng).to(dtype)
    expected, launched = store.clone(), store.clone()
    numbers = [torch.tensor(each, dtype=torch.int32) for each in ([4], [kept], [len(kept)])]
    reference.keep_rows_(expected, *numbers)
    words = store.view(cache_module.WORDS[store.element_size()])
    move_rows(words.numpy(), 4, np.array(kept))
    cache_module._move_rows_in_one_launch_(launched, 4, kept)
    assert torch.equal(store, expected)
    assert torch.equal(launched, expected)


@pytest.mark.parametrize("length", [0, 1, 4, 6, 10])
def test_rewind_forgets_what_came_after(length):
    cache = TreeCache(LAYERS, 3)
    content, after = rows(10, 1), rows(3, 2)
    append(cache, content)
    cache.rewind(length)
    expected = picked(content, list(range(length)))
    assert_same(held(cache), expected)
    assert_same(append(cache, after), joined(expected, after))


def test_rewinding_before_a_kept_path_gives_the_rows_of_then():
    cache = TreeCache(LAYERS, 3)
    prefix = rows(4, 1)
    append(cache, prefix)
    for seed, kept in ((2, [0, 3]), (3, [0]), (4, [0, 1, 5])):
        append(cache, rows(6, seed))
        cache.keep_rows(cache.length - 6, kept)
    cache.rewind(4)
    assert_same(held(cache), prefix)


def test_rewinding_ahead_changes_nothing():
    cache = TreeCache(LAYERS, 3)
    append(cache, rows(4, 1))
    cache.rewind(9)
    assert cache.length == 4


def test_an_empty_cache_can_be_kept_and_rewound():
    cache = TreeCache(LAYERS, 3)
    cache.rewind(0)
    cache.keep_rows(0, [])
    assert cache.length == 0


def test_no_memory_moves_while_the_capacity_lasts():
    cache = TreeCache(LAYERS, 50)
    append(cache, rows(10, 1))
    place = cache.update(*rows(0, 0)[0], 0)[0].data_ptr()
    for seed in range(10):
        append(cache, rows(6, seed))
        cache.keep_rows(10 + seed, [2])
    assert cache.update(*rows(0, 0)[0], 0)[0].data_ptr() == place


def test_layers_of_different_shape_are_refused():
    cache = TreeCache(LAYERS, 3)
    keys, values = rows(2, 1)[0]
    cache.update(keys, values, 0)
    with pytest.raises(PlannerError, match="layers differ in key-value shape"):
        cache.update(keys[..., :2], values, 1)
