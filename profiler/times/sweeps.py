"""Costs of verification, drafting and bookkeeping: real steps of the runtime, timed.

Every time comes from the runtime's own steps, of one text or of several together, around a context
length, so that the curve describes what will run.  One sweep runs every tree, small ones a
few times, in an order of its own; sweeps are repeated in rounds, so that a slow spell of the
machine meets all trees alike, and brought to one pace.

While a text is written, a step follows one like it.  Behind another it finds memory, branches and
allocators prepared for that, and takes longer: up to 55 % where it takes less than a millisecond, 3
to 8 % where it takes four or five.  Where the target's weights have room in a processor's last
cache, a pass behind long ones takes up to 75 % longer, and those behind it less and less so, some
thirty of them.  How much of them stays there depends on how often they are read, so on how long
steps take: at 25 M parameters passes over 3 to 16 nodes took 6 to 12 % less time behind sixteen
plain steps than behind sixteen like them.  So trees of neighbouring sizes are timed in a row,
behind steps of one of them that are not timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from time import perf_counter

import numpy as np

from planner.documents.sampling import Sampling
from planner.documents.times import Costs, Curve, GrowingTimes
from planner.documents.tree import Tree
from planner.policies import Policy
from planner.policies.fixed import FixedTree
from planner.verifiers import VERIFIERS
from runtime.language_model import LanguageModel
from runtime.pair import Pair
from runtime.randomness import seeded_source
from runtime.session import Score, StepRecord

from ..journal import Piece
from .batches import Rows
from .cost_grid import (
    CHAINS,
    TIMED_VERIFIERS,
    TREES,
    CostGrid,
    Growing,
    ShownTree,
    bush,
    growing_kinds,
)
from .pace import at_one_pace, curve

LONE_ROOT = Tree([-1])
PARTS = ("draft_root", "draft", "overhead")
"""Fields of `GrowingTimes`, in their order."""
WARM_UP_MS = 300.0
SMALL_SIZES, NUM_SMALL = 16, 3
"""Trees of at most so many nodes are run so many times in a sweep: what disturbs a pass is a larger
share of a short one's time, and a short one costs less to repeat."""
ALONE = "target_step", "draft_step"
ROWS_ALONE, NUM_ALONE = 3, 4
"""A model's steps alone are timed so many times in a sweep, so many in a row: what every speedup is
a multiple of is worth knowing well.  Those in a row are as slow as each other where others use the
memory for a moment, and count as one repetition."""
IN_A_ROW = 8
"""The most neighbouring tree sizes, or widths, that are timed in a row; the last one is less than
twice the first."""
COLD_MS = 4.0
"""Steps that are not timed take so long before those in a row, one at least."""
NUM_COLD, MOST_COLD_MS = 32, 200.0
"""Steps that are not timed before those of which the target's passes are: so many, or as many as
take so long.  Behind passes over 64 nodes plain steps at 25 M parameters took 8 % longer after
sixteen than after thirty-two, and no less after that.  Weights that take longer to read come from
memory anyway: at 100 M plain steps behind long passes took 3 % longer than sixteen steps on."""
NUM_COLD_LARGE = 4
"""The same before trees of more than `SMALL_SIZES` nodes, whose passes wait less for memory: those
over 24 nodes and more took as long after four as after twenty-four, within 2 %."""

Roots = dict[str, list[float]]
"""First draft passes of a sweep's steps in ms, by the name of their curve."""
Task = Callable[[Piece, Roots], None]
"""One of a sweep's steps, or several in a row that belong together: it writes down its times."""


