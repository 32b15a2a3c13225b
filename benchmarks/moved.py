"""The machine and the text move: a plan to the letter, the plan that follows, and none, in turns.

    python -m benchmarks.moved [--shapes 25M] [--conditions NAME ...] [-o FILE] [--page FILE]

The embedded pair decodes evaluation prompts under every condition that this benchmark makes itself:
nothing, processes that multiply matrices on one core and on all, one that eats the memory's
bandwidth, the same while it is profiled and not while it decodes, prose for a draft that knows
code, another temperature and longer prompts than it was planned for.  Every prompt is decoded in
turns by plain decoding, the plan and the plan that follows, and every fourth one by each of the
table's other settings alone; the loop keeps what it knows from prompt to prompt, as in a server.
"""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from tqdm import tqdm

from planner import Profile
from planner.cli.models import load_named
from planner.documents.sampling import Sampling
from planner.optimizer import solve
from planner.plans.plan import Plan
from profiler import Pair, Settings, measure_profile
from runtime import Decoder
from runtime.decode import prompt_seed
from runtime.embedded import load_prompts, pair_paths

from .outputs import folder_beside, markdown, parser_of, publish

START = "import os, numpy as np; parent = os.getppid(); a = np.ones"
WHILE = "\nwhile os.getppid() == parent: "
MATRICES = f"{START}((600, 600), np.float32){WHILE}a @ a"
BANDWIDTH = f"{START}(1 << 26, np.float32); b = a.copy(){WHILE}np.copyto(a, b); np.copyto(b, a)"
CORES = len(os.sched_getaffinity(0))


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
ALONE_EVERY = 4
"""Prompts of which one is decoded by the other settings, too."""
PROSE = Path(__file__).parent.parent / "LICENSE"


@dataclass(frozen=True)
class MovedRow:
    """One condition; speeds are multiples of plain decoding's, by time per token."""

    shape: str
    condition: str
    temperature: float
    """That was planned for."""
    num_tokens: int
    promised: float
    plain_ms: float
    """A token's, without speculation."""
    plan: float
    followed: float
    best: float
    """Of the table's settings, each alone, beside plain decoding of the same prompts."""
    best_setting: str
    steps: list[int]
    """Of the plan that follows, by setting, the plan's own first, none last."""


@contextmanager
def beside(programs: Sequence[str]) -> Iterator[None]:
    """Python programs that run meanwhile, one thread each."""
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    running = [subprocess.Popen([sys.executable, "-c", each], env=alone) for each in programs]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def prose(tokenizer: Path, count: int, length: int) -> list[list[int]]:
    """Prompts of English text."""
    from tokenizers import Tokenizer

    ids = Tokenizer.from_file(str(tokenizer)).encode(PROSE.read_text()).ids
    starts = np.linspace(0, len(ids) - length, count).astype(int)
    return [ids[start : start + length] for start in starts]


def carried_out(
    decoders: dict[str, Decoder],
    prompts: Sequence[Sequence[int]],
    num_tokens: int,
    always: set[str],
) -> dict[str, np.ndarray]:
    """Milliseconds per token on the prompts each decoder had, in turns: all, or one of four."""
    spent: dict[str, list[float]] = {name: [] for name in decoders}
    rng = np.random.default_rng(0)
    for each in decoders.values():
        each.generate(prompts[0], max_new_tokens=8)
    for number, prompt in enumerate(tqdm(prompts, leave=False)):
        for name in rng.permutation(list(decoders)):
            if name not in always and number % ALONE_EVERY:
                continue
            made = decoders[name].generate(
                prompt, max_new_tokens=num_tokens, seed=prompt_seed(0, number), stop_tokens=[]
            )
            spent[name].append(made.report.continuations[0].decode_ms / num_tokens)
    return {name: np.array(each) for name, each in spent.items()}


def prompts_for(condition: Condition, count: int) -> list[list[int]]:
    """So many evaluation prompts, or prose."""
    joined = condition.joined
    prompts = load_prompts("evaluation", count * joined)
    if condition.prose:
        return prose(pair_paths()[0] / "tokenizer.json", count, len(prompts[0]))
    groups = [prompts[start : start + joined] for start in range(0, len(prompts), joined)]
    return [[token for each in group for token in each] for group in groups]


def row(shape: str, name: str, plan: Plan, pair: Pair, arguments: Namespace) -> MovedRow:
    """The plan and its settings under the condition of that name."""
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
        found = carried_out(decoders, prompts, num_tokens, {"followed", "0", str(last)})
    plain = found[str(last)]

    def speed(name: str | int) -> float:
        spent = found[str(name)]
        beside_it = plain if len(spent) == len(plain) else plain[::ALONE_EVERY]
        return float(beside_it.sum() / spent.sum())

    best = max(range(len(plan.settings)), key=speed)
    assert follower.loop is not None
    assert plan.predicted is not None
    return MovedRow(
        shape=shape,
        condition=name,
        temperature=plan.sampling.temperature,
        num_tokens=len(prompts) * num_tokens,
        promised=plan.predicted.speedup.value,
        plain_ms=float(plain.mean()),
        plan=speed(0),
        followed=speed("followed"),
        best=speed(best),
        best_setting=plan.settings[best].words,
        steps=follower.loop.steps,
    )


def table(rows: Sequence[MovedRow]) -> str:
    """A line for each condition."""
    head = [
        "target", "T", "condition", "plain, ms", "promised", "the plan", "follows",
        "best setting alone", "follows: steps by setting",
    ]  # fmt: skip
    return markdown(
        head,
        [
            [
                each.shape, f"{each.temperature:g}", each.condition, f"{each.plain_ms:.2f}",
                f"{each.promised:.2f}", f"{each.plan:.2f}", f"{each.followed:.2f}",
                f"{each.best:.2f} ({each.best_setting})",
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
    parser.add_argument("--shapes", nargs="+", default=["25M"], help="of the target, inflated")
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.0, 0.6])
    parser.add_argument("--conditions", nargs="+", choices=list(CONDITIONS), default=CONDITIONS)
    arguments = parser.parse_args()
    rows = []
    with folder_beside(arguments.output) as folder:
        for shape in arguments.shapes:
            names = f"embedded/target@{shape}", "embedded/draft"
            pair = Pair(
                *(load_named(each, device="cpu", dtype=None, attention="auto") for each in names)
            )
            for name, temperature in product(arguments.conditions, arguments.temperatures):
                programs = CONDITIONS[name].profiled
                path = folder / f"{shape}-{len(programs)}.json"
                with beside(programs):
                    profile = profiled(pair, path, arguments.temperatures)
                plan = solve(profile, temperature=temperature)
                rows.append(row(shape, name, plan, pair, arguments))
                publish(rows, table(rows), "moved", arguments.output, arguments.page)
                print(table(rows[-1:]), flush=True)


def profiled(pair: Pair, path: Path, temperatures: Sequence[float]) -> Profile:
    """The profile at `path`, measured now if it is not there."""
    if not path.exists():
        samplings = tuple(Sampling(temperature=each) for each in temperatures)
        prompts = load_prompts("profile")
        measure_profile(pair, prompts, Settings(samplings=samplings), output=path).save(path)
    return Profile.load(path)


if __name__ == "__main__":
    main()
