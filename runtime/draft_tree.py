"""The tree of one step while it is drafted: its shape on the host, its tokens where they are made.

Nodes are numbered in the order in which they are added, parents first.  A node is *expanded* once
the draft model has a distribution for its children.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tree_kernels.ancestry import add_below

FIRST_CAPACITY = 64


class DraftTree:
    """The root and what has been drafted below it so far; tokens stay on the device.

    Children are added where there are none yet, level by level, the children of a node by rank.
    """

    def __init__(self, root: int, device: torch.device) -> None:
        self._device = device
        self._parents = np.full(FIRST_CAPACITY, -1, np.int64)
        self._depths = np.zeros(FIRST_CAPACITY, np.int64)
        self._ancestors = np.eye(FIRST_CAPACITY, dtype=bool)
        self._tokens: list[Tensor] = [torch.tensor([root], device=device)]
        self._tokens_start = [0]
        self._all_tokens: Tensor | None = self._tokens[0]
        self.num_nodes = 1
        self.children: list[list[int]] = [[]]
        self.expanded: list[int] = []
        """Nodes with draft distributions, in the order of their draft passes."""
        self.widths: list[int] = []
        """Nodes expanded by each draft pass."""
        self._draft_rows: dict[int, tuple[int, int]] = {}
        self._draft_probs: list[Tensor] = []

    @property
    def parents(self) -> np.ndarray:
        """int64 [num_nodes]; the root's is -1."""
        return self._parents[: self.num_nodes]

    @property
    def depths(self) -> np.ndarray:
        """int64 [num_nodes]; the root's is 0."""
        return self._depths[: self.num_nodes]

    @property
    def ancestors(self) -> np.ndarray:
        """bool [num_nodes, num_nodes]: is the second an ancestor of the first, or the same?"""
        return self._ancestors[: self.num_nodes, : self.num_nodes]

    @property
    def depth(self) -> int:
        """Levels below the root."""
        return int(self._depths[self.num_nodes - 1])

    @property
    def tokens(self) -> Tensor:
        """int64 [num_nodes], on the device, the root's first."""
        if self._all_tokens is None:
            self._all_tokens = torch.cat(self._tokens)
        return self._all_tokens

    @property
    def host_tokens(self) -> Tensor:
        """The same on the host: a transfer."""
        return self.tokens.cpu()

    def draft_probs(self, node: int) -> Tensor:
        """float [V]: what the children of an expanded node were sampled from."""
        draft_pass, row = self._draft_rows[node]
        return self._draft_probs[draft_pass][row]

    def tokens_of(self, nodes: Sequence[int]) -> Tensor:
        """int64 [len(nodes)] on the device, of nodes that were added together."""
        part = bisect(self._tokens_start, nodes[-1]) - 1
        start = self._tokens_start[part]
        if len(nodes) == len(self._tokens[part]):
            return self._tokens[part]
        return self._tokens[part][torch.tensor(nodes, device=self._device).sub_(start)]

    def visible(self, nodes: Sequence[int], among: Sequence[int]) -> Tensor:
        """bool [len(nodes), len(among)] on the device: is the second an ancestor or the same?"""
        return self._to_device(self._ancestors[np.array(nodes)[:, None], among])

    def visible_to_all(self) -> Tensor:
        """bool [num_nodes, num_nodes] on the device: the mask of the verification pass."""
        return self._to_device(self.ancestors)

    def positions(self, root_position: int, nodes: Sequence[int] | None = None) -> Tensor:
        """int64 on the device: text positions of `nodes` (default all)."""
        depths = self.depths if nodes is None else self._depths[nodes]
        return self._to_device(depths + root_position)

    def expand(self, nodes: Sequence[int], draft_probs: Tensor) -> None:
        """Record the distributions float [len(nodes), V] below `nodes`."""
        draft_pass = len(self._draft_probs)
        self._draft_probs.append(draft_probs)
        for row, node in enumerate(nodes):
            self._draft_rows[node] = (draft_pass, row)
        self.expanded.extend(nodes)
        self.widths.append(len(nodes))

    def add(self, parents: Sequence[int], counts: Sequence[int], tokens: Tensor) -> None:
        """Add `counts[i]` children to `parents[i]`; tokens int64 [sum(counts)], in that order."""
        self._tokens_start.append(self.num_nodes)
        self._tokens.append(tokens)
        self._all_tokens = None
        self._add_nodes(parents, counts, len(tokens))

    def _add_nodes(self, parents: Sequence[int], counts: Sequence[int], num_new: int) -> None:
        """Grow the shape by `num_new` = sum(counts) nodes, all of whose parents are there."""
        start, end = self.num_nodes, self.num_nodes + num_new
        if end > len(self._parents):
            self._make_room(end)
        above = np.array([p for p, n in zip(parents, counts, strict=True) for _ in range(n)])
        add_below(self._parents, self._depths, self._ancestors, start, above)
        for parent, count in zip(parents, counts, strict=True):
            self.children[parent].extend(range(start, start + count))
            start += count
        self.children.extend([] for _ in range(num_new))
        self.num_nodes = end

    def _make_room(self, num_nodes: int) -> None:
        capacity = max(2 * len(self._parents), num_nodes)
        more = capacity - len(self._parents)
        self._parents = np.pad(self._parents, (0, more), constant_values=-1)
        self._depths = np.pad(self._depths, (0, more))
        ancestors = np.eye(capacity, dtype=bool)
        ancestors[: self.num_nodes, : self.num_nodes] = self.ancestors
        self._ancestors = ancestors

    def _to_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device, non_blocking=True)