class CostSweeps:
    """Sweeps over one grid at one context length.

    text   token ids that the texts of `Rows` begin with: their number is the context
    heads  by SHA-256 of their files, by whose word chains are timed too
    """

    def __init__(
        self,
        pair: Pair,
        text: Sequence[int],
        grid: CostGrid,
        sampling: Sampling,
        *,
        seed: int,
        heads: Mapping[str, Score] | None = None,
    ) -> None:
        self.context, self._grid = len(text), grid
        self._first, *others = grid.verifiers
        self._others = [] if sampling.is_greedy else others  # all of which amount to one
        verifier, rng = VERIFIERS[self._first], seeded_source(seed, pair.target.device)
        self._pair, self._draft = (
            Rows(models, text, grid, verifier=verifier, sampling=sampling, rng=rng)
            for models in ((pair.target, pair.draft), (pair.draft, None))
        )
        self._order = np.random.default_rng(seed)
        self._kinds = growing_kinds(grid, heads or {})
        self._repeated = "verify", f"overhead/{self._first}"
        self._num_small = 1 if grid.slow else NUM_SMALL
        self._settles = True  # steps are timed behind as many as they settle in
        self._is_warm = False
        self._counts = self._all_counts()
        self._tasks = [*self._all_tasks()]

    def warm_up(self) -> None:
        """Run every tree once, before it settles, if that was never done, and go on for a while:
        caches, allocators, frequency."""
        start = perf_counter()
        if not self._is_warm:
            self._settles = False
            self.sweep()
            self._settles = self._is_warm = True
        while 1e3 * (perf_counter() - start) < WARM_UP_MS:
            self._pair.step(partial(FixedTree, LONE_ROOT))

    def sweep(self) -> Piece:
        """One repetition: milliseconds by name, float64 [number of counts] each, NaN where not
        measured; [`NUM_SMALL`, number of counts] where small trees are run again (by slow targets
        [1, ...]), and [`ROWS_ALONE`, `NUM_ALONE`] where a model decodes alone."""
        times = {name: np.full(len(counts), np.nan) for name, counts in self._counts.items()}
        times |= {name: np.tile(times[name], (self._num_small, 1)) for name in self._repeated}
        times |= {name: np.tile(times[name], (ROWS_ALONE, NUM_ALONE)) for name in ALONE}
        roots: Roots = {name: [] for name in times if name.endswith("draft_root")}
        for place in self._order.permutation(len(self._tasks)):
            self._tasks[place](times, roots)
        return times | {name: np.array([np.median(each)]) for name, each in roots.items()}

    def costs(self, sweeps: Sequence[Piece]) -> Costs:
        """The profile's entry for the sweeps made: models' passes at one pace, and at another what
        lies between them, which is too short to be interrupted as often."""
        of_passes, pace = at_one_pace(
            sweeps, [name for name in self._counts if "overhead" not in name]
        )
        between, _ = at_one_pace(sweeps, [name for name in self._counts if "overhead" in name])
        steady = [one | other for one, other in zip(of_passes, between, strict=True)]

        def of(name: str) -> Curve:
            counts = list(self._counts[name])
            rows = np.concatenate([sweep[name].reshape(-1, len(counts)) for sweep in steady])
            return curve(counts, rows, len(sweeps) * (ROWS_ALONE if name in ALONE else 1))

        def overhead(verifier: str) -> Curve:
            first = of(f"overhead/{self._first}")
            if verifier not in self._others:
                return first
            more = np.stack([sweep[f"more overhead/{verifier}"] for sweep in steady])
            return _raised(first, self._grid.few_nodes, more)

        def growing(name: str) -> GrowingTimes:
            draft_root, draft, overhead = (of(f"{name}/{each}") for each in PARTS)
            return GrowingTimes(draft_root=draft_root, draft=draft, overhead=overhead)

        return Costs(
            batch_size=self._grid.batch_size,
            context=self.context,
            pace=[round(float(slow), 4) for slow in pace],
            verify=of("verify"),
            draft_root=of("draft_root"),
            draft=of("draft"),
            overhead={name: overhead(name) for name in self._grid.verifiers},
            growing=growing(TREES),
            chains=growing(CHAINS),
            scored={head: growing(head) for head in [*self._kinds][2:]},
            target_step=of("target_step"),
            draft_step=of("draft_step"),
        )

    def _all_counts(self) -> dict[str, Sequence[int]]:
        """The counts at which a curve is timed, by its name."""
        counts: dict[str, Sequence[int]] = {
            **dict.fromkeys(self._repeated, self._grid.num_nodes),
            **{f"more overhead/{verifier}": self._grid.few_nodes for verifier in self._others},
            **dict.fromkeys(("draft_root", *ALONE), (1,)),
            "draft": self._grid.widths,
        }
        for name, kind in self._kinds.items():
            times = zip(PARTS, ((1,), kind.widths, kind.sizes), strict=True)
            counts |= {f"{name}/{part}": each for part, each in times}
        return counts

    def _all_tasks(self) -> Iterator[Task]:
        for row in _rows(self._grid.num_nodes):
            yield partial(self._time_trees, row)
        for row in _rows(self._grid.widths):
            yield partial(self._time_widths, row)
            yield partial(self._time_growing_widths, row)
        for place, size in enumerate(self._grid.few_nodes):
            trees = {name: self._grid.tree(size, name) for name in self._others}
            for tree in dict.fromkeys(trees.values()):
                alike = [name for name in self._others if trees[name] == tree]
                yield partial(self._time_walks, place, tree, alike)
        for name, kind in self._kinds.items():
            for place in range(len(kind.sizes)):
                yield partial(self._time_grown, name, kind, place)
        models = zip(ALONE, (self._pair, self._draft), strict=True)
        for (name, rows), place in product(models, range(ROWS_ALONE)):
            yield partial(self._time_alone, name, rows, place)

    def _time_trees(self, row: Sequence[int], times: Piece, roots: Roots) -> None:
        sizes = self._grid.num_nodes
        places = [
            (place, again)
            for place in row
            for again in range(self._num_small if sizes[place] <= SMALL_SIZES else 1)
        ]
        policies = [
            partial(FixedTree, self._grid.tree(sizes[each], self._first)) for each, _ in places
        ]
        num_cold = NUM_COLD_LARGE if sizes[row[0]] > SMALL_SIZES else NUM_COLD
        steps = self._settled(self._pair, policies, num_cold)
        for (place, again), step in zip(places, steps, strict=True):
            times["verify"][again, place] = step.verify_ms
            times[f"overhead/{self._first}"][again, place] = _overhead_ms(step)
            roots["draft_root"] += step.draft_ms[:1]

    def _time_widths(self, row: Sequence[int], times: Piece, roots: Roots) -> None:
        widths = [self._grid.widths[place] for place in row]
        bushes = [partial(FixedTree, bush(width, width)) for width in widths]
        steps = self._in_a_row(self._pair, bushes)
        times["draft"][row] = [np.mean(step.draft_ms[1:]) for step in steps]

    def _time_growing_widths(self, row: Sequence[int], times: Piece, roots: Roots) -> None:
        most, widths = self._grid.num_candidates, [self._grid.widths[place] for place in row]
        bushes = [partial(ShownTree, bush(width, most), most) for width in widths]
        for place, width, step in zip(row, widths, self._in_a_row(self._pair, bushes), strict=True):
            passes = zip(step.draft_ms[1:], step.widths[1:], strict=True)
            times[f"{TREES}/draft"][place] = np.mean([ms for ms, wide in passes if wide == width])
            roots[f"{TREES}/draft_root"] += step.draft_ms[:1]

    def _time_walks(
        self, place: int, tree: Tree, verifiers: Sequence[str], times: Piece, roots: Roots
    ) -> None:
        """Time that one tree takes more under others than under the first verifier, but for the
        target's pass: their walks, and their sampling while it is drafted."""
        policy = partial(FixedTree, tree)
        (usual,) = self._in_a_row(self._pair, [policy])
        for verifier in verifiers:
            self._pair.use(VERIFIERS[verifier])
            (step,) = self._in_a_row(self._pair, [policy])
            more = (step.total_ms - step.verify_ms) - (usual.total_ms - usual.verify_ms)
            times[f"more overhead/{verifier}"][place] = more
        self._pair.use(VERIFIERS[self._first])

    def _time_grown(self, name: str, kind: Growing, place: int, times: Piece, roots: Roots) -> None:
        self._pair.use(VERIFIERS[self._first], kind.score)
        (step,) = self._in_a_row(self._pair, [partial(kind.policy, kind.sizes[place])])
        self._pair.use(VERIFIERS[self._first])
        times[f"{name}/overhead"][place] = _overhead_ms(step)
        roots[f"{name}/draft_root"] += step.draft_ms[:1]
        if name != TREES and kind.sizes[place] == kind.sizes[-1]:
            times[f"{name}/draft"][0] = np.mean(step.draft_ms[1:])

    def _time_alone(self, name: str, rows: Rows, place: int, times: Piece, roots: Roots) -> None:
        """The rows' first model alone."""
        steps = self._settled(rows, [partial(FixedTree, LONE_ROOT)] * NUM_ALONE, NUM_COLD)
        times[name][place] = [step.total_ms for step in steps]

    def _settled(
        self, rows: Rows, policies: Sequence[Callable[[], Policy]], num_cold: int
    ) -> list[StepRecord]:
        return self._in_a_row(rows, policies, num_cold if self._settles else 1)

    def _in_a_row(
        self, rows: Rows, policies: Sequence[Callable[[], Policy]], num_cold: int = 1
    ) -> list[StepRecord]:
        return _in_a_row(rows, policies, 0 if self._grid.slow else num_cold)


