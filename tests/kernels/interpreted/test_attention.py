"""Laws of tree attention, held by the interpreted kernels."""

import sys

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import tree_kernels
from tests.kernels.trees import chain, int32, random_tree, stacked, star
from tree_kernels import reference
from tree_kernels.configs import Config
from tree_kernels.launches import TreeBlocks, tree_blocks
from tree_kernels.tree_attention import tree_attention

from .calls import LARGE, SMALL, call, one, relative_error

FLOAT32 = 2e-6
"""Relative.  A few hundred terms are summed in float32, 6e-8 each, and an exponent of size 10 in
float32 is known to 10 * 6e-8, so that its power is as well."""

SHAPES = {
    "a lone root without a prefix": one(1, 0),
    "a lone root": one(1, 1),
    "no prefix": one(7, 0, heads=(2, 2)),
    "a tail only": one(2, 7),
    "no tail": one(33, 128),
    "a tail of several blocks": one(63, 127, head_dim=16),
    "groups of three": one(7, 63, heads=(6, 2)),
    "groups of five over tiles": one(40, 31, heads=(5, 1)),
    "one key-value head": one(9, 33, heads=(8, 1), head_dim=64),
    "head dimension 80": one(5, 70, heads=(2, 1), head_dim=80),
    "head dimension 96": one(5, 70, heads=(1, 1), head_dim=96),
    "head dimension 8": one(5, 70, head_dim=8),
    "head dimension 128": one(5, 65, head_dim=128),
    "head dimension 256": one(3, 65, head_dim=256),
    "ragged": call([random_tree(40, 1), chain(1), star(33)], [5, 100, 0], heads=(3, 1)),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("num_splits", [1, 4])
def test_the_kernels_compute_what_the_reference_defines(name, num_splits):
    """More splits than blocks, too: lists of 0 to 6 blocks in up to 4 splits."""
    shape = SHAPES[name]
    output = shape.output(num_splits=num_splits)
    assert relative_error(output, shape.truth()) < FLOAT32
    for text, size in enumerate(shape.tree_sizes.tolist()):
        assert (output[text, :, size:] == 0).all()


# (rounding of the output and of the weights, relative to the largest entry)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float16, 1e-3), (torch.bfloat16, 1e-2)]
)
@pytest.mark.parametrize("num_splits", [1, 2])
def test_the_error_is_that_of_the_type(dtype, tolerance, num_splits):
    shape = one(33, 100, heads=(4, 2), head_dim=64, dtype=dtype)
    output = shape.output(num_splits=num_splits)
    assert output.dtype == dtype
    assert relative_error(output, shape.truth()) < tolerance


def test_neither_tiles_nor_splits_matter():
    """Shares that begin inside a large block, too."""
    shape = one(40, 250, heads=(2, 1))  # tails of 4, 2 and 1 blocks
    base = shape.output()
    large = Config(32, 128, 4, 2, 1)
    tried = [(SMALL, 2), *((large, splits) for splits in (1, 2, 5)), (Config(128, 32, 4, 2, 1), 5)]
    for config, num_splits in tried:
        assert relative_error(shape.output(config, num_splits), base.double()) < FLOAT32


@pytest.mark.parametrize("prefix", [0, 37])
def test_a_chain_is_causal_attention(prefix):
    shape = call([chain(35)], [prefix], heads=(2, 2))
    n, end = 35, prefix + 35
    causal = torch.ones(n, end, dtype=torch.bool).tril(prefix)
    expected = scaled_dot_product_attention(
        shape.query.double(),
        shape.key[:, :, :end].double(),
        shape.value[:, :, :end].double(),
        attn_mask=causal,
    )
    assert relative_error(shape.output(num_splits=2), expected) < FLOAT32


def test_a_star_is_so_many_single_steps():
    """Each leaf sees the prefix, the root and itself."""
    prefix, n = 37, 34
    shape = call([star(n)], [prefix])
    output = shape.output(num_splits=2)
    for leaf in (1, 16, n - 1):
        rows = [*range(prefix + 1), prefix + leaf]
        expected = scaled_dot_product_attention(
            shape.query[:, :, leaf : leaf + 1].double(),
            shape.key[:, :, rows].double(),
            shape.value[:, :, rows].double(),
        )
        assert relative_error(output[:, :, leaf : leaf + 1], expected) < FLOAT32


