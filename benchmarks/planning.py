"""How fast is planning, and against what?  Ratios measured side by side, in one run.

    python -m benchmarks.planning [-o FILE] [--whole]

Planning is timed against slower ways to the same numbers, and against the project's goals; where
two ways compute the same, their values are compared first.  What is compared takes turns, and
medians are reported: a busy machine slows both.  Prints a Markdown table; `-o` also writes JSON.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numba
import numpy as np

from planner.documents.document import write_atomically
from planner.estimates.law import AcceptanceLaw
from planner.optimizer import frontier, optimal_acceptance
from planner.show.papers.sequoia_claims import DEMO_ACCEPTANCE
from planner.trees.best_first import BestFirst
from planner.trees.programme import Programme
from planner.verifiers.transport_lp import best_transport, joint_law
from profiler.times.cost_grid import typical_tree
from tree_kernels.host.ordering import pack_ancestors, reorder

from .gpu.inputs import ancestors
from .outputs import parser_of, replace_marked
from .side_by_side import SideBySide, duration, medians_ms, progress, same, table

ROOT = Path(__file__).parent.parent

VECTORS = {
    "as published, not monotone": DEMO_ACCEPTANCE,
    "the same, sorted": np.sort(DEMO_ACCEPTANCE)[::-1].copy(),
}
"""Acceptance of 32 ranks: measured, by Sequoia's authors; and a non-increasing one."""

LAYERS = 10
DEPTH = LAYERS - 1
"""Layers are counted in nodes, depth in edges."""
WHOLE_SIZE = 512
TRANSCRIBED_SIZES = (16, 24, 32, 48, 64, 96)
FITTED_SIZES = 4
"""So many of the largest sizes give the exponent."""

VOCABULARIES = (32_000, 128_000)
SMALL_VOCABULARY = 50
KERNEL_NODES = 1024

EXACT = 1e-9
SOLVER_TOLERANCE = 1e-6
FEW, MANY = 3, 15
"""Rounds: of what takes seconds, and of what takes milliseconds."""


@dataclass(frozen=True)
class TimeGrowth:
    """How the time of the transcription grew with the size, and where that leads."""

    vector: str
    sizes: list[int]
    times_ms: list[float]
    exponent: float
    """Measured: the slope of log time over log size, over the last FITTED_SIZES sizes."""
    whole_ms: float
    """The time at WHOLE_SIZE, extrapolated along that slope."""
    whole_measured_ms: float | None
    """The time at WHOLE_SIZE by the clock, once; None unless asked for."""

    def sentence(self) -> str:
        fitted = self.sizes[-FITTED_SIZES:]
        text = (
            f"Algorithm 5 in plain Python ({self.vector}): time grows as "
            f"n^{self.exponent:.2f} for n = {fitted[0]} to {fitted[-1]}; at n = {WHOLE_SIZE} that "
            f"makes {duration(self.whole_ms)}, extrapolated"
        )
        if self.whole_measured_ms is None:
            return f"{text} and not run."
        return f"{text}; run once, it took {duration(self.whole_measured_ms)}."


def algorithm_5(acceptance: Sequence[float], max_nodes: int, max_layers: int) -> np.ndarray:
    """Sequoia's Algorithm 5 word for word, slow and obvious: float64 [max_nodes+1, max_layers].

    T[m][l][b]: expected tokens of the best tree of m nodes in at most l layers whose root has b
    children.  The maximum over j stays in the inner loop, as printed; a tree that cannot be scores
    -inf here, where 0 is printed.  Column d of the result is G(., d): d + 1 layers, any b.
    """
    ranks = range(len(acceptance) + 1)
    nothing = float("-inf")
    T = [[[nothing for _ in ranks] for _ in range(max_layers + 1)] for _ in range(max_nodes + 1)]
    for l in range(1, max_layers + 1):  # noqa: E741
        T[1][l][0] = 1.0
    for l in range(2, max_layers + 1):  # noqa: E741
        for m in range(2, max_nodes + 1):
            subtree = max(T[m - 1][l - 1][j] for j in ranks)
            if subtree > nothing:  # 0 * -inf would be NaN
                T[m][l][1] = 1 + acceptance[0] * subtree
            for b in ranks[2:]:
                for y in range(1, m):
                    subtree = max(T[m - y][l - 1][j] for j in ranks)
                    if subtree > nothing:
                        T[m][l][b] = max(T[m][l][b], T[y][l][b - 1] + acceptance[b - 1] * subtree)
    return np.array([[max(by_b) for by_b in by_layer[1:]] for by_layer in T])


