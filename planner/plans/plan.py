"""The plan: a decision to draft in one way, verify in one way, and what is expected of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import chain, pairwise
from numbers import Real
from sys import float_info
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ..documents.document import Document, Part, PlannerError
from ..documents.engine import EngineFacts
from ..documents.estimate import Estimate
from ..documents.origin import CostsOrigin, Execution, Machine, ModelInfo
from ..documents.sampling import Sampling
from ..documents.tree import Tree
from ..policies import Drafting, Policy, TreeDrafting
from ..verifiers import VERIFIERS, verifier_at
from .alternatives import Alternative
from .settings import PlanSetting

NonNegative = Annotated[float, Field(ge=0)]
NO_DRAFT = "do not speculate"
"""A plan of a lone root, in words."""


class PredictedSteps(Part):
    """The steps that are expected of trees that grow while they are drafted."""

    nodes: list[float] = Field(description="entry n: share of steps that verify n nodes")
    depth: list[float] = Field(description="entry d: share of steps with d levels below the root")
    draft_passes: float = Field(ge=0, description="per step, on average")
    discard_rate: float = Field(
        ge=0, description="draft tokens verified and thrown away, per token emitted"
    )
    verification_rate: float = Field(ge=0, description="target passes per token emitted")
    cut_short: float = Field(
        default=0,
        ge=0,
        le=1,
        description="share of the rounds played that drafted on where nothing was recorded, and "
        "another node stood in, or none",
    )

    @property
    def mean_nodes(self) -> float:
        """Nodes verified by a step on average, root included."""
        return sum(n * share for n, share in enumerate(self.nodes))

    @property
    def mean_depth(self) -> float:
        """Levels below the root on average."""
        return sum(d * share for d, share in enumerate(self.depth))


class Predicted(Part):
    """Predictions of what the plan does under the conditions of `made_from`: the 95 % intervals
    are those of a run over as many other prompts as were profiled."""

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

    @model_validator(mode="after")
    def _above_zero(self) -> Self:
        for name in ("tokens_per_step", "step_ms", "autoregressive_ms", "speedup"):
            low = getattr(self, name).low
            if low <= 0:
                raise ValueError(f"{name}.low above 0, not {low}")
        return self


class MadeFrom(Part):
    """The origin of the plan, and the conditions under which its prediction holds."""

    created: str
    profile_sha256: str = Field(description="of the profile, other costs in it if they were given")
    machine: Machine
    execution: Execution
    target: ModelInfo
    draft: ModelInfo
    engine: EngineFacts | None = Field(
        default=None, description="that carries the plan out, if it is not the runtime"
    )
    costs_from: CostsOrigin | None = Field(
        default=None, description="whose times were planned with, if not the profile's own"
    )
    acceptance_from: str | None = Field(
        default=None, description="by what law acceptance was assumed, where nobody measured it"
    )
    solver: str
    batch_size: int = Field(ge=1)
    context: int = Field(ge=0)
    num_candidates: int = Field(ge=1, description="plans graded before this one was chosen")
    max_nodes: int | None = Field(default=None, ge=1, description="limit of all that was graded")
    max_depth: int | None = Field(default=None, ge=0, description="likewise")
    alternatives: list[Alternative] = Field(
        default=[],
        description="the best of each verifier and of each solver, the best first: the plan itself",
    )


class BatchSetting(Part):
    """A way of drafting and verifying where many requests decode together, and what is expected of
    it there."""

    batch_size: int = Field(ge=2, description="requests that it was planned for")
    drafting: Drafting
    verifier: str
    predicted: Predicted | None = Field(
        default=None, description="times are those of the steps that all of them share"
    )
    settings: list[PlanSetting] = Field(
        default=[],
        description="that decoding may change between there, its own first, not to speculate last; "
        "none: the plan's",
    )

    @property
    def speculates(self) -> bool:
        return self.drafting.most_nodes > 1


class Plan(Document):
    """A decision, valid once loaded."""

    format: Literal["plan"] = "plan"
    version: Literal[1] = 1
    drafting: Drafting
    verifier: str
    sampling: Sampling
    predicted: Predicted | None = None
    made_from: MadeFrom | None = None
    settings: list[PlanSetting] = Field(
        default=[],
        description="that decoding may change between, the plan's own first, not to speculate last",
    )
    by_batch: list[BatchSetting] = Field(
        default=[],
        description="where more requests decode together than the plan is made for, by their rising"
        " number; numbers between are served as the next larger one",
    )

    @model_validator(mode="after")
    def _drafting_fits_verifier(self) -> Self:
        for way in (*self.ways, *chain.from_iterable(self.tables)):
            _check_fit(way)
        return self

    @model_validator(mode="after")
    def _batches_rise(self) -> Self:
        sizes = [self.batch_size, *(each.batch_size for each in self.by_batch)]
        if any(b <= a for a, b in pairwise(sizes)):
            raise ValueError(f"by_batch by rising batch_size, above the plan's own, not {sizes}")
        heads = {head for way in self.ways if (head := way.drafting.trained_head) is not None}
        if len(heads) > 1:
            raise ValueError(f"by_batch of one trained head at most, not {len(heads)}")
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
        return self.drafting.grows

    @property
    def words(self) -> str:
        """A few words on what it drafts."""
        return self.drafting.words() if self.speculates else NO_DRAFT

    @property
    def tree(self) -> Tree:
        """The tree of every step.  Raises PlannerError for a plan whose trees grow."""
        if isinstance(self.drafting, TreeDrafting):
            return self.drafting.tree
        raise PlannerError(
            f"drafting.kind: got {self.drafting.kind!r}, expected 'tree' (one tree for all steps); "
            "plan with another solver"
        )

    def at(self, temperature: float) -> Plan:
        """The same settings at another temperature, of which nothing is predicted.

        Raises PlannerError for a temperature that is none.
        """
        real = isinstance(temperature, Real) and not isinstance(temperature, bool)
        if not real or not 0 <= temperature <= float_info.max:
            raise PlannerError(f"temperature: got {temperature!r:.40}, expected 0 or more")
        if temperature == self.sampling.temperature:
            return self
        sampling = self.sampling.model_copy(update={"temperature": float(temperature)})
        batches = [each.model_copy(update={"predicted": None}) for each in self.by_batch]
        changed = {"sampling": sampling, "predicted": None, "by_batch": batches}
        return self.model_copy(update=changed)

    def policy(self, setting: Plan | PlanSetting | BatchSetting | None = None) -> Policy:
        """The policy that carries a drafting out, at the start of a text.

        setting  one of `settings` or `ways`; None: the plan's own
        """
        way = setting or self
        verifier = verifier_at(way.verifier, self.sampling)
        return way.drafting.policy(deterministic=verifier.deterministic)

    @property
    def speculates(self) -> bool:
        return self.drafting.most_nodes > 1

    @property
    def batch_size(self) -> int:
        """Requests that decode together where its drafting and verifier are used: so many, or
        fewer."""
        return self.made_from.batch_size if self.made_from else 1

    @property
    def ways(self) -> list[Plan | BatchSetting]:
        """The plan itself, and its settings for more requests at a time."""
        return [self, *self.by_batch]

    @property
    def tables(self) -> list[list[PlanSetting]]:
        """The settings that decoding may change between, for each of `ways`."""
        return [way.settings or self.settings for way in self.ways]

    def carried_out(self, *, follow: bool) -> Sequence[Plan | BatchSetting | PlanSetting]:
        """All that decoding may come to do: every setting of `tables`, or `ways` to the letter."""
        return [setting for table in self.tables for setting in table] if follow else self.ways

    def place_at(self, num_requests: int) -> int:
        """The place among `ways` of what serves so many requests at a time: of what was planned for
        as many, or for the next larger number, or else for the largest."""
        sizes = [self.batch_size, *(each.batch_size for each in self.by_batch)]
        return min(bisect_left(sizes, num_requests), len(sizes) - 1)

    def at_batch(self, num_requests: int) -> Plan:
        """The plan as it is carried out for so many requests at a time."""
        way = self.ways[self.place_at(num_requests)]
        origin = self.made_from
        if origin is not None:
            origin = origin.model_copy(update={"batch_size": way.batch_size})
        return self.model_copy(
            update={
                "drafting": way.drafting,
                "verifier": way.verifier,
                "predicted": way.predicted,
                "settings": way.settings or self.settings,
                "made_from": origin,
                "by_batch": [],
            }
        )

    def with_batches(self, others: Sequence[Plan]) -> Plan:
        """The plan with what others decide for more requests at a time, by their rising number.

        others  made for the same models, sampling and context

        Raises PlannerError where their numbers do not rise.
        """
        kept = {"drafting", "verifier", "predicted", "settings"}
        found = [
            {"batch_size": each.batch_size, **each.model_dump(include=kept)} for each in others
        ]
        return Plan.parse(self.model_dump() | {"by_batch": found}, "plan")


def _check_fit(way: Plan | BatchSetting | PlanSetting) -> None:
    """A drafting and a verifier go together; raises ValueError where they do not."""
    verifier, most = VERIFIERS.get(way.verifier), way.drafting.most_children
    if verifier is None:
        raise ValueError(f"verifier one of {', '.join(VERIFIERS)}, not {way.verifier!r}")
    if verifier.max_children is not None and most > verifier.max_children:
        raise ValueError(
            f"at most {verifier.max_children} children a node for verifier {way.verifier!r}, "
            f"not {most}"
        )
    if way.drafting.grows and most > 1 and not verifier.grows:
        growing = ", ".join(name for name, each in VERIFIERS.items() if each.grows)
        raise ValueError(
            f"a verifier whose siblings can be drawn one at a time ({growing}) for trees that "
            f"grow while they are drafted, not {way.verifier!r}"
        )
