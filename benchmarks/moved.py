"""The machine and the text move: a plan to the letter, the plan that follows, and none, in turns.

    python -m benchmarks.moved [--profile FILE] [--shape 25M] [-o FILE] [--page FILE]

The embedded pair, profiled while nothing else runs (or as FILE says), decodes evaluation prompts
under every condition that this benchmark makes itself: nothing, processes that multiply matrices on
one core and on all, one that eats the memory's bandwidth, and prose for a draft that knows code.
Every prompt is decoded in turns by plain decoding, the plan, the plan that follows, and every
setting of its table alone; the loop keeps what it knows from prompt to prompt, as in a server.
"""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
from runtime.embedded import load_prompts

from .outputs import folder_beside, markdown, parser_of, publish

MATRICES = "import numpy as np; a = np.ones((600, 600), np.float32)\nwhile True: a @ a"
BANDWIDTH = (
    "import numpy as np; a = np.ones(1 << 26, np.float32); b = a.copy()\n"
    "while True: np.copyto(a, b); np.copyto(b, a)"
)
CORES = len(os.sched_getaffinity(0))
CONDITIONS = {
    "nothing": [],
    "one core busy": [MATRICES],
    f"{CORES} cores busy": [MATRICES] * CORES,
    "memory busy": [BANDWIDTH],
    "prose": [],
}
"""What runs beside, as Python programs."""
PROSE = Path(__file__).parent.parent / "LICENSE"


@dataclass(frozen=True)
class MovedRow:
    """One condition; speeds are multiples of plain decoding's, by time per token."""

    condition: str
    temperature: float
    num_tokens: int
    plain_ms: float
    """A token's, without speculation."""
    plan: float
    followed: float
    best: float
    """Of the table's settings, each alone."""
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
    decoders: dict[str, Decoder], prompts: Sequence[Sequence[int]], num_tokens: int
) -> dict[str, float]:
    """Milliseconds per token of every decoder, prompt by prompt in turns."""
    total = dict.fromkeys(decoders, 0.0)
    rng = np.random.default_rng(0)
    for each in decoders.values():
        each.generate(prompts[0], max_new_tokens=8)
    for number, prompt in enumerate(tqdm(prompts, leave=False)):
        for name in rng.permutation(list(decoders)):
            made = decoders[name].generate(
                prompt, max_new_tokens=num_tokens, seed=prompt_seed(0, number), stop_tokens=[]
            )
            total[name] += made.report.continuations[0].decode_ms
    return {name: ms / (len(prompts) * num_tokens) for name, ms in total.items()}


def row(condition: str, plan: Plan, pair: Pair, arguments: Namespace) -> MovedRow:
    """The plan and its settings under one condition."""
    num_prompts, num_tokens = arguments.num_prompts, arguments.num_tokens
    prompts = load_prompts("evaluation", num_prompts)
    if condition == "prose":
        from runtime.embedded import pair_paths

        prompts = prose(pair_paths()[0] / "tokenizer.json", num_prompts, len(prompts[0]))
    follower = Decoder.from_plan(plan, pair.target, pair.draft, follow=True)
    decoders = {"followed": follower}
    for number, setting in enumerate(plan.settings):
        alone = {"drafting": setting.drafting, "verifier": setting.verifier, "predicted": None}
        decoders[str(number)] = Decoder.from_plan(
            plan.model_copy(update=alone), pair.target, pair.draft
        )
    with beside(CONDITIONS[condition]):
        found = carried_out(decoders, prompts, num_tokens)
    plain = found[str(len(plan.settings) - 1)]
    best = min(range(len(plan.settings)), key=lambda number: found[str(number)])
    assert follower.loop is not None
    return MovedRow(
        condition=condition,
        temperature=plan.sampling.temperature,
        num_tokens=num_prompts * num_tokens,
        plain_ms=plain,
        plan=plain / found["0"],
        followed=plain / found["followed"],
        best=plain / found[str(best)],
        best_setting=plan.settings[best].words,
        steps=follower.loop.steps,
    )


def table(rows: Sequence[MovedRow]) -> str:
    """A line for each condition."""
    head = ["beside", "T", "plain, ms", "the plan", "follows", "best setting alone", "its steps"]
    return markdown(
        head,
        [
            [
                each.condition, f"{each.temperature:g}", f"{each.plain_ms:.2f}", f"{each.plan:.2f}",
                f"{each.followed:.2f}", f"{each.best:.2f} ({each.best_setting})",
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
    parser.add_argument("--shape", default="25M", help="of the target, inflated; empty: as it is")
    parser.add_argument("--profile", type=Path, help="default: measured now")
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.0, 0.6])
    parser.add_argument("--conditions", nargs="+", choices=list(CONDITIONS), default=CONDITIONS)
    arguments = parser.parse_args()
    names = f"embedded/target{f'@{arguments.shape}' if arguments.shape else ''}", "embedded/draft"
    pair = Pair(*(load_named(each, device="cpu", dtype=None, attention="auto") for each in names))
    rows = []
    with folder_beside(arguments.output) as folder:
        path = arguments.profile or folder / "profile.json"
        if not path.exists():
            samplings = tuple(Sampling(temperature=each) for each in arguments.temperatures)
            settings = Settings(samplings=samplings)
            measure_profile(pair, load_prompts("profile"), settings, output=path).save(path)
        profile = Profile.load(path)
        for temperature in arguments.temperatures:
            plan = solve(profile, temperature=temperature)
            for condition in arguments.conditions:
                rows.append(row(condition, plan, pair, arguments))
                print(table(rows[-1:]), flush=True)
    publish(rows, table(rows), "moved", arguments.output, arguments.page)


if __name__ == "__main__":
    main()
