"""The tree of one step while it is drafted: its shape on the host, its tokens where they are made.

Nodes are numbered in the order in which they are added, parents first.  A node is *expanded* once
the draft model has a distribution for its children.
"""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tree_kernels.host.ancestry import add_below

FIRST_CAPACITY = 64


class Room:
    """Arrays for the nodes of one tree at a time: right after a model's pass, with nothing of the
    interpreter left in the caches, a tenth of a millisecond goes into making new ones."""

    def __init__(self, capacity: int = FIRST_CAPACITY) -> None:
        self.parents = np.full(capacity, -1, np.int64)
        self.depths = np.zeros(capacity, np.int64)
        self.ancestors = np.zeros((capacity, capacity), bool)
        self.ancestors[0, 0] = True
        self.host_tokens = torch.zeros(capacity, dtype=torch.int64)
        self.tokens: np.ndarray = self.host_tokens.numpy()
        """The same memory."""

    @property
    def capacity(self) -> int:
        return len(self.parents)

    def make(self, capacity: int) -> None:
        """Room for so many; what is there stays."""
        larger = Room(capacity)
        had = self.capacity
        larger.parents[:had], larger.depths[:had] = self.parents, self.depths
        larger.ancestors[:had, :had] = self.ancestors
        larger.tokens[:had] = self.tokens
        vars(self).update(vars(larger))


class DraftTree:
    """The root and what has been drafted below it so far; tokens stay on the device.

    room  where it is kept, until the next tree that is kept there

    Children are added where there are none yet, level by level, the children of a node by rank.
    """

    def __init__(self, root: int, device: torch.device, room: Room) -> None:
        self._root, self._device, self._room = root, device, room
        self._tokens: list[Tensor] = []
        self._tokens_start: list[int] = []
        self._all_tokens: Tensor | None = None
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
        return self._room.parents[: self.num_nodes]

    @property
    def depths(self) -> np.ndarray:
        """int64 [num_nodes]; the root's is 0."""
        return self._room.depths[: self.num_nodes]

    @property
    def ancestors(self) -> np.ndarray:
        """bool [num_nodes, num_nodes]: is the second an ancestor of the first, or the same?"""
        return self._room.ancestors[: self.num_nodes, : self.num_nodes]

    @property
    def depth(self) -> int:
        """Levels below the root."""
        return int(self._room.depths[self.num_nodes - 1])

    @property
    def tokens(self) -> Tensor:
        """int64 [num_nodes], on the device, the root's first."""
        if self._all_tokens is None:
            root = torch.tensor([self._root], device=self._device)
            self._all_tokens = torch.cat([root, *self._tokens])
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
        """int64 [len(nodes)] on the device, of nodes below the root that were added together."""
        part = bisect(self._tokens_start, nodes[-1]) - 1
        start = self._tokens_start[part]
        if len(nodes) == len(self._tokens[part]):
            return self._tokens[part]
        return self._tokens[part][torch.tensor(nodes, device=self._device).sub_(start)]

    def visible(self, nodes: Sequence[int], among: Sequence[int]) -> Tensor:
        """bool [len(nodes), len(among)] on the device: is the second an ancestor or the same?"""
        return self._to_device(self._room.ancestors[np.array(nodes)[:, None], among])

    def visible_to_all(self) -> Tensor:
        """bool [num_nodes, num_nodes] on the device: the mask of the verification pass."""
        return self._to_device(self.ancestors)

    def positions(self, root_position: int, nodes: Sequence[int] | None = None) -> Tensor:
        """int64 on the device: text positions of `nodes` (default all)."""
        depths = self.depths if nodes is None else self._room.depths[nodes]
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
        room, start, end = self._room, self.num_nodes, self.num_nodes + num_new
        if end > room.capacity:
            room.make(max(2 * room.capacity, end))
        child = start
        for parent, count in zip(parents, counts, strict=True):
            family = range(child, child + count)
            self.children[parent].extend(family)
            for child in family:
                room.parents[child] = parent
            child = family.stop
        add_below(room.parents, room.depths, room.ancestors, start, end)
        self.children.extend([] for _ in range(num_new))
        self.num_nodes = end

    def _to_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device, non_blocking=True)


class CandidateTree(DraftTree):
    """A tree whose nodes draw ordered candidates and reveal some of them, now or later.

    Tokens are kept on the host, where a draft pass brings them with what its rule is shown.
    Children may be added anywhere, also to nodes that have some: a node's children need not be
    numbered one after the other.
    """

    def __init__(self, root: int, device: torch.device, room: Room, max_children: int) -> None:
        super().__init__(root, device, room)
        self._max_children = max_children
        self._candidates: dict[int, list[int]] = {}
        room.tokens[0] = root

    @property
    def depth(self) -> int:
        return int(self.depths.max())

    @property
    def tokens(self) -> Tensor:
        return self.host_tokens.to(self._device, non_blocking=True)

    @property
    def host_tokens(self) -> Tensor:
        return self._room.host_tokens[: self.num_nodes]

    def tokens_of(self, nodes: Sequence[int]) -> Tensor:
        return self._to_device(self._room.tokens[nodes])

    def is_expanded(self, node: int) -> bool:
        return node in self._draft_rows

    def draw(self, nodes: Sequence[int], draft_probs: Tensor, candidates: np.ndarray) -> None:
        """Expand `nodes`: distributions float [w, V] and candidates int64 [w, K] below them.

        Children that had been revealed before get their tokens.
        """
        self.expand(nodes, draft_probs)
        for node, row in zip(nodes, candidates.tolist(), strict=True):
            self._candidates[node] = row
            for child, token in zip(self.children[node], row, strict=False):
                self._room.tokens[child] = token

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
        first = self.num_nodes
        self._add_nodes(parents, counts, num_new)
        tokens = self._room.tokens
        for parent in dict.fromkeys(parents):
            children = self.children[parent]
            if len(children) > self._max_children:
                raise ValueError(
                    f"node {parent}: got {len(children)} children asked for, "
                    f"expected at most {self._max_children}"
                )
            row = self._candidates.get(parent)
            if row is not None:
                for rank in range(bisect_left(children, first), len(children)):
                    tokens[children[rank]] = row[rank]