class CandidateTree(DraftTree):
    """A tree whose nodes draw ordered candidates and reveal some of them, now or later.

    Tokens are kept on the host, where a draft pass brings them with what its rule is shown.
    Children may be added anywhere, also to nodes that have some: a node's children need not be
    numbered one after the other.
    """

    def __init__(self, root: int, device: torch.device, max_children: int) -> None:
        super().__init__(root, device)
        self._max_children = max_children
        self._host_tokens = np.full(FIRST_CAPACITY, root, np.int64)
        self._candidates: dict[int, np.ndarray] = {}

    @property
    def depth(self) -> int:
        return int(self.depths.max())

    @property
    def tokens(self) -> Tensor:
        return self._to_device(self._host_tokens[: self.num_nodes])

    @property
    def host_tokens(self) -> Tensor:
        return torch.from_numpy(self._host_tokens[: self.num_nodes])

    def tokens_of(self, nodes: Sequence[int]) -> Tensor:
        return self._to_device(self._host_tokens[nodes])

    def is_expanded(self, node: int) -> bool:
        return node in self._draft_rows

    def draw(self, nodes: Sequence[int], draft_probs: Tensor, candidates: np.ndarray) -> None:
        """Expand `nodes`: distributions float [w, V] and candidates int64 [w, K] below them.

        Children that had been revealed before get their tokens.
        """
        self.expand(nodes, draft_probs)
        for node, row in zip(nodes, candidates, strict=True):
            self._candidates[node] = row
            for rank, child in enumerate(self.children[node]):
                self._host_tokens[child] = row[rank]

    def reveal(self, requests: Sequence[tuple[int, int]]) -> None:
        """Add so many more children to each node; below a node that is not expanded they get their
        tokens when it is."""
        parents: list[int] = []
        counts: list[int] = []
        num_new = 0
        for node, count in requests:
            if node >= self.num_nodes:  # revealed by an earlier request of this very list
                self._reveal(parents, counts, num_new)
                parents, counts, num_new = [], [], 0
            if count > 0:
                parents.append(node)
                counts.append(count)
                num_new += count
        self._reveal(parents, counts, num_new)

    def _reveal(self, parents: list[int], counts: list[int], num_new: int) -> None:
        if num_new == 0:
            return
        child = self.num_nodes
        self._add_nodes(parents, counts, num_new)
        for parent, count in zip(parents, counts, strict=True):
            if len(self.children[parent]) > self._max_children:
                raise ValueError(
                    f"node {parent}: got {len(self.children[parent])} children asked for, "
                    f"expected at most {self._max_children}"
                )
            row = self._candidates.get(parent)
            if row is not None:
                rank = self.children[parent].index(child)
                self._host_tokens[child : child + count] = row[rank : rank + count]
            child += count

    def _make_room(self, num_nodes: int) -> None:
        super()._make_room(num_nodes)
        more = len(self._parents) - len(self._host_tokens)
        self._host_tokens = np.pad(self._host_tokens, (0, more))
