"""How long does a step take?  Measured tables, interpolated linearly, with their uncertainty.

Between two measured counts, and between two measured contexts, times are interpolated linearly; at
a measured point they are what was measured, so that a curve that is not monotone stays so.  Nothing
is extrapolated.

A time is the median of its repetitions, which the profiler has brought to one pace where the whole
machine was faster and slower.  Decoding takes the mean, which a few stalls of a measurement turn; a
lower quartile is what a machine can do at its best: on two threads a plain step of 25 M weights
took 2.09 ms at its lower quartile, 2.49 at its median and 2.58 in decoding
(benchmarks/results/checks).

Uncertainty: of R repetitions with standard deviation sigma, the median has the standard error
1.2533 sigma / sqrt(R), and sigma is half the distance of the quartiles over 0.6745 (both for normal
noise).
What steps with a draft may be off by against those without, all alike, is added: machines take
them at another ratio from one sitting to the next, starts of an engine differ, and other programs
may have held cores.
Errors of points on one curve are added as if fully correlated (the cautious choice); those of
different curves are independent.  An interval is value * exp(+-1.96 error / value), which stays
positive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import hypot
from typing import NamedTuple

import numpy as np

from ..documents.arguments import count
from ..documents.document import PlannerError
from ..documents.estimate import Estimate
from ..documents.profile import Profile
from ..documents.sampling import Sampling
from ..documents.surroundings import share_of_others
from ..documents.times import Costs, GrowingTimes
from ..documents.tree import Tree
from ..policies import Drafting, TreeDrafting
from .chain_limits import limit_of, limits_of
from .intervals import inverse, product
from .time_table import Time, TimeTable, between, table_of

SITTING_ERROR, THREADS_ERROR = 0.04, 0.1
"""Relative standard error of steps with a draft against those without, from one sitting to the
next: caches, clocks and who shares the memory differ, which no repetition within one sitting shows.
The second is of several threads of a CPU: most likely since a step without a draft waits for memory
there, which others use too, while one with a draft computes.  Of plans that were decoded up to two
hours after they had been profiled, speedups are likeliest at .044 (48, one thread of two machines:
.021 on one, .064 on the other, whose last cache is shared) and at .101 (51, two threads of two
virtual machines): docs/results/predictions.md, "How often the intervals hold"."""

GROWING_DRAFT = "level width (draft of growing trees)"
GROWING_OVERHEAD = "tree size (overhead of growing trees)"

TREES, CHAINS = "trees", "chains"
"""Kinds that grow, where no head is asked; a head's SHA-256 stands for the chains it ends."""


class SharedErrors(NamedTuple):
    """Relative standard errors of steps with a draft, all alike, against those without."""

    sitting: float = 0.0
    """One sitting differs from the next by so much, however often times are repeated within it."""
    threads: float = 0.0
    """The same in its place where several threads of a CPU take the steps."""
    start: float = 0.0
    """One start of an engine differs from the next by so much (`Costs.start_error`)."""
    others: float = 0.0
    """Programs beside the measurement may have changed so much."""


