"""What verification, drafting and bookkeeping cost: real steps of the runtime, timed.

Every time comes from `runtime.Session.step` itself at a fixed context length, so that the curve
describes what will run.  One sweep runs every tree once, in an order of its own; sweeps are
repeated in rounds, so that a slow spell of the machine meets all trees alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from time import perf_counter

import numpy as np

from planner.growth.base import COLLISION, FEATURES, SCORE
from planner.plan import VERIFIER_TRAITS
from planner.profile import Costs, Sampling
from planner.tree import Tree
from runtime.models import LanguageModel
from runtime.policies import StaticTree
from runtime.randomness import seeded_source
from runtime.session import Score, Session, StepRecord
from runtime.verifiers import VERIFIERS

from .journal import Journal, Piece
from .timing import curve
from .trees import broom, bush, grid, typical_tree

LONE_ROOT = Tree([-1])
WARM_UP_MS = 300.0
EVERY_SIZE = 64
"""Up to here no tree size is left out: matrix kernels work in tiles, so that 12 nodes can be
cheaper than 11 and 13, and what lies between two measured sizes is anybody's guess."""
FEW_SIZES = (2, 16)
"""And the largest: the tree sizes at which the walks of all verifiers but one are timed."""
NUM_ALONE = 4
"""Steps of a model alone that are timed in a row, after one that is not: where it decodes alone,
its step follows one like it, and what every speedup is a multiple of is worth knowing well."""
NUM_CANDIDATES = 8
"""Children that a node of a growing tree may have, as far as times are concerned."""


