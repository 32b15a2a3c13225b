"""The tree of one step on a real text, as it was drafted and verified."""

from __future__ import annotations

from functools import cached_property
from typing import Self

from pydantic import Field, model_validator

from ..documents.document import Part, PlannerError, Probability
from ..documents.tree import Tree


class StepTree(Part):
    """A step's drafted tree with its tokens, and what the target accepted of it."""

    continuation: int = Field(ge=0, description="by its place in the report")
    step: int = Field(ge=0, description="by its place in that continuation")
    before: str = Field(description="end of the text so far; the root is its last token")
    parents: list[int] = Field(description="level order; -1 for the root, which comes first")
    tokens: list[str] = Field(description="of every node, as text")
    reach: list[Probability] = Field(
        description="by the draft: product of its probabilities of the tokens from the root down"
    )
    path: list[int] = Field(description="accepted nodes from the root down, without it")
    bonus: str = Field(description="the token that the target added behind them, as text")

    @model_validator(mode="after")
    def _one_tree(self) -> Self:
        try:
            num_nodes = self.tree.num_nodes
        except PlannerError as error:
            raise ValueError(f"a tree in level order ({error})") from None
        for name in ("tokens", "reach"):
            entries = getattr(self, name)
            if len(entries) != num_nodes:
                raise ValueError(f"{name} of {num_nodes} entries, one a node, not {len(entries)}")
        above = [0, *self.path]
        for parent, node in zip(above, self.path, strict=False):
            if not 0 < node < num_nodes or self.parents[node] != parent:
                raise ValueError(f"path of children from the root down, not {self.path}")
        return self

    @cached_property
    def tree(self) -> Tree:
        """Its shape."""
        return Tree(self.parents)
