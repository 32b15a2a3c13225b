"""The machine and the text move: a plan to the letter, the plan that follows, and none, in turns.

    python -m benchmarks.moved [--shape 25M] [--conditions NAME ...] [-o FILE] [--page FILE]

The embedded pair decodes evaluation prompts under every condition that this benchmark makes itself:
nothing, processes that multiply matrices on one core and on all, one that eats the memory's
bandwidth, the same while it is profiled and not while it decodes, prose for a draft that knows
code, another temperature and longer prompts than it was planned for.  Every prompt is decoded in
turns by the plan that follows and by each of the table's settings alone, plain decoding among them;
the loop keeps what it knows from prompt to prompt, as in a server.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from planner.optimizer import solve
from profiler import Pair, Settings
from runtime import Decoder
from runtime.embedded import PAIRS, load_prompts, pair_paths

from .contests import SHAPES, add_contests, contests_of, draft_of, profiled, samplings_at, target_of
from .decoding import in_turns, log_error
from .outputs import ContestRow, folder_beside, kept, kept_rows, markdown, parser_of, publish

START = "import os, sys, numpy as np; a = np.ones"
WHILE = "\nwhile not os.kill(int(sys.argv[1]), 0): "  # as long as that process lives
MATRICES = f"{START}((600, 600), np.float32){WHILE}a @ a"
BANDWIDTH = f"{START}(1 << 26, np.float32); b = a.copy(){WHILE}np.copyto(a, b); np.copyto(b, a)"
APART = """import subprocess, sys
quiet = subprocess.DEVNULL
program = [sys.executable, "-c", *sys.argv[1:]]
print(subprocess.Popen(program, stdin=quiet, stdout=quiet, stderr=quiet).pid)"""
"""A program that starts another and ends: what a profiler starts itself, it takes to be its own."""
CORES = len(os.sched_getaffinity(0))
TEMPERATURES = (0.0, 0.6)
SETTINGS = Settings(samplings=samplings_at(TEMPERATURES))


@dataclass(frozen=True)
class Condition:
    """How decoding differs from profiling.

    beside       Python programs that run while it decodes
    profiled     likewise while it was profiled
    prose        English instead of Python source
    temperature  None: the plan's
    joined       evaluation prompts that make one
    """

    beside: tuple[str, ...] = ()
    profiled: tuple[str, ...] = ()
    prose: bool = False
    temperature: float | None = None
    joined: int = 1


CONDITIONS = {
    "nothing": Condition(),
    "one core busy": Condition(beside=(MATRICES,)),
    f"{CORES} cores busy": Condition(beside=(MATRICES,) * CORES),
    "memory busy": Condition(beside=(BANDWIDTH,)),
    f"profiled with {CORES} cores busy": Condition(profiled=(MATRICES,) * CORES),
    "prose": Condition(prose=True),
    "T = 1": Condition(temperature=1.0),
    "prompts of 256 tokens": Condition(joined=4),
}
NUM_EVALUATION = 256
"""Evaluation prompts that there are."""
PROSE = Path(__file__).parent.parent / "LICENSE"


@dataclass(frozen=True)
class MovedRow(ContestRow):
    """One condition; the temperature is the one that was planned for.  Speeds are multiples of
    plain decoding's, by time per token."""

    condition: str
    num_tokens: int
    promised: float
    plain_ms: float
    """A token's, without speculation."""
    plan: float
    followed: float
    best: float
    """The best of the table's settings, each alone."""
    best_setting: str
    over_best: float
    """The share by which the plan that follows was faster than that."""
    over_best_error: float
    """Its standard error, prompts being the samples."""
    steps: list[int]
    """Steps of the plan that follows, by setting, none last; the plan's own first, if it drafts."""


@contextmanager
def beside(programs: Sequence[str]) -> Iterator[None]:
    """Python programs that run meanwhile, one thread each, nobody's children."""
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    running = []
    try:
        for each in programs:
            command = [sys.executable, "-c", APART, each, str(os.getpid())]
            running.append(int(subprocess.check_output(command, env=alone)))
        yield
    finally:
        for process in running:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.kill(process, signal.SIGKILL)


def prose(tokenizer: Path, count: int, length: int) -> list[list[int]]:
    """Prompts of English text."""
    from tokenizers import Tokenizer

    ids = Tokenizer.from_file(str(tokenizer)).encode(PROSE.read_text()).ids
    starts = np.linspace(0, len(ids) - length, count).astype(int)
    return [ids[start : start + length] for start in starts]