@dataclass(frozen=True)
class StepCosts:
    """The times that a step is made of, at one batch size and context, under one verifier."""

    batch_size: int
    context: int
    verify: TimeTable
    draft_root: Time
    draft: TimeTable
    overhead: TimeTable
    """The verifier's own walk, and what its sampling takes more in draft passes than that of the
    verifier they were timed with; the other times do not depend on it."""
    autoregressive: Time
    shared: SharedErrors = field(default_factory=SharedErrors)
    lone_draft: Time | None = None
    """The time that a later draft pass takes besides its rows' own share, where several requests
    decode together: a request that still drafts when the others have ended keeps them waiting so
    long.  None for one request, and where one was not timed."""
    limits: Mapping[int, TimeTable] = field(default_factory=dict)
    """Milliseconds that a step takes besides, by the most tokens that its chain may have, and then
    by its nodes; empty where that was not timed."""
    grown: Mapping[str, StepCosts] = field(default_factory=dict)
    """The times where trees are decided on while they are drafted, by what grows: `TREES`,
    `CHAINS`, or a head's SHA-256."""

    @property
    def shared_error(self) -> float:
        """All of `shared` together."""
        return hypot(*self.shared)

    @property
    def max_nodes(self) -> int:
        """The largest tree that can be costed, root included."""
        last = min(self.verify.last, self.overhead.last)
        return last if max(self.verify.first, self.overhead.first) <= last else 1

    def covers(self, tree: Tree) -> bool:
        """Were its size and the widths of its levels measured?"""
        size, widths = tree.num_nodes, tree.widths
        return size == 1 or (
            max(self.verify.first, self.overhead.first) <= size <= self.max_nodes
            and bool(((widths[1:] >= self.draft.first) & (widths[1:] <= self.draft.last)).all())
        )

    def growing(self, what: str = TREES) -> StepCosts:
        """The same where trees grow.  A profile that timed no chains says of them what it says of
        trees, and one that timed neither, nothing.

        what  a key of `grown`

        Raises PlannerError for a head with which nothing was timed.
        """
        times = self.grown.get(what)
        if times is None and what not in (TREES, CHAINS):
            raise PlannerError(
                f"head: got one of SHA-256 {what[:12]}, with which the profile timed no draft "
                "passes; profile with it"
            )
        times = times or self.grown.get(TREES)
        return self if times is None else replace(times, grown=self.grown)

    def of(self, drafting: Drafting) -> StepCosts:
        """The same for steps of this kind of drafting (`growing`)."""
        if isinstance(drafting, TreeDrafting):
            return self
        head = drafting.trained_head
        if head is not None:
            return self.growing(head.sha256)
        return self.growing(CHAINS if drafting.grows_chains else TREES)

    def limit(self, drafting: Drafting) -> TimeTable | None:
        """The milliseconds that its steps take besides what the tables say, by nodes; None: none.

        Only chains that end early take anything besides (`chain_limits`).
        """
        if isinstance(drafting, TreeDrafting):
            return None
        return limit_of(self.limits, drafting.most_nodes - 1)

    def sizes_ms(self, num_nodes: int) -> np.ndarray:
        """float64 [num_nodes]: verification and overhead, by number of nodes from 1; sizes below
        the smallest that was measured count as that one."""
        least = max(self.verify.first, self.overhead.first)
        counts = np.maximum(np.arange(1, num_nodes + 1), least)
        return np.array([self.verify_ms(n) + self.overhead_ms(n) for n in counts])

    def node_ms(self, num_nodes: int) -> float:
        """t': milliseconds that one more node takes, on average up to `num_nodes`."""
        times = self.sizes_ms(num_nodes)
        return max(float(np.polyfit(np.arange(len(times)), times, 1)[0]), 0.0)

    @property
    def autoregressive_ms(self) -> float:
        """One token of the target alone."""
        return self.autoregressive.ms

    def verify_ms(self, num_nodes: int) -> float:
        """One target pass over a tree."""
        return self.verify(num_nodes).ms

    def draft_ms(self, width: int) -> float:
        """One draft pass below the root, over `width` expanded nodes, sampling their children."""
        return self.draft(width).ms

    def overhead_ms(self, num_nodes: int) -> float:
        """Acceptance walk and cache keeping of a tree."""
        return self.overhead(num_nodes).ms

    def step(self, tree: Tree) -> Time:
        """One draft-and-verify round: verification, a draft pass per level, overhead.

        A lone root is autoregressive decoding: no draft, no tree, the plain decoding step.
        Raises PlannerError if the tree is larger or wider than what was measured.
        """
        if tree.num_nodes == 1:
            return self.autoregressive
        verify, overhead = self.verify(tree.num_nodes), self.overhead(tree.num_nodes)
        ms, errors = self.draft.at(tree.widths[1:])
        draft = Time(self.draft_root.ms + ms.sum(), self.draft_root.error_ms + errors.sum())
        parts = np.array([verify, draft, overhead])
        return self.drafted(float(parts[:, 0].sum()), parts[:, 1])

    def drafted(self, ms: float, errors: np.ndarray) -> Time:
        """A step with a draft that takes `ms`; the errors of its parts and the shared one are
        independent."""
        return Time(ms, float(np.linalg.norm([*errors, self.shared_error * ms])))

    def step_ms(self, tree: Tree) -> float:
        """Milliseconds of `step`."""
        return self.step(tree).ms