def plain_steps(
    target: LanguageModel, text: Sequence[int], sampling: Sampling, *, seed: int
) -> Piece:
    """Milliseconds of a few steps of the target alone, behind one: "step_ms", float64 [steps]."""
    verifier, rng = VERIFIERS[TIMED_VERIFIERS[0]], seeded_source(seed, target.device)
    grid = CostGrid.up_to(2, target.vocab_size)
    rows = Rows((target, None), text, grid, verifier=verifier, sampling=sampling, rng=rng)
    steps = [rows.step(partial(FixedTree, LONE_ROOT)) for _ in range(1 + NUM_ALONE)]
    return {"step_ms": np.array([step.total_ms for step in steps[1:]])}


class CostRounds:
    """Several grids swept in turns, round by round; the rounds may have other work between them.

    A machine's slow spell, of which some last for minutes, so meets all grids alike.

    sweeps  by name
    piece   gives the piece of that name, taken now or before, as `Journal.piece` does
    often   by name, how often a grid is swept in every round, if not once
    """

    def __init__(
        self,
        sweeps: Mapping[str, CostSweeps],
        piece: Callable[[str, Callable[[], Piece]], Piece],
        often: Mapping[str, int] | None = None,
    ) -> None:
        self._sweeps, self._piece, self._often = sweeps, piece, often or {}
        self._done: dict[str, list[Piece]] = {name: [] for name in sweeps}

    def take(self, rounds: Iterable[int], progress: Callable[[], object] = lambda: None) -> None:
        """Sweep every grid in every round.

        rounds    their numbers, each once in all
        progress  called after each grid of a round
        """
        warm: set[str] = set()

        def measured(name: str) -> Piece:
            if name not in warm:
                self._sweeps[name].warm_up()
                warm.add(name)
            return self._sweeps[name].sweep()

        for number, name in product(rounds, self._sweeps):
            often = self._often.get(name, 1)
            for place in range(number * often, (number + 1) * often):
                piece = self._piece(f"times-{name}-{place}", partial(measured, name))
                self._done[name].append(piece)
            progress()

    def costs(self) -> dict[str, Costs]:
        """The profile's entries by name, from the rounds taken so far."""
        return {name: each.costs(self._done[name]) for name, each in self._sweeps.items()}


