"""Calls of tree attention with every tensor between guards, and what they should give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.kernels.trees import int32, random_tree, stacked
from tree_kernels import reference
from tree_kernels.configs import Config
from tree_kernels.tree_attention import tree_attention

from .guarded import Guarded, guarded_allocations, holding

SMALL = Config(16, 32, 4, 2, 1)
LARGE = Config(64, 64, 4, 2, 1)


@dataclass(frozen=True)
class Call:
    """The arguments of `tree_attention`; the cache's rows behind the trees hold NaN."""

    query: Tensor
    key: Tensor
    value: Tensor
    prefix_lengths: Tensor
    ancestor_bits: Tensor
    tree_sizes: Tensor

    def truth(self) -> Tensor:
        """The result in float64, of the very numbers that the kernel sees."""
        wide = (self.query.double(), self.key.double(), self.value.double())
        lengths = (self.prefix_lengths, self.ancestor_bits)
        return reference.tree_attention(*wide, *lengths, tree_sizes=self.tree_sizes)

    def output(self, config: Config = LARGE, num_splits: int = 1, **others: object) -> Tensor:
        """The result of the interpreted kernels; asserts that they wrote nothing but it."""
        key, value = holding(self.key), holding(self.value)
        out = Guarded(tuple(self.query.shape), self.query.dtype)
        with guarded_allocations():
            tree_attention(
                self.query,
                key.tensor,
                value.tensor,
                self.prefix_lengths,
                self.ancestor_bits,
                tree_sizes=self.tree_sizes,
                out=out.tensor,
                config=config,
                num_splits=num_splits,
                **others,  # type: ignore[arg-type]
            )
        for store, before in ((key, self.key), (value, self.value)):
            assert store.intact()
            torch.testing.assert_close(store.tensor, before, rtol=0, atol=0, equal_nan=True)
        assert out.intact()
        return out.tensor


def call(
    trees: Sequence[Tensor],
    prefixes: Sequence[int],
    *,
    heads: tuple[int, int] = (1, 1),
    head_dim: int = 32,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Call:
    """Random numbers around these trees and prefix lengths, one of each a text.

    heads  query heads, key-value heads
    """
    rng = torch.Generator().manual_seed(seed)
    parents, batch = stacked(*trees), len(trees)
    n = parents.shape[1]
    num_rows = max(prefixes) + n + 2

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng).to(dtype)

    query = draw(batch, heads[0], n, head_dim)
    key = draw(batch, heads[1], num_rows, head_dim)
    value = draw(batch, heads[1], num_rows, head_dim)
    for text, (tree, prefix) in enumerate(zip(trees, prefixes, strict=True)):
        key[text, :, prefix + len(tree) :] = float("nan")
        value[text, :, prefix + len(tree) :] = float("nan")
        query[text, :, len(tree) :] = float("nan")
    bits = reference.ancestor_bits(parents)
    sizes = int32(*(len(tree) for tree in trees))
    return Call(query, key, value, int32(*prefixes), bits, sizes)


def one(n: int, prefix: int, **others: object) -> Call:
    """One text with a random tree of n nodes."""
    return call([random_tree(n, n)], [prefix], **others)  # type: ignore[arg-type]


def relative_error(output: Tensor, truth: Tensor) -> float:
    """Largest difference, as a part of the largest entry."""
    return float((output.double() - truth).abs().max() / truth.abs().max())
