"""The token tree: parents in level order, and everything that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from .document import PlannerError


class Tree:
    """A rooted token tree, given by the parent of each node in level order.

    parents  int32 [n]  parents[0] == -1 (the root); parents never decrease along the list

    So every shape has exactly one such list.  The k-th child of a node, in this order, has rank k:
    it is the k-th to be tried in verification.
    The root is the last token already decided; the other n - 1 nodes are drafted.

    Raises PlannerError if `parents` is no such list.
    """

    def __init__(self, parents: Sequence[int] | np.ndarray) -> None:
        self._parents = _checked(parents)
        self._parents.setflags(write=False)

    @property
    def parents(self) -> np.ndarray:
        """int32 [n], read-only."""
        return self._parents

    @property
    def num_nodes(self) -> int:
        """Nodes verified at once, root included."""
        return len(self._parents)

    @property
    def depth(self) -> int:
        """Levels below the root."""
        return int(self.depths[-1])

    @cached_property
    def depths(self) -> np.ndarray:
        """int32 [n], root 0."""
        depths = np.zeros(self.num_nodes, np.int32)
        for node in range(1, self.num_nodes):
            depths[node] = depths[self._parents[node]] + 1
        return depths

    @cached_property
    def ranks(self) -> np.ndarray:
        """int32 [n]: place among the siblings, 0-based; the root's is 0."""
        # parents never decrease: siblings stand together, the first where its parent is first met
        first = np.searchsorted(self._parents, self._parents)
        return (np.arange(self.num_nodes) - first).astype(np.int32)

    @cached_property
    def num_children(self) -> np.ndarray:
        """int32 [n]."""
        return np.bincount(self._parents[1:], minlength=self.num_nodes).astype(np.int32)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The children of every node, by rank."""
        ends = 1 + np.cumsum(self.num_children)
        nodes = range(self.num_nodes)
        return tuple(
            tuple(nodes[end - count : end])
            for end, count in zip(ends.tolist(), self.num_children.tolist(), strict=True)
        )

    @cached_property
    def level_sizes(self) -> np.ndarray:
        """int32 [depth + 1]: nodes at each depth."""
        return np.bincount(self.depths).astype(np.int32)

    @cached_property
    def widths(self) -> np.ndarray:
        """int32 [depth]: *expanded* nodes (those with children) at each level that drafts one.

        One draft pass per entry, over that many nodes.
        """
        expanded = self.depths[self.num_children > 0]
        return np.bincount(expanded, minlength=self.depth).astype(np.int32)

    @property
    def is_uniform(self) -> bool:
        """Has every node as many children as the others of its level?"""
        below = np.append(self.level_sizes[1:], 0)
        return bool((self.num_children * self.level_sizes[self.depths] == below[self.depths]).all())

    @cached_property
    def ancestors(self) -> np.ndarray:
        """bool [n, n]: entry (i, j) says that j is i or an ancestor of i, so that i may see j."""
        mask = np.eye(self.num_nodes, dtype=bool)
        for node in range(1, self.num_nodes):
            mask[node] |= mask[self._parents[node]]
        return mask

    def __len__(self) -> int:
        return self.num_nodes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and np.array_equal(self._parents, other._parents)

    def __hash__(self) -> int:
        return hash(self._parents.tobytes())

    def __repr__(self) -> str:
        return f"Tree({self._parents.tolist()})"


def _checked(parents: Sequence[int] | np.ndarray) -> np.ndarray:
    try:
        array = np.asarray(parents)
    except ValueError:  # lists of several lengths
        array = np.empty(0)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise PlannerError(f"parents: got {parents!r:.80}, expected a non-empty list of integers")
    if array[0] != -1:
        raise PlannerError(f"parents[0]: got {array[0]}, expected -1 for the root")
    wrong = (array[1:] < 0) | (array[1:] >= np.arange(1, array.size))
    if wrong.any():
        node = int(wrong.argmax()) + 1
        raise PlannerError(
            f"parents[{node}]: got {array[node]}, expected a node before it (0..{node - 1})"
        )
    falls = array[2:] < array[1:-1]
    if falls.any():
        node = int(falls.argmax()) + 2
        raise PlannerError(
            f"parents[{node}]: got {array[node]} after {array[node - 1]}, expected level order "
            "(parents never decrease: number the nodes level by level)"
        )
    return array.astype(np.int32)
