"""The definitions in plain torch against separate causal attention along each root-to-node path."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from tree_kernels import accept_walk, ancestor_bits, keep_rows_, tree_attention
from tree_kernels.reference import visible

from .trees import chain, int32, path_to, random_tree, stacked, star

TREES = {
    "lone root": chain(1),
    "chain": chain(7),
    "star": star(7),
    "bushy": torch.tensor([-1, 0, 0, 1, 1, 2, 3], dtype=torch.int32),
    "more than a word": random_tree(40, 1),
}


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("prefix", [0, 1, 7, 63])
@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(1, 1), (6, 2), (5, 1)])
def test_a_node_attends_as_if_its_path_were_the_text(name, prefix, num_heads, num_kv_heads):
    parents, rng = TREES[name], torch.Generator().manual_seed(prefix)
    n, width = len(parents), 16

    def draw(*shape):
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    query = draw(2, num_heads, n, width)
    key, value = draw(2, num_kv_heads, prefix + n, width), draw(2, num_kv_heads, prefix + n, width)
    bits = ancestor_bits(parents[None])
    output = tree_attention(query, key, value, int32(prefix, prefix), bits)
    for node in range(n):
        rows = [*range(prefix), *(prefix + above for above in path_to(parents, node))]
        expected = scaled_dot_product_attention(
            query[:, :, node : node + 1], key[:, :, rows], value[:, :, rows], enable_gqa=True
        )
        # float64 sums of fewer than 150 terms of size one
        torch.testing.assert_close(output[:, :, node : node + 1], expected, rtol=0, atol=1e-13)


def test_texts_of_a_batch_do_not_see_each_other():
    first, second = random_tree(9, 1), chain(4)
    parents, prefix = stacked(first, second), int32(3, 6)
    query, key, value = (torch.randn(2, 2, rows, 8) for rows in (9, 12, 12))
    key[0, :, 12:] = key[1, :, 10:] = value[1, :, 10:] = float("nan")
    query[1, :, 4:] = float("nan")
    output = tree_attention(
        query, key, value, prefix, ancestor_bits(parents), tree_sizes=int32(9, 4)
    )
    for text, tree in enumerate((first, second)):
        n = len(tree)
        alone = tree_attention(
            query[text, None, :, :n],
            key[text, None],
            value[text, None],
            prefix[text, None],
            ancestor_bits(tree[None]),
        )
        torch.testing.assert_close(output[text, :, :n], alone[0])
    assert (output[1, :, 4:] == 0).all()


def test_the_newest_rows_alone_can_ask():
    """A pass over the last rows of a tree sees the earlier ones in the cache."""
    parents = random_tree(37, 3)
    query, key, value = (torch.randn(1, 2, rows, 8) for rows in (37, 42, 42))
    bits, prefix = ancestor_bits(parents[None]), int32(5)
    whole = tree_attention(query, key, value, prefix, bits)
    last = tree_attention(query[:, :, -6:], key, value, prefix, bits[:, -6:], tree_rows=int32(37))
    torch.testing.assert_close(last, whole[:, :, -6:])


def test_a_query_that_sees_nothing_gives_zero():
    query, key = torch.randn(1, 1, 2, 4), torch.randn(1, 1, 2, 4)
    bits = torch.tensor([[[0], [2]]], dtype=torch.int32)
    output = tree_attention(query, key, key, int32(0), bits)
    assert (output[0, 0, 0] == 0).all()
    torch.testing.assert_close(output[0, 0, 1], key[0, 0, 1])


@pytest.mark.parametrize("name", TREES)
def test_a_node_sees_its_path(name):
    parents = TREES[name]
    seen = visible(ancestor_bits(stacked(parents, chain(3)), num_words=3))
    for node in range(len(parents)):
        assert seen[0, node].nonzero().flatten().tolist() == path_to(parents, node)
    assert seen[1, :3, :3].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    if len(parents) > 3:  # padding sees itself
        assert seen[1, 3].nonzero().flatten().tolist() == [3]


def test_kept_rows_stand_behind_the_prefix():
    cache = torch.arange(12.0).view(1, 1, 1, 12, 1).repeat(4, 2, 3, 1, 2)
    rows = torch.tensor([[0, 2, 5], [1, 2, 3]], dtype=torch.int32)
    keep_rows_(cache, int32(3, 0), rows, int32(3, 2))
    assert cache[3, 0, 2, :, 1].tolist() == [0, 1, 2, 3, 5, 8, 6, 7, 8, 9, 10, 11]
    assert cache[0, 1, 1, :, 0].tolist() == [1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]


def test_the_walk_follows_the_targets_tokens():
    parents = stacked(torch.tensor([-1, 0, 0, 1, 1, 2, 4], dtype=torch.int32), star(4))
    tokens = torch.tensor([[9, 5, 6, 7, 8, 1, 3], [9, 4, 4, 4, 0, 0, 0]])
    sampled = torch.tensor([[5, 8, 1, 0, 2, 0, 0], [4, 1, 2, 3, 0, 0, 0]])
    rows, counts, following = accept_walk(parents, tokens, sampled, tree_sizes=int32(7, 4))
    assert rows.tolist() == [[0, 1, 4, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0]]
    assert counts.tolist() == [3, 2]
    assert following.tolist() == [2, 1]


def arguments(**changes):
    tensors = {
        "query": torch.zeros(1, 2, 3, 4),
        "key": torch.zeros(1, 2, 5, 4),
        "value": torch.zeros(1, 2, 5, 4),
        "prefix_lengths": int32(2),
        "ancestor_bits": ancestor_bits(chain(3)[None]),
    }
    return tensors | changes


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"query": torch.zeros(2, 3, 4)}, "query"),
        ({"query": torch.zeros(1, 3, 3, 4)}, "key"),
        ({"query": torch.zeros(1, 2, 3, 8)}, "key"),
        ({"query": torch.zeros(1, 2, 3, 4).half()}, "key"),
        ({"query": torch.zeros(1, 2, 0, 4)}, "key"),
        ({"key": torch.zeros(1, 2, 4, 5).mT}, "key"),
        ({"value": torch.zeros(1, 2, 6, 4)}, "value"),
        ({"key": torch.zeros(1, 2, 2, 4), "value": torch.zeros(1, 2, 2, 4)}, "make the cache"),
        ({"prefix_lengths": int32(3)}, "make the cache"),
        ({"prefix_lengths": int32(1, 1)}, "prefix_lengths"),
        ({"prefix_lengths": torch.tensor([2])}, "prefix_lengths"),
        ({"tree_sizes": torch.tensor([2])}, "tree_sizes"),
        ({"tree_rows": int32(2, 2)}, "tree_rows"),
        ({"ancestor_bits": torch.zeros(3, 3)}, "ancestor_bits"),
        ({"ancestor_bits": torch.zeros(1, 4, 1, dtype=torch.int32)}, "ancestor_bits"),
        ({"ancestor_bits": torch.zeros(1, 3, 1, dtype=torch.int64)}, "ancestor_bits"),
        ({"ancestor_bits": torch.zeros(1, 3, 0, dtype=torch.int32)}, "ancestor_bits"),
        ({"scaling": 0.0}, "scaling"),
        ({"scaling": float("inf")}, "scaling"),
        ({"out": torch.zeros(1, 2, 3, 5)}, "out"),
    ],
)
def test_arguments_that_do_not_fit_are_named_in_one_line(changes, names):
    with pytest.raises(ValueError, match=names) as caught:
        tree_attention(**arguments(**changes))
    assert "expected" in str(caught.value)
    assert "\n" not in str(caught.value)
