"""Nodes of many trees in one model's cache, behind the text that they all stand in."""

from __future__ import annotations

import torch
from torch import Tensor

from runtime.cache import RowCache


class CachedNodes:
    """The rows of the cache in which the nodes of some trees lie, and what each of them may see.

    cache     holds the text
    roots     int64 [G]  each tree's root stands in the text at this row
    num_rows  most nodes of a tree that are ever placed, the root being 0
    """

    def __init__(self, cache: RowCache, roots: Tensor, num_rows: int) -> None:
        self.cache = cache
        self._roots, self._read = roots, cache.length
        wide = len(roots), num_rows, num_rows
        self._above = torch.zeros(wide, dtype=torch.long, device=roots.device)
        """Rows of the cache of each node's ancestors, its own last, by depth below the root."""

    def place(
        self, trees: Tensor, parents: Tensor, nodes: Tensor, depths: Tensor, at: Tensor
    ) -> None:
        """Say that `nodes` at `depths`, children of `parents`, lie in rows `at`; int64 [w] each."""
        above = self._above[trees, parents]
        above[torch.arange(len(trees), device=trees.device), depths - 1] = at
        self._above[trees, nodes] = above

    def visible(self, trees: Tensor, nodes: Tensor, depths: Tensor) -> Tensor:
        """bool [w, all rows, w new ones included]: the text up to the root, the ancestors, and the
        node itself."""
        places = torch.arange(self.cache.length + len(trees), device=trees.device)
        visible = (places <= self._roots[trees, None]) & (places < self._read)
        above = self._above[trees, nodes]
        levels = torch.arange(above.shape[1], device=trees.device)
        own = above.gather(1, depths[:, None] - 1)
        return visible.scatter_(1, above.where(levels < depths[:, None], own), True)
