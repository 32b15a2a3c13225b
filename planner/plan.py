"""The plan: a decision to draft in one way, verify in one way, and what is expected of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from .drafting import Drafting, TreeDrafting
from .profile import Execution, Machine, ModelInfo, Sampling
from .schema import Document, Part, PlannerError, read_json, write_atomically
from .tree import Tree


@dataclass(frozen=True)
class VerifierTraits:
    """What planning must know of a verifier; the verifier itself lives in `runtime.verifiers`."""

    summary: str
    max_children: int | None = None
    """Most children of one node that the method can serve; None: any number."""
    incremental: bool = True
    """May siblings be drawn one at a time, deciding in between whether to draw another?"""
    nested: bool = True
    """Is the first part of a sample of k children a sample of fewer children?"""
    distinct: bool = True
    """Are the children of one node different tokens?"""
    deterministic: bool = False
    """Are the children a function of the draft's distribution (no sampling)?"""
    by_rank_alone: bool = True
    """Does a child's acceptance depend on its rank alone?  If not, it depends on how many siblings
    it has too."""
    non_increasing: bool = False
    """Is no child ever likelier to be accepted than an earlier sibling, whatever p and q are?"""

    @property
    def grows(self) -> bool:
        """May it be decided while drafting whether a node gets another child?"""
        return self.incremental and self.nested and self.by_rank_alone


VERIFIER_TRAITS: dict[str, VerifierTraits] = {
    "chain": VerifierTraits("one draw, plain speculative sampling", max_children=1),
    "naive": VerifierTraits(
        "independent draws, target sampled", distinct=False, non_increasing=True
    ),
    "topk": VerifierTraits(
        "the draft's most probable tokens, target sampled", deterministic=True
    ),
    "rrs": VerifierTraits(
        "recursive rejection, independent draws (SpecInfer)", distinct=False, non_increasing=True
    ),
    "kseq": VerifierTraits(
        "K-sequential selection, independent draws (SpecTr)",
        incremental=False, distinct=False, by_rank_alone=False, non_increasing=True,
    ),
    "rrsw": VerifierTraits("recursive rejection, without replacement (Sequoia)"),
    "spechub": VerifierTraits(
        "pairs with the draft's most probable token (SpecHub)",
        max_children=2, incremental=False, nested=False, by_rank_alone=False,
    ),
    "lookahead": VerifierTraits("rejection in pairs, without replacement", incremental=False),
}  # fmt: skip


NonNegative = Annotated[float, Field(ge=0)]

GREEDY_RULE = "topk"
"""At temperature 0 every verifier is this rule: it is what decoding uses there."""


class Estimate(Part):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"low <= value <= high, not {self.low}, {self.value}, {self.high}")
        return self

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


class PredictedSteps(Part):
    """What the steps of trees that grow while they are drafted are expected to look like."""

    nodes: list[float] = Field(description="entry n: share of steps that verify n nodes")
    depth: list[float] = Field(description="entry d: share of steps with d levels below the root")
    draft_passes: float = Field(ge=0, description="per step, on average")
    discard_rate: float = Field(
        ge=0, description="draft tokens verified and thrown away, per token emitted"
    )
    verification_rate: float = Field(ge=0, description="target passes per token emitted")

    @property
    def mean_nodes(self) -> float:
        """Nodes verified by a step on average, root included."""
        return sum(n * share for n, share in enumerate(self.nodes))

    @property
    def mean_depth(self) -> float:
        """Levels below the root on average."""
        return sum(d * share for d, share in enumerate(self.depth))


class Predicted(Part):
    """What the plan is expected to do under the conditions of `made_from`."""

    tokens_per_step: Estimate = Field(description="bonus token included (mean acceptance length)")
    step_ms: Estimate
    autoregressive_ms: Estimate = Field(description="one token of the target alone")
    speedup: Estimate = Field(description="against autoregressive decoding")
    optimality_gap: float | None = Field(
        default=None,
        ge=0,
        description="proven: under these costs, and the acceptance that holds inside this tree, no "
        "tree within the limits is faster by more than this fraction",
    )
    acceptance: list[float] | None = Field(
        default=None, description="by rank, as it holds inside this tree"
    )
    reach: list[NonNegative] | None = Field(
        default=None,
        description="per node: P(its token is emitted) in a step; they sum to tokens_per_step",
    )
    steps: PredictedSteps | None = Field(
        default=None, description="where every step grows a tree of its own"
    )


class MadeFrom(Part):
    """Where the plan came from and under which conditions its prediction holds."""

    created: str
    profile_sha256: str
    machine: Machine
    execution: Execution
    target: ModelInfo
    draft: ModelInfo
    solver: str
    batch_size: int = Field(ge=1)
    context: int = Field(ge=0)
    num_candidates: int = Field(ge=1, description="plans graded before this one was chosen")


class Plan(Document):
    """A decision, valid once loaded."""

    format: Literal["plan"] = "plan"
    version: Literal[1] = 1
    drafting: Drafting
    verifier: str
    sampling: Sampling
    predicted: Predicted | None = None
    made_from: MadeFrom | None = None

    @model_validator(mode="after")
    def _drafting_fits_verifier(self) -> Self:
        traits = VERIFIER_TRAITS.get(self.verifier)
        if traits is None:
            raise ValueError(f"verifier one of {', '.join(VERIFIER_TRAITS)}, not {self.verifier!r}")
        most = self.drafting.most_children
        if traits.max_children is not None and most > traits.max_children:
            raise ValueError(
                f"at most {traits.max_children} children a node for verifier {self.verifier!r}, "
                f"not {most}"
            )
        if self.grows and most > 1 and not traits.grows:
            growing = ", ".join(name for name, each in VERIFIER_TRAITS.items() if each.grows)
            raise ValueError(
                f"a verifier whose siblings can be drawn one at a time ({growing}) for trees that "
                f"grow while they are drafted, not {self.verifier!r}"
            )
        return self

    @model_validator(mode="after")
    def _reach_fits_tree(self) -> Self:
        reach = self.predicted.reach if self.predicted else None
        if reach is None or self.grows:
            return self
        if len(reach) != self.drafting.most_nodes:
            raise ValueError(
                f"predicted.reach of {self.drafting.most_nodes} entries, one a node, "
                f"not {len(reach)}"
            )
        if reach[0] == 0:
            raise ValueError("predicted.reach of the root above 0, since every step emits a token")
        return self

    @property
    def grows(self) -> bool:
        """Is every step's tree decided on while it is drafted?"""
        return not isinstance(self.drafting, TreeDrafting)

    @property
    def tree(self) -> Tree:
        """The tree of every step.  Raises PlannerError for a plan whose trees grow."""
        if isinstance(self.drafting, TreeDrafting):
            return self.drafting.tree
        raise PlannerError(
            f"drafting.kind: got {self.drafting.kind!r}, expected 'tree' (one tree for all steps); "
            "plan with another solver"
        )

    @property
    def speculates(self) -> bool:
        return self.drafting.most_nodes > 1

    def save(self, path: str | Path) -> None:
        write_atomically(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read and check a plan.  Raises PlannerError."""
        return cls.parse(read_json(path), str(path))
