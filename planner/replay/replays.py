"""Growing trees played on the profile's recorded ones: what they would do.

A replayed tree was drafted at one position of a text that the target wrote, given how that text
goes on (a profile's `Replay`).  Played on it, a round emits what it accepts and one token more,
and the next round starts behind that: along each text everything is known, and the tally over a
text is one outcome of decoding, drawn from its very law.

Recorded trees are finite.  Where one ends on the text, the round goes on in the tree recorded at
that place of the text, which was drawn there from the same law (but where whole paths are judged:
there a node's children depend on what stands above it, and nothing is found).  Where it ends beside
the text, nothing can be accepted any more; what the draft would offer decides only where a policy
goes on drafting, and another node of the tree stands in.  `Tally.unknown` counts such rounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..documents.arrays import ReplayArrays
from ..documents.document import PlannerError
from ..documents.head_card import HeadFile
from ..documents.profile import Profile, Replay
from ..documents.sampling import Sampling
from ..estimates.bootstrap import ratio_samples
from ..estimates.step_costs import StepCosts
from ..estimates.time_table import Time, TimeTable
from ..policies import Drafting, TreeDrafting
from ..verifiers import VERIFIERS, verifier_at
from .recorded import Recorded, Tally
from .rounds import PLAYED, play, play_tree


@dataclass(frozen=True)
class Replays:
    """One verifier's recorded trees, under one sampling."""

    recorded: Recorded
    deterministic: bool
    """Are candidates a function of the draft's distribution?"""
    head: HeadFile | None = None
    """Who scored the nodes, if a trained head did."""

    @classmethod
    def of(cls, entry: Replay, arrays: ReplayArrays) -> Replays:
        """The trees of one of a profile's entries."""
        first, drawn, child, taken, features, path = arrays
        verifier = VERIFIERS[entry.verifier]
        lengths = np.array([prompt.num_positions for prompt in entry.prompts])
        ends = np.cumsum(lengths)
        recorded = Recorded(
            texts=np.column_stack([ends - lengths, ends]),
            first=np.ascontiguousarray(first),
            drawn=np.minimum(drawn.astype(np.float64), 1.0),
            child=np.ascontiguousarray(child),
            taken=np.ascontiguousarray(taken),
            features=features.astype(np.float64),
            path=np.ascontiguousarray(path),
            goes_on=not verifier.whole_paths,
        )
        return cls(recorded, verifier.deterministic, entry.head)

    @property
    def num_texts(self) -> int:
        return len(self.recorded.texts)

    @property
    def num_children(self) -> int:
        """The most children of a node that were recorded."""
        return int(self.recorded.drawn.shape[1])

    def hold(self, drafting: Drafting) -> bool:
        """Were as many children recorded as it may give a node?"""
        return drafting.most_children <= self.num_children

    def play(self, drafting: Drafting) -> Tally:
        """Rounds of `drafting` along every text.

        Raises PlannerError for more children than were recorded, and for a policy that follows a
        head's scores where there are none.
        """
        if not self.hold(drafting):
            raise PlannerError(
                f"drafting: got up to {drafting.most_children} children, but the profile's "
                f"replayed trees have {self.num_children}; ask for fewer, or profile again"
            )
        if isinstance(drafting, TreeDrafting):
            return play_tree(self.recorded, drafting.tree)
        wanted = drafting.trained_head
        if wanted is not None and (self.head is None or self.head.sha256 != wanted.sha256):
            raise PlannerError(
                f"drafting.head: got {wanted.file}, but the profile's replayed trees hold "
                f"{'no scores' if self.head is None else f'the scores of {self.head.file}'}; "
                "profile with this head, or choose another score"
            )
        recorded = self.recorded_for(drafting)
        compiled = PLAYED.get(drafting.kind)
        if compiled is not None and not drafting.learns:
            return compiled(recorded, drafting, self.deterministic)
        return play(recorded, lambda: drafting.policy(deterministic=self.deterministic))

    def recorded_for(self, drafting: Drafting) -> Recorded:
        """The trees as `drafting` is played on them: a head has no word on roots, so that for one
        that follows a head nothing is found where they end."""
        headed = drafting.trained_head is not None
        return self.recorded._replace(goes_on=False) if headed else self.recorded

    def half(self, which: int) -> Replays:
        """Every second text, from the first (0) or the second (1)."""
        return self.every(2, which)

    def every(self, step: int, first: int = 0) -> Replays:
        """Every `step`th text."""
        texts = np.ascontiguousarray(self.recorded.texts[first::step])
        return replace(self, recorded=self.recorded._replace(texts=texts))

    def played_by_halves(self, draftings: Sequence[Drafting], costs: StepCosts) -> Played | None:
        """The first of two draftings of one kind on the first half of the texts, the second on the
        second; in the texts' order.  None where sizes or widths come up that were not timed.

        costs  of growing trees of that kind
        """
        halves = [Played.of(each, self.half(which), costs) for which, each in enumerate(draftings)]
        if not all(half.is_timed for half in halves):
            return None
        whole = _interleaved([half.tally for half in halves], self.num_texts)
        return Played(whole, costs, [half.limits[0] for half in halves])