def test_the_order_of_the_nodes_does_not_matter():
    """Nodes sorted by depth, with their queries, keys and values: the outputs are sorted alike."""
    prefix, parents = 20, random_tree(45, 3)
    shape = call([parents], [prefix])
    seen = reference.visible(shape.ancestor_bits)[0, :, :45]
    order = torch.argsort(seen.sum(1), stable=True)
    key, value = shape.key.clone(), shape.value.clone()
    key[:, :, prefix : prefix + 45] = shape.key[:, :, prefix + order]
    value[:, :, prefix : prefix + 45] = shape.value[:, :, prefix + order]
    output = tree_attention(
        shape.query[:, :, order],
        key,
        value,
        shape.prefix_lengths,
        reference.packed(seen[order][:, order])[None],
        config=LARGE,
        num_splits=2,
    )
    assert relative_error(output, shape.output(num_splits=2)[:, :, order].double()) < FLOAT32


def test_padding_changes_nothing():
    """Not a single bit: rows of a tile do not meet."""
    tree = random_tree(21, 5)
    alone = call([tree], [50], heads=(2, 1))
    padded = call([tree, random_tree(40, 6)], [50, 3], heads=(2, 1))
    for mine, theirs in ((padded.query, alone.query), (padded.key, alone.key)):
        mine[0, :, : theirs.shape[2]] = theirs[0]
    padded.value[0, :, : alone.value.shape[2]] = alone.value[0]
    output = padded.output(num_splits=2)
    assert torch.equal(output[0, :, :21], alone.output(num_splits=2)[0])
    assert (output[0, :, 21:] == 0).all()


def test_texts_may_share_one_tree():
    shape = call([random_tree(35, 1)] * 2, [40, 3])
    once = shape.ancestor_bits[:1]
    output = tree_attention(
        shape.query, shape.key, shape.value, shape.prefix_lengths, once, config=LARGE, num_splits=2
    )
    assert relative_error(output, shape.truth()) < FLOAT32


def test_the_newest_rows_alone_can_ask():
    shape = one(45, 20, heads=(2, 1))
    output = tree_attention(
        shape.query[:, :, -6:],
        shape.key,
        shape.value,
        shape.prefix_lengths,
        shape.ancestor_bits[:, -6:],
        tree_rows=int32(45),
        config=SMALL,
        num_splits=2,
    )
    assert relative_error(output, shape.truth()[:, :, -6:]) < FLOAT32


@pytest.mark.parametrize("num_splits", [1, 4])
def test_a_query_that_sees_nothing_gives_zero(num_splits):
    shape = one(40, 0)
    shape.ancestor_bits[0, 7] = 0
    output = shape.output(num_splits=num_splits)
    assert (output[0, 0, 7] == 0).all()
    assert relative_error(output, shape.truth()) < FLOAT32


def test_large_scores_overflow_nothing():
    """Scores of a million: 2 to the power of any of them, or of most differences, has no float."""
    shape = one(33, 40)
    shape.query.mul_(1e3)
    shape.key.mul_(1e3)
    output = shape.output(num_splits=3)
    assert relative_error(output, shape.truth()) < FLOAT32


def test_scores_are_scaled():
    shape = one(5, 40, head_dim=16)
    output = shape.output(scaling=0.7)
    arguments = (shape.prefix_lengths, shape.ancestor_bits)
    truth = reference.tree_attention(
        shape.query.double(), shape.key.double(), shape.value.double(), *arguments, scaling=0.7
    )
    assert relative_error(output, truth) < FLOAT32


def test_the_output_lies_in_memory_as_the_query_does():
    """Heads side by side, as the layers before and behind have them."""
    shape = one(5, 40, heads=(4, 2))
    query = shape.query.transpose(1, 2).contiguous().transpose(1, 2)
    arguments = (shape.key, shape.value, shape.prefix_lengths, shape.ancestor_bits)
    output = tree_attention(query, *arguments, config=SMALL)
    assert output.stride() == query.stride()
    assert relative_error(output, shape.truth()) < FLOAT32