def _rows(counts: Sequence[int]) -> list[list[int]]:
    """The places of ascending counts, neighbours together (`IN_A_ROW`)."""
    rows: list[list[int]] = []
    for place, number in enumerate(counts):
        if rows and len(rows[-1]) < IN_A_ROW and number < 2 * counts[rows[-1][0]]:
            rows[-1].append(place)
        else:
            rows.append([place])
    return rows


def _in_a_row(
    rows: Rows, policies: Sequence[Callable[[], Policy]], num_cold: int = 1
) -> list[StepRecord]:
    """The step of each policy, behind others of the middle one: `num_cold`, if there is time for
    them, or more; 0: none."""
    start, num_made, spent_ms = perf_counter(), 0, 0.0
    while num_cold and (spent_ms < COLD_MS or (num_made < num_cold and spent_ms < MOST_COLD_MS)):
        rows.step(policies[len(policies) // 2])
        num_made, spent_ms = num_made + 1, 1e3 * (perf_counter() - start)
    return [rows.step(policy) for policy in policies]


def _raised(first: Curve, counts: Sequence[int], more: np.ndarray) -> Curve:
    """The overhead of a verifier, by that of the first and by how much it is more: float64 [sweeps,
    counts], on a line between two counts, and less where it is negative."""
    quartiles = zip(
        (first.low_ms, first.median_ms, first.high_ms),
        np.nanpercentile(more, [25, 50, 75], axis=0),
        strict=True,
    )
    low, median, high = (
        np.maximum(ms + np.interp(first.counts, counts, raised), 0.0).round(6).tolist()
        for ms, raised in quartiles
    )
    return first.model_copy(update={"low_ms": low, "median_ms": median, "high_ms": high})


def _overhead_ms(step: StepRecord) -> float:
    """All of a step but its passes: the acceptance walk, cache keeping, bookkeeping."""
    return step.total_ms - step.verify_ms - sum(step.draft_ms)
