"""Times that somebody gives: of another machine, an engine, a paper; a document written by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self

from pydantic import Field, model_validator

from .document import Count, Document, Milliseconds, Part
from .origin import CostsOrigin
from .times import Costs, Curve, CurveCount, TimeOrZero


class GivenCurve(Part):
    """Times by count; between two counts on the line through both, outside them unknown."""

    counts: list[CurveCount] = Field(min_length=1, description="in increasing order")
    ms: list[TimeOrZero] = Field(description="one for each count")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.ms) != len(self.counts):
            raise ValueError(
                f"counts and ms of one length, not {len(self.counts)} and {len(self.ms)}"
            )
        if any(b <= a for a, b in zip(self.counts, self.counts[1:], strict=False)):
            raise ValueError(f"counts in strictly increasing order, not {self.counts}")
        return self

    @property
    def curve(self) -> Curve:
        """The same as if it were measured once, without any spread."""
        times = dict.fromkeys(("median_ms", "low_ms", "high_ms"), self.ms)
        return Curve(counts=self.counts, repeats=1, **times)


class GivenTimes(Part):
    """Times at one batch size and one context length (tokens already in the cache)."""

    batch_size: Count = 1
    context: int = Field(ge=0)
    verify: GivenCurve = Field(description="target pass over n tree nodes of each request, by n")
    draft: GivenCurve = Field(description="draft pass, with sampling, by a level's width")
    draft_root_ms: Milliseconds | None = Field(
        default=None, description="a step's first draft pass; null: as any of width 1"
    )
    overhead: GivenCurve | None = Field(
        default=None, description="all else a step takes, by num_nodes; null: nothing"
    )
    target_step_ms: Milliseconds | None = Field(
        default=None, description="one token of the target alone; null: as verifying 1 node"
    )

    @model_validator(mode="after")
    def _defaults_are_there(self) -> Self:
        for name, curve in (("target_step_ms", self.verify), ("draft_root_ms", self.draft)):
            field = "verify" if curve is self.verify else "draft"
            if getattr(self, name) is None and curve.counts[0] != 1:
                raise ValueError(f"{name}, or {field}.counts from 1, not from {curve.counts[0]}")
            if min(curve.ms) == 0:
                raise ValueError(f"{field}.ms above 0: every pass takes time")
        return self

    def costs(self, verifiers: Iterable[str]) -> Costs:
        """The same times as a profile has them; the overhead is every verifier's."""
        sizes = [1, max(self.verify.counts[-1], 2)]
        overhead = self.overhead or GivenCurve(counts=sizes, ms=[0.0, 0.0])
        root = _alone(self.draft_root_ms or self.draft.ms[0])
        return Costs(
            batch_size=self.batch_size,
            context=self.context,
            verify=self.verify.curve,
            draft_root=root,
            draft=self.draft.curve,
            overhead=dict.fromkeys(verifiers, overhead.curve),
            target_step=_alone(self.target_step_ms or self.verify.ms[0]),
            draft_step=root,
        )


class GivenCosts(Document):
    """Costs to plan with, in the place of those that a profile measured.

    They are taken to be exact: an interval then says how sure acceptance is, and of times only that
    one sitting differs from the next.
    """

    format: Literal["costs"] = "costs"
    version: Literal[1] = 1
    source: str = Field(
        min_length=1, description="whose times these are, and where they stand, in a sentence"
    )
    predicted: bool = Field(
        default=False, description="computed from what a machine could do at best, not measured"
    )
    costs: list[GivenTimes] = Field(min_length=1, description="each batch size and context once")

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        places = [(each.batch_size, each.context) for each in self.costs]
        for batch_size, context in places:
            if places.count((batch_size, context)) > 1:
                raise ValueError(
                    f"costs of batch_size {batch_size} and context {context} once, not twice"
                )
        return self

    @property
    def origin(self) -> CostsOrigin:
        """The words by which plans made with these name them."""
        return CostsOrigin(source=self.source, predicted=self.predicted, sha256=self.fingerprint())


def _alone(ms: float) -> Curve:
    return GivenCurve(counts=[1], ms=[ms]).curve