def step_costs(
    profile: Profile,
    *,
    verifier: str | None = None,
    batch_size: int = 1,
    context: int | None = None,
    sampling: Sampling | None = None,
) -> StepCosts:
    """The cost model of one verifier at one batch size, context and sampling; None: the first
    measured.

    Raises PlannerError, listing what there is, where the profile measured nothing of the kind.
    """
    batch_size = count(batch_size, "batch_size", 1)
    entries = [entry for entry in profile.costs if entry.batch_size == batch_size]
    if not entries:
        sizes = ", ".join(str(size) for size in sorted({e.batch_size for e in profile.costs}))
        raise PlannerError(f"batch_size: got {batch_size}, but the profile measured only {sizes}")
    entries = timed_like(sampling, entries)
    context = entries[0].context if context is None else count(context, "context", 0)
    first, second, weight = _around(entries, context)
    one, two = (_tables(entry, verifier) for entry in (first, second))
    verify, root, draft, overhead, step = (
        between(a, b, weight) for a, b in zip(one, two, strict=True)
    )
    threads = (profile.engine and profile.engine.threads) or profile.machine.num_threads
    made = StepCosts(
        batch_size=batch_size,
        context=context,
        verify=verify,
        draft_root=root(root.first),
        draft=draft,
        overhead=overhead,
        autoregressive=step(step.first),
        shared=SharedErrors(
            **_sitting_error(profile, threads),
            start=max(first.start_error, second.start_error),
            others=share_of_others(profile.surroundings, threads),
        ),
    )
    below, above = (limits_of(each) for each in (first, second))
    shared = below.keys() & above.keys()
    made = replace(made, limits={n: between(below[n], above[n], weight) for n in shared})
    here, there = (_growing_tables(entry, verifier) for entry in (first, second))
    of_one = [_draft_tables(_of_one(profile, entry)) for entry in (first, second)]
    grown = {}
    for what in here.keys() & there.keys():
        root, draft, overhead = (
            between(a, b, weight) for a, b in zip(here[what], there[what], strict=True)
        )
        lone = None
        if all(what in each for each in of_one):
            single = between(of_one[0][what], of_one[1][what], weight)
            lone = _lone_draft(single, draft, batch_size)
        grown[what] = replace(
            made, draft_root=root(root.first), draft=draft, overhead=overhead, lone_draft=lone
        )
    return replace(made, grown=grown)


def timed_like(sampling: Sampling | None, entries: Sequence[Costs]) -> list[Costs]:
    """The entries whose times are of `sampling`; otherwise those of one that is greedy as it is, or
    is not as it is not; otherwise those of any; otherwise those of the first one's."""
    nearest = min(entries, key=lambda costs: _unlike(sampling, costs.sampling)).sampling
    return [costs for costs in entries if costs.sampling == nearest]


def _unlike(sampling: Sampling | None, own: Sampling | None) -> int:
    """How far the sampling of some times is from the one that is asked for."""
    if own is None or sampling is None:
        return 2 if own is None else 3
    return 0 if own == sampling else 1 if own.is_greedy == sampling.is_greedy else 3


def speedup(tokens_per_step: Estimate, step: Time, autoregressive: Time) -> Estimate:
    """Tokens per millisecond over those of autoregressive decoding, with its 95 % interval; the
    three errors are independent."""
    return product(tokens_per_step, inverse(step.estimate), autoregressive.estimate)


def _sitting_error(profile: Profile, threads: int) -> dict[str, float]:
    """The error between sittings, by its name in `SharedErrors`, as the models were run; of times
    that were given nobody knows how."""
    profiled = profile.costs_from is None or profile.costs_from.profiled
    on_cpu = profiled and profile.machine.device == "cpu"
    return {"threads": THREADS_ERROR} if on_cpu and threads > 1 else {"sitting": SITTING_ERROR}