class Spent(NamedTuple):
    """The measured times of one curve that were needed, and how often each."""

    curve: str
    counts: np.ndarray
    """int64 [k]: nodes or widths; 0 for the first draft pass."""
    ms: np.ndarray
    """float64 [k]"""
    error_ms: np.ndarray
    """float64 [k]: standard errors."""
    often: np.ndarray
    """float64 [texts, k]"""


@dataclass(frozen=True)
class Played:
    """A tally with what it cost.

    limits  what steps take besides by nodes (`StepCosts.limit`): of all texts, or of the one of
            every two and of the other
    """

    tally: Tally
    costs: StepCosts
    limits: Sequence[TimeTable | None] = (None,)

    @classmethod
    def of(cls, drafting: Drafting, texts: Replays, costs: StepCosts) -> Played:
        """`drafting` played along all texts, at the costs of its kind."""
        return cls(texts.play(drafting), costs.of(drafting), [costs.limit(drafting)])

    @property
    def is_timed(self) -> bool:
        """Were all sizes and widths measured?"""
        tally, costs = self.tally, self.costs
        untimed = (
            tally.sizes[:, : costs.verify.first],
            tally.sizes[:, costs.max_nodes + 1 :],
            tally.widths[:, : costs.draft.first],
            tally.widths[:, costs.draft.last + 1 :],
        )
        return not any(each.any() for each in untimed)

    @property
    def tokens_per_step(self) -> float:
        return float(self.tally.tokens.sum() / self.tally.rounds.sum())

    @cached_property
    def spent(self) -> list[Spent]:
        """The measured times that the rounds are the sum of, by curve.

        Sizes below the smallest whose overhead was measured count as that one.  Raises PlannerError
        for sizes and widths that were not measured.
        """
        tally, costs = self.tally, self.costs
        sizes, widths = (np.flatnonzero(each.any(axis=0)) for each in (tally.sizes, tally.widths))
        walked = np.maximum(sizes, costs.overhead.first)
        by_size = tally.sizes[:, sizes]
        alone = tally.rounds - by_size.sum(axis=1)

        def once(curve: str, count: int, time: Time, often: np.ndarray) -> Spent:
            known = np.array([count]), np.array([time.ms]), np.array([time.error_ms])
            return Spent(curve, *known, often[:, None])

        found = [
            Spent("verify", sizes, *costs.verify.at(sizes), by_size),
            Spent(costs.overhead.what, sizes, *costs.overhead.at(walked), by_size),
            once(costs.draft.what, 0, costs.draft_root, tally.root_passes),
            Spent(costs.draft.what, widths, *costs.draft.at(widths), tally.widths[:, widths]),
            once("target step", 1, costs.autoregressive, alone),
        ]
        if costs.lone_draft is not None:
            found.append(once("waiting", 1, costs.lone_draft, tally.rounds * self.waited))
        for limit, often in self._limited:
            sizes = np.flatnonzero(often.any(axis=0))
            found.append(Spent(limit.what, sizes, *limit.at(sizes), often[:, sizes]))
        return found

    @property
    def _limited(self) -> list[tuple[TimeTable, np.ndarray]]:
        """Times that steps take besides, and how often by text and size, float64 [texts, k]."""
        place = np.arange(len(self.tally.sizes))[:, None] % len(self.limits)
        return [
            (limit, np.where(place == own, self.tally.sizes, 0.0))
            for own, limit in enumerate(self.limits)
            if limit is not None
        ]

    @cached_property
    def waited(self) -> float:
        """Draft passes of a step in which a request waits for others of its batch, beyond its own.

        The longest of b independent rounds decides how many there are: of the chance F(k) that one
        has at most k, all of them have at most k with F(k)^b.  A round's passes are taken to be
        proportional to its levels.
        """
        at_most, levels = self.depths.cumsum(), np.arange(len(self.depths)) @ self.depths
        if self.costs.lone_draft is None or levels == 0:
            return 0.0
        later = (at_most - at_most**self.costs.batch_size).sum()
        return float(later * self.passes_per_step / levels)

    @cached_property
    def ms(self) -> np.ndarray:
        """float64 [texts]: milliseconds of all rounds."""
        return np.sum([each.often @ each.ms for each in self.spent], axis=0)

    @property
    def step(self) -> Time:
        """The mean step: every round at the time of its size and of its draft passes.

        Errors are fully correlated along a curve, independent between curves (`step_costs`).
        """
        ms, errors = 0.0, defaultdict[str, float](float)
        for each in self.spent:
            shares = each.often.sum(axis=0) / self.tally.rounds.sum()
            ms += float(shares @ each.ms)
            errors[each.curve] += float(shares @ each.error_ms)
        return self.costs.drafted(ms, np.array([*errors.values()]))

    @property
    def tokens_per_ms(self) -> float:
        return self.tokens_per_step / self.step.ms

    @property
    def rate(self) -> float:
        """`tokens_per_ms` by which settings are compared: -inf for those that never draft, and for
        sizes or widths that were not timed.  As `spent` has it, but for thousands of settings."""
        tally, costs = self.tally, self.costs
        passes, sizes = float(tally.root_passes.sum()), tally.sizes.sum(axis=0)
        alone = float(tally.rounds.sum() - sizes.sum())
        ms = passes * costs.draft_root.ms + alone * costs.autoregressive_ms
        ms += costs.verify.total(sizes) + costs.overhead.total(sizes, smaller=True)
        ms += costs.draft.total(tally.widths.sum(axis=0))
        if costs.lone_draft is not None:
            ms += float(tally.rounds.sum()) * self.waited * costs.lone_draft.ms
        ms += sum(limit.total(often.sum(axis=0)) for limit, often in self._limited)
        return float(tally.tokens.sum()) / ms if passes > 0 and ms < np.inf else -np.inf

    @property
    def discard_rate(self) -> float:
        """Draft tokens verified and thrown away, per token emitted: N_discarded / N (SpecDec++)."""
        counts = np.arange(self.tally.sizes.shape[1])
        drafted = (self.tally.sizes * np.maximum(counts - 1, 0)).sum()
        return float((drafted - self.tally.accepted.sum()) / self.tally.tokens.sum())

    @property
    def verification_rate(self) -> float:
        """Target passes per token emitted: N_target / N (SpecDec++)."""
        return 1 / self.tokens_per_step

    @property
    def cut_short(self) -> float:
        """Share of the rounds that drafted on beside the text where the recorded tree ends."""
        return float(self.tally.unknown.sum() / self.tally.rounds.sum())

    @property
    def passes_per_step(self) -> float:
        """Draft passes."""
        passes = self.tally.root_passes.sum() + self.tally.widths.sum()
        return float(passes / self.tally.rounds.sum())

    @property
    def sizes(self) -> np.ndarray:
        """float64 [num_nodes + 1]: share of the steps that verify so many nodes."""
        shares = np.asarray(self.tally.sizes.sum(axis=0) / self.tally.rounds.sum())
        shares[1] += 1 - shares.sum()  # steps that draft nothing
        return shares

    @property
    def depths(self) -> np.ndarray:
        """float64 [...]: share of the steps whose tree has so many levels below the root."""
        return np.asarray(self.tally.depths.sum(axis=0) / self.tally.rounds.sum())

    def samples(self) -> np.ndarray:
        """float64 [2000]: tokens per step, by bootstrap sample of the texts."""
        return ratio_samples(self.tally.tokens, self.tally.rounds)

    def step_samples(self) -> np.ndarray:
        """float64 [2000]: milliseconds of the mean step, by the same samples."""
        return ratio_samples(self.ms, self.tally.rounds)


def replays_of(profile: Profile, sampling: Sampling, verifier: str) -> Replays | None:
    """The recorded trees that serve `verifier` under `sampling`; None where there are none."""
    decoding = verifier_at(verifier, sampling)
    recorded_as = decoding.recorded_as or decoding.name
    for entry in profile.replays:
        if entry.sampling == sampling and entry.verifier == recorded_as:
            return Replays.of(entry, profile.replayed(entry))
    return None


def _interleaved(tallies: Sequence[Tally], num_texts: int) -> Tally:
    """One tally of two, each of every second text."""
    merged = []
    for parts in zip(*tallies, strict=True):
        widest = [max(part.shape[axis] for part in parts) for axis in range(1, parts[0].ndim)]
        whole = np.zeros((num_texts, *widest))
        for which, part in enumerate(parts):
            whole[(slice(which, None, 2), *(slice(size) for size in part.shape[1:]))] = part
        merged.append(whole)
    return Tally(*merged)