@pytest.mark.parametrize(("prefix", "rows"), [(70, 9), (30, 1000), (1000, 5), (0, 96)])
def test_lengths_beyond_the_cache_are_cut(prefix, rows):
    """Wrong lengths give wrong numbers, but nothing beside a tensor is read (it holds NaN)."""
    shape = one(5, 20, heads=(2, 1))
    shape.key.nan_to_num_()
    shape.value.nan_to_num_()
    wrong = type(shape)(
        shape.query, shape.key, shape.value, int32(prefix), shape.ancestor_bits, int32(9)
    )
    output = wrong.output(SMALL, num_splits=2, tree_rows=int32(rows))
    assert output.isfinite().all()


def lists_of(blocks: TreeBlocks) -> list[list[list[int]]]:
    """The block numbers of every tile of every text."""
    return [
        [row[:count].tolist() for row, count in zip(lists, counts, strict=True)]
        for lists, counts in zip(blocks.lists, blocks.counts.tolist(), strict=True)
    ]


@pytest.mark.parametrize("group", [1, 3, 8, 20])
@pytest.mark.parametrize("config", [SMALL, LARGE])
def test_the_lists_name_the_blocks_in_which_a_tile_sees_anything(group, config):
    """Against a look at every row, (node, head), of every tile; with ragged trees, which are
    smaller where tiles are many."""
    sizes = (130, 65) if group <= config.block_m else (66, 33)
    parents = stacked(*(random_tree(n, n) for n in sizes))
    bits = reference.ancestor_bits(parents)
    blocks = tree_blocks(bits, 2, group, config, tree_sizes=int32(*sizes))
    for text, size in enumerate(sizes):
        tiles = []
        for tile in range(-(-max(sizes) * group // config.block_m)):
            rows = range(tile * config.block_m, (tile + 1) * config.block_m)
            nodes = [row // group for row in rows if row // group < size]
            some = (bits[text, nodes] != 0).any(0) if nodes else torch.zeros(5) > 0
            tiles.append(some.nonzero().flatten().tolist())
        assert lists_of(blocks)[text] == tiles


@pytest.mark.parametrize("num_splits", [1, 3])
def test_lists_change_nothing(num_splits):
    """Not a single bit without splits; empty blocks give a row nothing."""
    shape = call([star(70), random_tree(40, 2)], [40, 0], heads=(2, 1))
    blocks = tree_blocks(shape.ancestor_bits, 2, 2, LARGE, tree_sizes=shape.tree_sizes)
    assert int(blocks.counts.sum()) < blocks.lists.numel()
    with_lists = shape.output(num_splits=num_splits, blocks=blocks)
    without = shape.output(num_splits=num_splits)
    if num_splits == 1:
        assert torch.equal(with_lists, without)
    assert relative_error(with_lists, shape.truth()) < FLOAT32


def test_large_trees_have_lists_by_themselves():
    shape = call([star(260)], [30])
    assert relative_error(shape.output(Config(128, 64, 4, 2, 1), 2), shape.truth()) < FLOAT32


def test_options_that_do_not_fit_are_named_in_one_line():
    shape = one(5, 20)
    with pytest.raises(ValueError, match="num_splits"):
        shape.output(num_splits=0)
    with pytest.raises(ValueError, match="num_splits"):
        shape.output(num_splits=129)
    blocks = tree_blocks(shape.ancestor_bits, 1, 1, SMALL)
    with pytest.raises(ValueError, match="blocks"):
        shape.output(LARGE, blocks=blocks)


def test_lists_for_all_layers_are_those_of_each(monkeypatch):
    """As the call itself would choose tiles; no call then makes its own."""
    module = sys.modules["tree_kernels.tree_attention"]
    bits, rows = reference.ancestor_bits(random_tree(230, 3)[None]), int32(230)
    query, key, value = torch.randn(1, 4, 230, 16), *torch.randn(2, 1, 2, 270, 16)
    arguments = query, key, value, int32(31), bits
    shared = tree_kernels.shared_blocks(query, 2, bits, rows)
    assert shared is not None

    def made_again(*given, **others):
        raise AssertionError("lists")

    monkeypatch.setattr(module, "tree_blocks", made_again)
    got = tree_kernels.tree_attention(*arguments, tree_rows=rows, blocks=shared, backend="triton")
    expected = reference.tree_attention(*(each.double() for each in arguments[:3]), *arguments[3:])
    assert relative_error(got, expected) < FLOAT32
    assert tree_kernels.shared_blocks(query[:, :, :9], 2, bits[:, :9, :1], int32(9)) is None
