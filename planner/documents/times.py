"""The times in a profile: of passes and of what lies between them, by size, as measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import Field, model_validator

from .document import MOST_MS, Count, Part
from .sampling import Sampling

TimeOrZero = Annotated[float, Field(ge=0, le=MOST_MS)]
CurveCount = Annotated[int, Field(ge=1, le=1 << 20)]
"""Tables hold every count between a curve's first and its last."""


NO_PART_MS = 1e-4
"""The time that stands for a part of a step which nobody knows apart from the rest."""


class Curve(Part):
    """Times over a grid of counts, as measured: real curves are not monotone.

    Per entry the median of `repeats` interleaved repetitions, or more, and its quartiles; 0 for
    what a given overhead leaves out, never for a pass.
    """

    counts: list[CurveCount] = Field(min_length=1)
    median_ms: list[TimeOrZero]
    low_ms: list[TimeOrZero] = Field(description="25th percentile")
    high_ms: list[TimeOrZero] = Field(description="75th percentile")
    repeats: Count

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        lengths = {len(self.counts), len(self.median_ms), len(self.low_ms), len(self.high_ms)}
        if len(lengths) != 1:
            raise ValueError("counts, median_ms, low_ms and high_ms of one length")
        if any(b <= a for a, b in zip(self.counts, self.counts[1:], strict=False)):
            raise ValueError("counts in strictly increasing order")
        quartiles = zip(self.low_ms, self.median_ms, self.high_ms, strict=True)
        if any(not low <= median <= high for low, median, high in quartiles):
            raise ValueError("low_ms <= median_ms <= high_ms at every count")
        return self


class GrowingTimes(Part):
    """Times of trees that are decided on while they are drafted, beside those of fixed ones."""

    draft_root: Curve = Field(
        description="a step's first draft pass: candidates are drawn, weighed and shown to a "
        "policy; counts [1]"
    )
    draft: Curve = Field(description="each later one, by the number of nodes expanded")
    overhead: Curve = Field(
        description="deciding, acceptance walk of the verifier named first, cache keeping, by "
        "num_nodes"
    )

    @model_validator(mode="after")
    def _passes_take_time(self) -> Self:
        _check_passes(self, ("draft_root", "draft"))
        return self


class Costs(Part):
    """Times at one batch size and one context length (tokens already in the cache)."""

    batch_size: Count
    context: int = Field(ge=0)
    sampling: Sampling | None = Field(
        default=None,
        description="that the times are of, where they depend on it; null: of steps that draw "
        "tokens where greedy ones have an entry of their own, otherwise of any",
    )
    start_error: float = Field(
        default=0.0,
        ge=0,
        le=100,
        description="relative standard error of steps with a draft: how much one start of an "
        "engine differs from those that were timed; 0 where nobody looked",
    )
    by_rows: bool = Field(
        default=False,
        description="true: read off the times of one request with batch_size times as many rows, "
        "as older profiles are",
    )
    pace: list[Annotated[float, Field(gt=0)]] = Field(
        default_factory=list,
        description="by sweep: how many times as long as in the median one the models' passes "
        "took; their curves are of times divided by it, those of what lies between them likewise",
    )
    verify: Curve = Field(description="target pass over n tree nodes, by num_nodes")
    draft_root: Curve = Field(
        description="a step's first draft pass, at the root, right after a target pass; counts [1]"
    )
    draft: Curve = Field(description="each later draft pass, with sampling, by the level's width")
    overhead: dict[str, Curve] = Field(
        min_length=1,
        description="by verifier: acceptance walk, cache keeping, and what its sampling takes more "
        "in draft passes than the first one's, by num_nodes",
    )
    growing: GrowingTimes | None = Field(
        default=None, description="where trees grow, a policy deciding after every draft pass"
    )
    chains: GrowingTimes | None = Field(
        default=None, description="where chains do, until a policy ends them"
    )
    scored: dict[str, GrowingTimes] = Field(
        default_factory=dict,
        description="by SHA-256 of a head's file: where chains do that are ended by its word",
    )
    unbegun: Curve | None = Field(
        default=None,
        description="by the most tokens that a chain may have: a step whose chain ends before it "
        "begins; the other times are those of the first",
    )
    ended: dict[Count, Curve] = Field(
        default_factory=dict,
        exclude_if=lambda ended: not ended,
        description="by the most tokens that a chain may have: a step whose chain ends early, by "
        "num_nodes, and behind them one whose chain does not",
    )
    target_step: Curve = Field(description="one autoregressive token of the target, counts [1]")
    draft_step: Curve = Field(description="one autoregressive token of the draft, counts [1]")

    @property
    def are_whole(self) -> bool:
        """Do whole steps stand under `verify`, since nobody knows what their parts take?"""
        return max(self.draft.high_ms) <= NO_PART_MS

    @model_validator(mode="after")
    def _passes_take_time(self) -> Self:
        unbegun = () if self.unbegun is None else ("unbegun",)
        named = ("verify", "draft_root", "draft", "target_step", "draft_step", *unbegun)
        _check_passes(self, named)
        if set(self.ended) != set(self.unbegun.counts if self.unbegun else ()):
            raise ValueError("unbegun and ended of the same limits; profile again")
        if any(
            (curve.counts[0], curve.counts[-1]) != (2, n + 1) for n, curve in self.ended.items()
        ):
            raise ValueError("ended from 2 nodes to one more than the limit")
        return self


def _check_passes(times: Costs | GrowingTimes, names: Iterable[str]) -> None:
    for name in names:
        if min(getattr(times, name).low_ms) == 0:
            raise ValueError(f"{name}.low_ms above 0: every pass takes time")