def power_law(sizes: Sequence[float], times: Sequence[float]) -> tuple[float, float]:
    """(exponent, factor) of the line through log time over log size, by least squares."""
    exponent, log_factor = np.polyfit(np.log(sizes), np.log(times), 1)
    return float(exponent), float(np.exp(log_factor))


def against_algorithm_5(whole: bool) -> tuple[list[SideBySide], list[TimeGrowth]]:
    """The frontier for 10 layers and 32 ranks, on both paths, against the transcription.

    Both give the whole table up to their size.  At WHOLE_SIZE the transcription's time is
    extrapolated, unless `whole` has it run, once.  Part of each ratio is compiled code against
    plain Python, the rest is the method: one maximum over j for each tree, or best-first search.
    """
    rows, growths = [], []
    largest = TRANSCRIBED_SIZES[-1]
    for name, acceptance in VECTORS.items():
        progress(f"Algorithm 5 in plain Python, n = {TRANSCRIBED_SIZES}: {name}")
        transcribed = partial(algorithm_5, acceptance.tolist(), max_layers=LAYERS)
        ours = partial(frontier, acceptance, max_depth=DEPTH)
        table = transcribed(largest)
        for size in TRANSCRIBED_SIZES:
            same(f"Algorithm 5, n = {size}, {name}", ours(size), table[: size + 1], EXACT)
        *slow, fast, fast_whole = medians_ms(
            [partial(transcribed, size) for size in TRANSCRIBED_SIZES]
            + [partial(ours, size) for size in (largest, WHOLE_SIZE)],
            FEW,
        )
        exponent, factor = power_law(TRANSCRIBED_SIZES[-FITTED_SIZES:], slow[-FITTED_SIZES:])
        expected, measured = factor * WHOLE_SIZE**exponent, None
        if whole:
            progress(f"Algorithm 5 in plain Python, n = {WHOLE_SIZE}: {name}")
            start = time.perf_counter()
            table = transcribed(WHOLE_SIZE)
            measured = 1e3 * (time.perf_counter() - start)
            same(f"Algorithm 5, whole, {name}", ours(WHOLE_SIZE), table, EXACT)
        sizes = list(TRANSCRIBED_SIZES)
        growths.append(TimeGrowth(name, sizes, slow, exponent, expected, measured))
        label, other = f"`frontier`, 10 layers, 32 ranks, {name}", "Algorithm 5, plain Python"
        rows.append(SideBySide(f"{label}, n ≤ {largest}", fast, other, slow[-1]))
        its_ms, extrapolated = (expected, True) if measured is None else (measured, False)
        what = f"{label}, n ≤ {WHOLE_SIZE}"
        rows.append(SideBySide(what, fast_whole, other, its_ms, extrapolated))
    return rows, growths


@dataclass(frozen=True)
class Contest:
    """One way to do something, against another one or a goal."""

    what: str
    ours: Callable[[], np.ndarray]
    against: str | None = None
    theirs: Callable[[], np.ndarray] | None = None
    tolerance: float | None = None
    """Largest difference between the two; None: they compute different things."""
    rounds: int = MANY
    goal_ms: float | None = None
    goal_times: float | None = None

    def measured(self) -> SideBySide:
        """The two take turns, once their values are compared."""
        progress(self.what)
        calls = [self.ours]
        if self.theirs is not None:
            calls.append(self.theirs)
        if self.tolerance is not None:
            same(self.what, *(call() for call in calls), self.tolerance)
        ms, *others = medians_ms(calls, self.rounds)
        against_ms = others[0] if others else None
        return SideBySide(
            self.what, ms, self.against, against_ms,
            goal_ms=self.goal_ms, goal_times=self.goal_times,
        )  # fmt: skip