def prompts_for(condition: Condition, count: int) -> list[list[int]]:
    """So many evaluation prompts, or prose; fewer where there are no more to be joined."""
    joined = condition.joined
    count = min(count, NUM_EVALUATION // joined)
    prompts = load_prompts("evaluation", count * joined)
    if condition.prose:
        return prose(pair_paths()[0] / "tokenizer.json", count, len(prompts[0]))
    groups = [prompts[start : start + joined] for start in range(0, len(prompts), joined)]
    return [[token for each in group for token in each] for group in groups]


def measured(
    contest: tuple[str, str, float], name: str, profile: Path, arguments: Namespace
) -> list[MovedRow]:
    """One row: the plan and its settings under the condition of that name.

    contest  pair, shape and temperature
    profile  measured now if it is not there
    """
    pair = Pair(target_of(contest[1]), draft_of(contest[0]))
    with beside(CONDITIONS[name].profiled):
        facts = profiled(pair, profile, load_prompts("profile"), SETTINGS)
    plan = solve(facts, temperature=contest[2])
    condition, num_tokens = CONDITIONS[name], arguments.num_tokens
    prompts = prompts_for(condition, arguments.num_prompts)
    decoder = partial(
        Decoder.from_plan, target=pair.target, draft=pair.draft, temperature=condition.temperature
    )
    follower = decoder(plan, follow=True)
    decoders = {"followed": follower}
    for number, setting in enumerate(plan.settings):
        alone = {"drafting": setting.drafting, "verifier": setting.verifier, "predicted": None}
        decoders[str(number)] = decoder(plan.model_copy(update=alone))
    last = len(plan.settings) - 1
    with beside(condition.beside):
        made = in_turns(decoders, prompts, num_tokens)
    found = {name: np.array([each.decode_ms for each in texts]) for name, texts in made.items()}
    total = {name: float(ms.sum()) for name, ms in found.items()}
    plain = total[str(last)]
    best = min(range(len(plan.settings)), key=lambda number: total[str(number)])
    followed, beside_it = found["followed"], found[str(best)]
    assert follower.loop is not None
    assert plan.predicted is not None
    row = MovedRow(
        *contest,
        condition=name,
        num_tokens=len(prompts) * num_tokens,
        promised=plan.predicted.speedup.value,
        plain_ms=plain / (len(prompts) * num_tokens),
        plan=plain / total[str(0 if plan.speculates else last)],
        followed=plain / total["followed"],
        best=plain / total[str(best)],
        best_setting=plan.settings[best].words,
        over_best=total[str(best)] / total["followed"] - 1,
        over_best_error=log_error(beside_it / beside_it.sum() - followed / followed.sum()),
        steps=follower.loop.steps,
    )
    return [row]


def table(rows: Sequence[MovedRow]) -> str:
    """A line for each condition."""
    head = [
        "pair", "shape", "T", "condition", "plain, ms", "promised", "the plan", "follows",
        "best setting alone", "follows, over the best", "follows: steps by setting",
    ]  # fmt: skip
    return markdown(
        head,
        [
            [
                *each.contest, each.condition, f"{each.plain_ms:.2f}",
                f"{each.promised:.2f}", f"{each.plan:.2f}", f"{each.followed:.2f}",
                f"{each.best:.2f} ({each.best_setting})",
                f"{each.over_best:+.1%} ± {each.over_best_error:.1%}",
                ", ".join(map(str, each.steps)),
            ]
            for each in rows
        ],
    )  # fmt: skip


def main() -> None:
    counts = {
        "num-prompts": (16, "prompts of every condition"),
        "num-tokens": (128, "tokens of every continuation"),
    }
    parser = parser_of(__doc__ or "", counts)
    add_contests(parser)
    parser.add_argument(
        "--temperatures", nargs="+", type=float, choices=TEMPERATURES, default=[0.6]
    )
    parser.add_argument("--conditions", nargs="+", choices=list(CONDITIONS), default=CONDITIONS)
    arguments = parser.parse_args()
    pairs, shapes = contests_of(arguments)
    with folder_beside(arguments.output, keep=True) as folder:
        for pair, shape, name in product(pairs, shapes, arguments.conditions):
            stem = f"{pair}-{shape or 'as-it-is'}"
            profile = folder / f"profile-{stem}-{len(CONDITIONS[name].profiled)}.json"
            for temperature in arguments.temperatures:
                place = folder / f"row-{stem}-{name.replace(' ', '-')}-{temperature:g}.json"
                measure = partial(measured, (pair, shape, temperature), name, profile, arguments)
                found = kept(place, list[MovedRow], measure)
                print(table(found), flush=True)
                rows = all_rows(folder)
                publish(rows, table(rows), "moved", arguments.output, arguments.page)


def all_rows(folder: Path) -> list[MovedRow]:
    """Every row that was measured so far, by this command or by one for other rows."""
    orders = list(PAIRS), list(SHAPES), list(CONDITIONS)
    return sorted(
        kept_rows(folder, list[MovedRow]),
        key=lambda row: (
            *map(list.index, orders, (row.pair, row.shape, row.condition)), row.temperature,
        ),
    )  # fmt: skip


if __name__ == "__main__":
    main()
