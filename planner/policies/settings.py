"""Ways of drafting as data: the settings that a plan may hold, one class per kind."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from ..documents.document import Milliseconds, Part, PlannerError
from ..documents.head_card import HeadFile
from ..documents.tree import Tree

NumNodes = Annotated[int, Field(ge=1, description="most nodes of a tree, root included")]
MaxDepth = Annotated[int, Field(ge=1, description="most levels below the root")]
MaxChildren = Annotated[int, Field(ge=1, description="candidates drawn at once below a node")]
Share = Annotated[float, Field(gt=0, lt=1)]
Chance = Annotated[float, Field(ge=0, le=1)]


class TreeDrafting(Part):
    """Draft the same tree at every step.  A lone root means: do not speculate."""

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

    @property
    def tree(self) -> Tree:
        return Tree(self.parents)

    @property
    def max_depth(self) -> int:
        """Levels below the root."""
        return self.tree.depth

    @property
    def most_nodes(self) -> int:
        """Most nodes of any tree, root included."""
        return len(self.parents)

    @property
    def most_children(self) -> int:
        """Most children of one node."""
        return int(self.tree.num_children.max())


class _Grown(Part):
    """Trees that grow while they are drafted, of at most `num_nodes` nodes."""

    num_nodes: NumNodes
    max_depth: MaxDepth
    max_children: MaxChildren

    @property
    def most_nodes(self) -> int:
        """Most nodes of any tree, root included."""
        return self.num_nodes

    @property
    def most_children(self) -> int:
        """Most children of one node."""
        return self.max_children


class GreedyDrafting(_Grown):
    """Always the likeliest place next, up to `num_nodes` nodes (DySpec, Algorithm 1)."""

    kind: Literal["dyspec-greedy"] = "dyspec-greedy"


class ThresholdDrafting(_Grown):
    """Level by level, every place likelier than `threshold` (DySpec, Algorithm 2)."""

    kind: Literal["dyspec-threshold"] = "dyspec-threshold"
    threshold: Share = Field(description="a place is filled if it is reached more often than this")


class _Chain(Part):
    """A chain that ends when the rule says so, at the latest after `max_depth` tokens."""

    max_depth: MaxDepth

    @property
    def most_nodes(self) -> int:
        """Most nodes of any tree, root included."""
        return self.max_depth + 1

    @property
    def most_children(self) -> int:
        """Most children of one node."""
        return 1


class StoppingDrafting(_Chain):
    """A chain, continued while P(a token of it is rejected) <= `threshold` (SpecDec++).

    The probability that all are accepted is the product of one factor a token:
    `head`         what the trained head says of the token,
    `confidence`   the largest entry of the draft distribution that it was drawn from,
    `entropy`      exp(-H) of that distribution,
    `probability`  its own probability there.
    """

    kind: Literal["stopping"] = "stopping"
    score: Literal["head", "confidence", "entropy", "probability"]
    threshold: Share = Field(description="stop once P(some token is rejected) exceeds this")
    head: HeadFile | None = None

    @model_validator(mode="after")
    def _head_where_it_is_used(self) -> Self:
        if (self.score == "head") != (self.head is not None):
            got = "none" if self.head is None else "one"
            raise ValueError(f"a head exactly where score is 'head', not {got} for {self.score!r}")
        return self


class DynamicDrafting(_Chain):
    """The schedule of Hugging Face's assisted generation: a chain of so many tokens, ended early by
    a token of less than `confidence`.

    A text starts with `max_depth` limited to `num_tokens`.  `heuristic`: two more after a step
    that accepted all, one less after any other, at least one; `constant`: unchanged.  `adaptive`:
    the confidence is set anew after every step, to the value that would have told accepted from
    rejected tokens best so far, missed ones counting three times as much as false ones.
    """

    kind: Literal["dynamic"] = "dynamic"
    num_tokens: int = Field(default=20, ge=1, description="drafted at a text's first step")
    schedule: Literal["constant", "heuristic"] = "constant"
    confidence: float = Field(default=0.4, ge=0, lt=1, description="0: never end a chain early")
    adaptive: bool = False


class ConfidentDrafting(_Chain):
    """A chain that ends before a token that the draft is not sure of: continued while the largest
    entry of its distribution is at least `confidence` (llama.cpp's `p-min`)."""

    kind: Literal["confident"] = "confident"
    confidence: float = Field(ge=0, lt=1, description="0: never end a chain early")


class PriceDrafting(_Grown):
    """Draft, widen and verify what is worth its time at one price (see `planner.policies.price`).

    Tables by rank (the last row serves all later ranks) and knot, linear between knots.
    """

    kind: Literal["price"] = "price"
    price_per_ms: float = Field(gt=0, description="tokens that a millisecond is worth")
    node_price: float = Field(
        ge=0, lt=1, description="chance of acceptance from which a slot is filled while drafting"
    )
    lookahead: float = Field(
        gt=0, description="what a draft pass brings in the end, over what its own children do"
    )
    draft_root_ms: float = Field(gt=0)
    draft_ms: list[Milliseconds] = Field(
        min_length=1, description="a later draft pass, by nodes expanded, from 1; no more at once"
    )
    verify_ms: list[Milliseconds] = Field(
        description="verification and overhead, by number of nodes, from 1"
    )
    knots: list[float] = Field(min_length=2)
    before: list[list[Chance]] = Field(
        min_length=1,
        description="P(accepted | tried) before the draw, by the collision of what is left of q",
    )
    after: list[list[Chance]] = Field(
        min_length=1, description="P(accepted | tried) once drawn, by the drawn probability"
    )
    ahead: list[list[Chance]] = Field(
        description="P(accepted | the parent is) by rank, all else unknown: at the root, elsewhere"
    )
    online: bool = Field(default=False, description="follow the measured tokens per millisecond")

    @model_validator(mode="after")
    def _tables_of_one_size(self) -> Self:
        if any(b <= a for a, b in zip(self.knots, self.knots[1:], strict=False)):
            raise ValueError("knots in strictly increasing order")
        if any(len(row) != len(self.knots) for row in (*self.before, *self.after)):
            raise ValueError(f"rows of before and after of {len(self.knots)} entries, as knots")
        if len(self.verify_ms) < self.num_nodes:
            raise ValueError(
                f"verify_ms of at least num_nodes = {self.num_nodes} entries, "
                f"not {len(self.verify_ms)}"
            )
        if [len(row) for row in self.ahead] != [self.max_children] * 2:
            raise ValueError(f"ahead of 2 rows of max_children = {self.max_children} entries")
        return self


GrownDrafting = (
    GreedyDrafting
    | ThresholdDrafting
    | StoppingDrafting
    | DynamicDrafting
    | ConfidentDrafting
    | PriceDrafting
)
"""Every kind whose trees are decided on while they grow."""

Drafting = Annotated[TreeDrafting | GrownDrafting, Field(discriminator="kind")]


def head_of(drafting: Drafting) -> HeadFile | None:
    """The trained head that decides with it, if one does."""
    return drafting.head if isinstance(drafting, StoppingDrafting) else None


def grows_chains(drafting: Drafting) -> bool:
    """Is it one token after the other that a rule decides on?"""
    return isinstance(drafting, _Chain)


def learns(drafting: Drafting) -> bool:
    """Does it change its own settings by what it sees while it decodes a text?"""
    if isinstance(drafting, PriceDrafting):
        return drafting.online
    return isinstance(drafting, DynamicDrafting) and drafting.adaptive