def contests() -> Iterator[Contest]:
    """All of them, but for the transcription and for what needs processes of its own."""
    published, in_order = VECTORS.values()
    law = AcceptanceLaw.by_rank(in_order)
    # The two exact methods that `frontier` chooses from, on a vector that both can serve.
    for depth in (DEPTH, 24):
        yield Contest(
            f"best-first, n ≤ {WHOLE_SIZE}, depth ≤ {depth}, sorted vector",
            partial(whole_table, BestFirst, law, depth),
            "dynamic programme, compiled", partial(whole_table, Programme, law, depth),
            tolerance=EXACT,
        )  # fmt: skip
    # The optimal acceptance of two children against sorting the ratios that it has to sort.
    for vocabulary in VOCABULARIES:
        p, q = similar_pair(vocabulary)
        for words, replacement in REPLACEMENT.items():
            yield Contest(
                f"`optimal_acceptance`, k = 2, {words}, V = {vocabulary:,}",
                partial(optimal_acceptance, p, q, 2, replacement),
                "`np.argsort(q / p)` alone", partial(np.argsort, q / p),
                goal_times=3,
            )  # fmt: skip
    # The same at a vocabulary that the linear programme can still do; its set-up is included.
    p, q = similar_pair(SMALL_VOCABULARY)
    for words, replacement in REPLACEMENT.items():
        yield Contest(
            f"`optimal_acceptance`, k = 2, {words}, V = {SMALL_VOCABULARY}",
            partial(optimal_acceptance, p, q, 2, replacement),
            "linear programme (cvxpy, HiGHS)", partial(by_programme, p, q, replacement),
            tolerance=SOLVER_TOLERANCE, rounds=FEW,
        )  # fmt: skip
    # The largest tables that the goals name, and what the dynamic programme makes of them.
    programme = f"dynamic programme, n ≤ {WHOLE_SIZE}, depth ≤ 64"
    deeper = f"{programme}, a vector for which deeper is always better"
    for what, acceptance, size, goal_ms in (
        ("`frontier`, n ≤ 4096, depth ≤ 64, sorted vector", in_order, 4096, 200),
        (f"{programme}, as published", published, WHOLE_SIZE, 500),
        (deeper, long_chains(), WHOLE_SIZE, 500),
    ):
        yield Contest(what, partial(frontier, acceptance, size, 64), goal_ms=goal_ms)
    yield Contest(
        "dynamic programme, n ≤ 4096, depth ≤ 64, as published",
        partial(frontier, published, 4096, 64), rounds=1,
    )  # fmt: skip
    # Input of the tree kernel at every step: heavy-path order, and a bit per ancestor.
    parents = typical_tree(KERNEL_NODES).parents
    yield Contest(
        f"heavy-path order and ancestor bits, n = {KERNEL_NODES}",
        lambda: pack_ancestors(reorder(parents).parents),
        "order, and the mask in NumPy", lambda: packed_mask(reorder(parents).parents),
        tolerance=0, goal_ms=0.05,
    )  # fmt: skip


REPLACEMENT = {"with replacement": True, "without replacement": False}


def whole_table(
    method: type[BestFirst] | type[Programme], law: AcceptanceLaw, depth: int
) -> np.ndarray:
    return method(law, WHOLE_SIZE, depth).expected_tokens


def by_programme(p: np.ndarray, q: np.ndarray, replacement: bool) -> np.ndarray:
    """The optimal acceptance of two children by linear programming."""
    law = "independent" if replacement else "without replacement"
    return np.asarray(best_transport(p, joint_law(q, law, 2)).acceptance)


