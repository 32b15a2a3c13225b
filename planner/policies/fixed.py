"""The same tree at every step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from ..documents.counted import counted
from ..documents.document import PlannerError
from ..documents.tree import Tree
from .policy import Policy, PolicySettings, Request


class TreeDrafting(PolicySettings):
    """Draft the same tree at every step.  A lone root means: do not speculate."""

    grows: ClassVar[bool] = False

    kind: Literal["tree"] = "tree"
    parents: list[int] = Field(description="level order; -1 for the root, which comes first")

    @field_validator("parents")
    @classmethod
    def _valid_tree(cls, parents: list[int]) -> list[int]:
        try:
            Tree(parents)
        except PlannerError as error:
            raise ValueError(f"a tree in level order ({error})") from None
        return parents

    @cached_property
    def tree(self) -> Tree:
        return Tree(self.parents)

    @property
    def max_depth(self) -> int:
        """Levels below the root."""
        return self.tree.depth

    @property
    def most_nodes(self) -> int:
        return len(self.parents)

    @property
    def most_children(self) -> int:
        return int(self.tree.num_children.max())

    def words(self) -> str:
        if self.most_children == 1:
            return f"chain of {counted(self.max_depth, 'token')}"
        return f"tree of {self.most_nodes} nodes, depth {self.max_depth}"

    def policy(self, *, deterministic: bool) -> Policy:
        return FixedTree(self.tree)


class FixedTree(Policy):
    """One tree for all steps, drafted level by level, whatever is drawn.

    A `Tree` is numbered as it is drafted: level by level, the children of one node side by side.
    """

    num_candidates = 0

    def __init__(self, tree: Tree) -> None:
        self.num_nodes = tree.num_nodes
        self._levels: list[list[Request]] = [[] for _ in range(tree.depth + 1)]
        for node, depth in enumerate(tree.depths.tolist()):
            count = int(tree.num_children[node])
            if count:
                self._levels[depth].append((node, count))
        self._depth = 0
        self._max_depth = 0

    def start(self, max_depth: int) -> None:
        self._depth, self._max_depth = 0, max_depth

    def grow(self) -> Sequence[Request]:
        if self._depth == self._max_depth:
            return ()
        requests = self._levels[self._depth]
        self._depth += 1
        return requests