def _of_one(profile: Profile, costs: Costs) -> Costs | None:
    """The times of one request beside these of several of this runtime's, if it was timed alike."""
    if costs.batch_size == 1 or profile.engine is not None:
        return None
    alike = costs.context, costs.sampling
    entries = (each for each in profile.costs if each.batch_size == 1)
    return next((each for each in entries if (each.context, each.sampling) == alike), None)


def _lone_draft(one: TimeTable, many: TimeTable, batch_size: int) -> Time:
    """The part of a pass that does not depend on the number of requests in it, by the times of one
    request and of `batch_size`, at the least width."""
    (ms, error), shared = one(one.first), many(many.first).ms
    return Time(max(ms - (shared - ms) / (batch_size - 1), 0.0), error)


def _around(entries: Sequence[Costs], context: int) -> tuple[Costs, Costs, float]:
    """The measured contexts just below and above, and the weight of the second."""
    ordered = sorted(entries, key=lambda entry: entry.context)
    below = [entry for entry in ordered if entry.context <= context]
    above = [entry for entry in ordered if entry.context >= context]
    if not below or not above:
        contexts = ", ".join(str(entry.context) for entry in ordered)
        raise PlannerError(
            f"context: got {context}, but at batch size {entries[0].batch_size} the profile "
            f"measured contexts {contexts}; stay within, or profile over a wider range"
        )
    first, second = below[-1], above[0]
    span = second.context - first.context
    return first, second, (context - first.context) / span if span else 0.0


def _tables(costs: Costs, verifier: str | None) -> tuple[TimeTable, ...]:
    verifier = next(iter(costs.overhead)) if verifier is None else verifier
    if verifier not in costs.overhead:
        raise PlannerError(
            f"verifier: got {verifier!r}, but the profile timed only {', '.join(costs.overhead)}; "
            "choose one of these, or profile again"
        )
    return (
        table_of(costs.verify, "tree size (verify)"),
        table_of(costs.draft_root, "passes (draft_root)"),
        table_of(costs.draft, "level width (draft)"),
        table_of(costs.overhead[verifier], "tree size (overhead)"),
        table_of(costs.target_step, "tokens (target_step)"),
    )


def _growing_times(costs: Costs) -> dict[str, GrowingTimes]:
    """The times of policies at work, by what grows, as far as they were measured."""
    timed = {TREES: costs.growing, CHAINS: costs.chains, **costs.scored}
    return {what: times for what, times in timed.items() if times is not None}


def _draft_tables(costs: Costs | None) -> dict[str, TimeTable]:
    """Later draft passes, by what grows."""
    timed = {} if costs is None else _growing_times(costs)
    return {what: table_of(times.draft, GROWING_DRAFT) for what, times in timed.items()}


def _growing_tables(costs: Costs, verifier: str | None) -> dict[str, tuple[TimeTable, ...]]:
    """Tables by what grows: the first draft pass, later ones, overhead."""
    curves = list(costs.overhead.values())
    first, own = curves[0], curves[0] if verifier is None else costs.overhead[verifier]
    return {
        what: (
            table_of(times.draft_root, "passes (draft_root of growing trees)"),
            table_of(times.draft, GROWING_DRAFT),
            _deciding(*(table_of(each, GROWING_OVERHEAD) for each in (own, times.overhead, first))),
        )
        for what, times in _growing_times(costs).items()
    }


def _deciding(own: TimeTable, growing: TimeTable, fixed: TimeTable) -> TimeTable:
    """A verifier's own overhead, and by how much that of growing trees exceeded that of fixed ones
    under the one verifier with which both were timed.  Beyond their sizes, as at the last of them.
    """
    counts, timed, known = (np.arange(each.first, each.last + 1) for each in (own, growing, fixed))
    more = growing.ms - np.interp(timed, known, fixed.ms)
    return replace(
        own,
        ms=own.ms + np.interp(counts, timed, np.maximum(more, 0.0)),
        error_ms=own.error_ms + np.interp(counts, timed, growing.error_ms),
    )