@dataclass(frozen=True)
class CostGrid:
    """What is timed."""

    num_nodes: tuple[int, ...]
    widths: tuple[int, ...]
    num_candidates: int
    """Drawn below every expanded node where draft passes of growing trees are timed."""

    @classmethod
    def up_to(cls, max_nodes: int, vocab_size: int) -> CostGrid:
        """Trees of up to `max_nodes` nodes; levels of up to half as many expanded ones."""
        widest = max(1, min(max_nodes // 2, vocab_size))
        most = min(NUM_CANDIDATES, vocab_size)
        return cls(tuple(grid(max_nodes, EVERY_SIZE)), tuple(grid(widest)), most)

    @property
    def few_nodes(self) -> tuple[int, ...]:
        """Some of `num_nodes`, from the smallest tree that is drafted to the largest."""
        largest = self.num_nodes[-1]
        return tuple(sorted({min(size, largest) for size in (*FEW_SIZES, largest)}))

    @property
    def depth(self) -> int:
        """Of the deepest tree that is timed."""
        walked = (_walk_tree(rule, n).depth for n in self.num_nodes for rule in VERIFIERS)
        return max(bush(self.widths[-1], self.num_candidates).depth, *walked)


class CostSweeps:
    """Sweeps over one grid at one context length.

    text       token ids, at least `context` of them: what stands in the caches
    verifiers  whose acceptance walks are timed: the first one's at every size and with everything
               else, the others' at a few sizes.  A chain's walk is timed on the same trees.
    heads      by SHA-256 of their files, whose chains' draft passes are timed
    """

    def __init__(
        self,
        target: LanguageModel,
        draft: LanguageModel,
        text: Sequence[int],
        context: int,
        grid: CostGrid,
        sampling: Sampling,
        *,
        verifiers: Sequence[str],
        seed: int,
        heads: Mapping[str, Score] | None = None,
    ) -> None:
        self.context, self.grid, self.verifiers = context, grid, tuple(verifiers)
        self._heads = dict(heads or {})
        rng = seeded_source(seed, target.device)
        rule = VERIFIERS[verifiers[0]]
        self._pair = Session(target, draft, verifier=rule, sampling=sampling, rng=rng)
        self._draft = Session(draft, None, verifier=rule, sampling=sampling, rng=rng)
        for session in (self._pair, self._draft):
            session.prefill(list(text[:context]))
        self._order = np.random.default_rng(seed)

    def warm_up(self) -> None:
        """Run every tree once, and go on for a while: caches, allocators, frequency."""
        start = perf_counter()
        self.sweep()
        while 1e3 * (perf_counter() - start) < WARM_UP_MS:
            self._run(self._pair, LONE_ROOT)

    def sweep(self) -> Piece:
        """One repetition: milliseconds by name, float64 [number of counts] each, but
        [`NUM_ALONE`] where a model decodes alone."""
        times = {
            "verify": np.full(len(self.grid.num_nodes), np.nan),
            "draft_root": np.full(1, np.nan),
            "draft": np.full(len(self.grid.widths), np.nan),
            "draft_grown": np.full(len(self.grid.widths), np.nan),
            **{f"draft_scored/{head}": np.full(1, np.nan) for head in self._heads},
            "target_step": np.full(NUM_ALONE, np.nan),
            "draft_step": np.full(NUM_ALONE, np.nan),
        }
        for verifier, sizes in self._walks().items():
            times[f"overhead/{verifier}"] = np.full(len(sizes), np.nan)
        root_passes: list[float] = []
        for kind, place in self._order.permutation(self._tasks()):
            index = int(place)
            if kind == "nodes":
                step = self._run(self._pair, typical_tree(self.grid.num_nodes[index]))
                times["verify"][index] = step.verify_ms
                times[f"overhead/{self.verifiers[0]}"][index] = _overhead_ms(step)
                root_passes += step.draft_ms[:1]
            elif kind == "width":
                step = self._run(self._pair, broom(self.grid.widths[index]))
                times["draft"][index] = np.mean(step.draft_ms[1:])
            elif kind == "grown":
                width = self.grid.widths[index]
                times["draft_grown"][index] = self._grown_ms(
                    width, self.grid.num_candidates, COLLISION
                )
            elif kind in self._heads:
                self._pair.score = self._heads[kind]
                times[f"draft_scored/{kind}"][0] = self._grown_ms(1, 1, SCORE)
                self._pair.score = None
            elif kind == "target":
                times["target_step"][:] = self._alone_ms(self._pair)
            elif kind == "draft":
                times["draft_step"][:] = self._alone_ms(self._draft)
            else:
                self._pair.use(VERIFIERS[kind])
                step = self._run(self._pair, _walk_tree(kind, self.grid.few_nodes[index]))
                self._pair.use(VERIFIERS[self.verifiers[0]])
                times[f"overhead/{kind}"][index] = _overhead_ms(step)
        times["draft_root"][0] = np.median(root_passes)
        return times

    def costs(self, sweeps: Sequence[Piece]) -> Costs:
        """The profile's entry for the sweeps made."""

        def of(name: str, counts: Sequence[int]) -> dict[str, object]:
            rows = np.concatenate([sweep[name].reshape(-1, len(counts)) for sweep in sweeps])
            return curve(list(counts), rows).model_dump()

        return Costs.model_validate(
            {
                "batch_size": 1,
                "context": self.context,
                "verify": of("verify", self.grid.num_nodes),
                "overhead": {
                    verifier: of(f"overhead/{verifier}", sizes)
                    for verifier, sizes in self._walks().items()
                },
                "draft_root": of("draft_root", [1]),
                "draft": of("draft", self.grid.widths),
                "draft_grown": of("draft_grown", self.grid.widths),
                "draft_scored": {head: of(f"draft_scored/{head}", [1]) for head in self._heads},
                "target_step": of("target_step", [1]),
                "draft_step": of("draft_step", [1]),
            }
        )

    def _walks(self) -> dict[str, tuple[int, ...]]:
        """The sizes at which each verifier's walk is timed."""
        first, *others = self.verifiers
        return {first: self.grid.num_nodes} | dict.fromkeys(others, self.grid.few_nodes)

    def _tasks(self) -> list[tuple[str, int]]:
        return [
            *(("nodes", index) for index in range(len(self.grid.num_nodes))),
            *(("width", index) for index in range(len(self.grid.widths))),
            *(("grown", index) for index in range(len(self.grid.widths))),
            *((head, 0) for head in self._heads),
            ("target", 0),
            ("draft", 0),
            *(
                (verifier, index)
                for verifier in self.verifiers[1:]
                for index in range(len(self.grid.few_nodes))
            ),
        ]

    def _grown_ms(self, width: int, num_candidates: int, column: int) -> float:
        """The mean draft pass of a growing tree over `width` nodes below the root, whose rule looks
        at one of `FEATURES` beside what was drawn."""
        tree = bush(width, num_candidates)
        step = self._pair.step(_Shown(tree, num_candidates, FEATURES[column]))
        self._pair.rewind(self.context)
        passes = zip(step.draft_ms[1:], step.widths[1:], strict=True)
        return float(np.mean([ms for ms, wide in passes if wide == width]))

    def _alone_ms(self, session: Session) -> list[float]:
        """Of the session's first model: float [`NUM_ALONE`]."""
        return [self._run(session, LONE_ROOT).total_ms for _ in range(1 + NUM_ALONE)][1:]

    def _run(self, session: Session, tree: Tree) -> StepRecord:
        step = session.step(StaticTree(tree))
        session.rewind(self.context)
        return step


class CostRounds:
    """Several grids swept in turns, round by round; the rounds may have other work between them.

    A machine's slow spell, of which some last for minutes, so meets all grids alike, and does not
    last for the whole of any.

    sweeps   by name
    journal  keeps every sweep
    """

    def __init__(self, sweeps: Mapping[str, CostSweeps], journal: Journal) -> None:
        self._sweeps, self._journal = sweeps, journal
        self._done: dict[str, list[Piece]] = {name: [] for name in sweeps}

    def take(self, rounds: Iterable[int], progress: Callable[[], object]) -> None:
        """Sweep every grid once in every round.

        rounds    their numbers, each once in all
        progress  called after each sweep
        """
        warm: set[str] = set()

        def measured(name: str) -> Piece:
            if name not in warm:
                self._sweeps[name].warm_up()
                warm.add(name)
            return self._sweeps[name].sweep()

        for number, name in product(rounds, self._sweeps):
            piece = self._journal.piece(f"times-{name}-{number}", partial(measured, name))
            self._done[name].append(piece)
            progress()

    def costs(self) -> dict[str, Costs]:
        """By name, from the rounds taken so far."""
        return {name: each.costs(self._done[name]) for name, each in self._sweeps.items()}


class _Shown(StaticTree):
    """A tree that is drafted as if it grew: shown everything, and deciding nothing by it."""

    def __init__(self, tree: Tree, num_candidates: int, column: str) -> None:
        super().__init__(tree)
        self.num_candidates = num_candidates
        self.columns = (column,)

    def expanded(self, nodes: Sequence[int], drawn: np.ndarray, features: np.ndarray) -> None:
        pass


def _walk_tree(verifier: str, num_nodes: int) -> Tree:
    """The tree that a verifier's walk is timed on; as a chain it would be out of proportion."""
    most = VERIFIER_TRAITS[verifier].max_children
    return typical_tree(num_nodes) if most in (None, 1) else typical_tree(num_nodes, most)


def _overhead_ms(step: StepRecord) -> float:
    """All of a step but its passes: the acceptance walk, cache keeping, bookkeeping."""
    return step.total_ms - step.verify_ms - sum(step.draft_ms)