def packed_mask(parents: np.ndarray) -> np.ndarray:
    """int32 [n, ceil(n / 32)], n a multiple of 32: each row is its parent's and the node itself."""
    return np.packbits(ancestors(parents), axis=1, bitorder="little").view(np.int32)


def fresh_processes() -> list[SideBySide]:
    """Imports, and the first plan of a process: one process each, its own start not counted.

    "Warm" is a folder of compiled code that one process before has filled, "cold" an empty one.
    """
    progress("fresh processes")
    imports = [[fresh_ms(IMPORT.format(module=module)) for module in IMPORTED] for _ in range(6)]
    planner, optimizer = np.median(imports[1:], axis=0)  # bytecode and files in memory by then
    first = []
    for _ in range(FEW):
        with tempfile.TemporaryDirectory() as folder:
            first.append([fresh_ms(FIRST_CALL, folder) for _ in ("cold", "warm")])
    cold, warm = np.median(first, axis=0)
    alone = "fresh process, torch not loaded"
    frontiers = "first `frontier` calls of a process (both methods), compiled code on disk"
    return [
        SideBySide(f"`import planner`, {alone}", float(planner), goal_ms=300),
        SideBySide(f"`import planner.optimizer`, {alone}", float(optimizer)),
        SideBySide(frontiers, float(warm), "the same, nothing on disk", float(cold)),
    ]


IMPORTED = ("planner", "planner.optimizer")

IMPORT = """
import sys, time
start = time.perf_counter()
import {module}
print(1e3 * (time.perf_counter() - start))
assert "torch" not in sys.modules
"""

FIRST_CALL = """
import time
from planner.optimizer import frontier
start = time.perf_counter()
frontier([0.5, 0.3, 0.1], 64, 9)
frontier([0.5, 0.1, 0.3], 64, 9)
print(1e3 * (time.perf_counter() - start))
"""


def fresh_ms(code: str, compiled: str | None = None) -> float:
    """The milliseconds that `code` prints, run in a process of its own.

    compiled  the folder in which numba keeps compiled code; None: where it always does
    """
    environment = os.environ if compiled is None else {**os.environ, "NUMBA_CACHE_DIR": compiled}
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return float(result.stdout)


def similar_pair(vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """(p, q), float64 [V]: softmax of normal logits, the draft's 70 % the target's."""
    logits, noise = 3 * np.random.default_rng(0).normal(size=(2, vocabulary))
    weights = np.exp([logits, 0.7 * logits + 0.3 * noise])
    p, q = weights / weights.sum(axis=1, keepdims=True)
    return p, q


def long_chains() -> np.ndarray:
    """float64 [32], not monotone: with a first rank so good, no depth is enough for the best tree.

    The dynamic programme must then fill every level; it stops early once a level changes nothing.
    """
    acceptance = np.full(32, 0.001)
    acceptance[0], acceptance[1] = 0.96, 0.0
    return acceptance


def main() -> None:
    parser = parser_of(__doc__, {})
    parser.add_argument(
        "--whole", action="store_true",
        help=f"also run the plain transcription at n = {WHOLE_SIZE}: minutes",
    )  # fmt: skip
    arguments = parser.parse_args()
    rows, growths = against_algorithm_5(arguments.whole)
    rows += [contest.measured() for contest in contests()]
    rows += fresh_processes()
    print(f"{table(rows)}\n")
    print("\n".join(growth.sentence() for growth in growths))
    goals = [row.met for row in rows if row.met is not None]
    print(f"{sum(goals)} of {len(goals)} goals met.")
    if arguments.output:
        content = {
            "machine": f"{platform.machine()}, {os.cpu_count()} CPUs",
            "python": platform.python_version(),
            "numpy": np.__version__,
            "numba": numba.__version__,
            "rows": [asdict(row) | {"met": row.met} for row in rows],
            "algorithm_5": [asdict(growth) for growth in growths],
        }
        write_atomically(arguments.output, json.dumps(content, indent=1) + "\n")
    if arguments.page:
        replace_marked(arguments.page, "planning", table(rows))


if __name__ == "__main__":
    main()
