"""The tree of one step while it is drafted: its shape on the host, its tokens where they are drawn.

Nodes are numbered in the order in which they are added, parents first.  A node is *expanded* by a
draft pass: it then has a distribution and, drawn from it, an ordered row of tokens.  Its children
take the first tokens of that row; they may be added before the row is drawn, or one after another
later.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tree_kernels.host.ancestry import add_below

FIRST_CAPACITY = 64


class Room:
    """Arrays for the nodes of one tree at a time: right after a model's pass, with nothing of the
    interpreter left in the caches, a tenth of a millisecond goes into making new ones.

    parents    int64 [capacity]             the root's is -1
    depths     int64 [capacity]             the root's is 0
    ancestors  bool [capacity, capacity]    is the second an ancestor of the first, or the same?
    places     int64 [capacity]             where each node's token stands among `drawn`
    drawn      int64 [any], on the device   the root's token, then all rows, one after the other
    """

    def __init__(self, device: torch.device, capacity: int = FIRST_CAPACITY) -> None:
        self.device = device
        self.parents = np.full(capacity, -1, np.int64)
        self.depths = np.zeros(capacity, np.int64)
        self.ancestors = np.zeros((capacity, capacity), bool)
        self.ancestors[0, 0] = True
        self.places = np.zeros(capacity, np.int64)
        self.keep_drawn(torch.zeros(capacity, dtype=torch.int64, device=device))

    @property
    def capacity(self) -> int:
        """Nodes that there is room for."""
        return len(self.parents)

    def make(self, capacity: int) -> None:
        """Room for so many nodes; what is there stays."""
        more = 0, capacity - self.capacity
        self.parents, self.depths = np.pad(self.parents, more), np.pad(self.depths, more)
        self.ancestors, self.places = np.pad(self.ancestors, more), np.pad(self.places, more)

    def keep_drawn(self, drawn: Tensor) -> None:
        """Take `drawn` for the drawn tokens; on the host, where numpy's calls are the shorter ones,
        it is also seen as an array of the same memory."""
        self.drawn = drawn
        self.host_drawn = drawn.numpy() if self.device.type == "cpu" else None

    def fill_drawn(self, start: int, tokens: Tensor, chosen: Tensor | None = None) -> None:
        """Write tokens int64 [any], or the `chosen` ones, behind the first `start` drawn ones."""
        end = start + len(tokens if chosen is None else chosen)
        if end > len(self.drawn):
            self.keep_drawn(torch.nn.functional.pad(self.drawn, (0, 2 * end - len(self.drawn))))
        if self.host_drawn is not None:
            self.host_drawn[start:end] = (tokens if chosen is None else tokens[chosen]).numpy()
        elif chosen is None:
            self.drawn[start:end] = tokens
        else:
            torch.index_select(tokens, 0, chosen, out=self.drawn[start:end])

    def drawn_at(self, places: np.ndarray) -> Tensor:
        """int64 [any], on the device: the drawn tokens at places int64 [any]."""
        if self.host_drawn is not None:
            return torch.from_numpy(self.host_drawn[places])
        first, num = int(places[0]), len(places)
        if num == 1 or bool((places[1:] - places[:-1] == 1).all()):  # side by side: no transfer
            return self.drawn[first : first + num]
        return self.drawn[self.to_device(places)]

    def to_device(self, array: np.ndarray) -> Tensor:
        """The array as a tensor there."""
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device, non_blocking=True)


def on_device(numbers: Sequence[int], device: torch.device) -> Tensor:
    """int64 [len(numbers)] there, without waiting for it."""
    return torch.tensor(numbers, dtype=torch.int64).to(device, non_blocking=True)


class DraftTree:
    """The root and what has been drafted below it so far, kept in `room` until the next tree is."""

    def __init__(self, root: int, room: Room) -> None:
        self._room = room
        room.drawn[:1].fill_(root)
        self._num_drawn = 1
        self._tokens: Tensor | None = None
        self.num_nodes = 1
        self.depth = 0  # levels below the root
        self.children: list[list[int]] = [[]]
        self.expanded: list[int] = []  # in the order of their draft passes
        self.widths: list[int] = []  # nodes expanded by each draft pass
        self._rows: dict[int, tuple[int, int, int, int]] = {}
        """Draft pass and number of the distribution in it, first place among the drawn tokens and
        number of them, by expanded node."""
        self._draft_probs: list[Tensor] = []

    @property
    def parents(self) -> np.ndarray:
        return self._room.parents[: self.num_nodes]

    @property
    def depths(self) -> np.ndarray:
        return self._room.depths[: self.num_nodes]

    @property
    def ancestors(self) -> np.ndarray:
        return self._room.ancestors[: self.num_nodes, : self.num_nodes]

    @property
    def tokens(self) -> Tensor:
        """int64 [num_nodes], on the device, the root's first."""
        if self._tokens is None:
            self._tokens = self._room.drawn_at(self._room.places[: self.num_nodes])
        return self._tokens

    @property
    def host_tokens(self) -> Tensor:
        """The same on the host: a transfer."""
        return self.tokens.cpu()

    def tokens_of(self, nodes: Sequence[int]) -> Tensor:
        """int64 [len(nodes)], on the device."""
        return self._room.drawn_at(self._room.places[nodes])

    def draft_probs(self, node: int) -> Tensor:
        """float [V]: what the children of an expanded node were sampled from."""
        draft_pass, row, *_ = self._rows[node]
        return self._draft_probs[draft_pass][row]

    def all_draft_probs(self) -> tuple[Tensor | None, np.ndarray]:
        """float [m, V]: the distributions of all expanded nodes, None where no node is; and int32
        [num_nodes]: each node's row, 0 for the others'."""
        firsts = np.cumsum([0, *map(len, self._draft_probs)])
        rows = np.zeros(self.num_nodes, np.int32)
        for node, (draft_pass, row, *_) in self._rows.items():
            rows[node] = firsts[draft_pass] + row
        return (torch.cat(self._draft_probs) if self._draft_probs else None), rows

    def visible(self, nodes: Sequence[int], among: Sequence[int]) -> Tensor:
        """bool [len(nodes), len(among)] on the host: is the second an ancestor or the same?"""
        return torch.from_numpy(self._room.ancestors[np.array(nodes)[:, None], among])

    def visible_to_all(self) -> Tensor:
        """bool [num_nodes, num_nodes] on the host: the mask of the verification pass."""
        return torch.from_numpy(np.ascontiguousarray(self.ancestors))

    def positions(self, root_position: int, nodes: Sequence[int] | None = None) -> Tensor:
        """int64 on the host: text positions of `nodes` (default all)."""
        depths = self.depths if nodes is None else self._room.depths[nodes]
        return torch.from_numpy(depths + root_position)

    def add(self, requests: Sequence[tuple[int, int]]) -> list[int]:
        """Add so many more children to each node, in this order; a node may be one that an earlier
        request added.

        Children of a node that is not expanded get their tokens when it is.  Returns the nodes that
        are named and not expanded, in the order in which they are first named.
        """
        room, children, rows = self._room, self.children, self._rows
        new: dict[int, None] = {}
        child = self.num_nodes
        for node, count in requests:
            start, child = child, child + count
            if child > room.capacity:
                room.make(2 * child)
            if count > 0:
                children[node].extend(range(start, child))
                children.extend([[] for _ in range(count)])
                room.parents[start:child] = node
            if node not in rows:
                new[node] = None
            elif count > 0:
                self._give_places(node, len(children[node]) - count)
        self.depth = max(
            self.depth, add_below(room.parents, room.depths, room.ancestors, self.num_nodes, child)
        )
        self.num_nodes, self._tokens = child, None
        return list(new)

    def draw(
        self,
        nodes: Sequence[int],
        draft_probs: Tensor,
        counts: Sequence[int],
        tokens: Tensor,
        chosen: Tensor | None = None,
    ) -> None:
        """Expand `nodes`: record what was drawn below them.

        draft_probs  float [w, V]
        counts       [w]                 tokens drawn below each node
        tokens       int64 [sum(counts)] on the device, one node's after the other's
        chosen       int64 [sum(counts)] there: their places, where there are others among `tokens`
        """
        place, draft_pass = self._num_drawn, len(self.widths)
        self._room.fill_drawn(place, tokens, chosen)
        self._draft_probs.append(draft_probs)
        for row, (node, count) in enumerate(zip(nodes, counts, strict=True)):
            self._rows[node] = draft_pass, row, place, count
            if self.children[node]:
                self._give_places(node, 0)
            place += count
        self.expanded.extend(nodes)
        self.widths.append(len(nodes))
        self._num_drawn, self._tokens = place, None

    def _give_places(self, node: int, first: int) -> None:
        """Tokens of the node's row for its children from rank `first` on."""
        *_, place, count = self._rows[node]
        family, places = self.children[node], self._room.places
        if len(family) > count:
            raise ValueError(
                f"node {node}: got {len(family)} children asked for, expected at most {count}"
            )
        for rank in range(first, len(family)):
            places[family[rank]] = place + rank
