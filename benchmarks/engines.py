"""Plans in the engines that they are made for: what is promised, measured, and the best of a grid.

    python -m benchmarks.engines --files DIR [--engine-path DIR] [-o FILE] [--page FILE]

DIR is what `benchmarks.engine_files` makes: the embedded pair in each engine's own format.  For
each engine and size there is one profile, of the profiling prompts; for each temperature one plan.
On a few evaluation prompts it is decoded with in turns with every setting of a grid, of which the
fastest is taken; on many in turns with plain decoding and with that one, for what it promised and
for what it missed: the fastest of many is so partly by luck, which does not last.  One thread.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch

from engines import PROGRAMS, Files, Program
from engines.checking import check
from engines.measuring import measure_engine_profile
from engines.timing import Turns
from planner import Profile
from planner.cli.models import load_named
from planner.documents.estimate import Estimate
from planner.documents.sampling import Sampling
from planner.estimates.step_costs import step_costs
from planner.optimizer import solve
from planner.plans.check import Check, EngineRun
from planner.plans.plan import Plan
from planner.policies import ConfidentDrafting, Drafting
from profiler import Pair, Settings
from runtime.embedded import load_prompts

from .engine_files import WORDS, stem_of
from .outputs import folder_beside, markdown, parser_of, publish

SUFFIXES = {"llamacpp": ".gguf", "openvino": ".ov", "hf": ""}
OPTIONS = {"llamacpp": ("-fa", "off", "-ctk", "f32", "-ctv", "f32", "--no-warmup")}
SURE = (0.0, 0.2, 0.4, 0.6)
GRID = {
    "llamacpp": list(product((1, 2, 4, 6, 8, 12), SURE)),
    "openvino": [(length, 0.0) for length in range(1, 22)],
    "hf": list(product((1, 2, 3, 5, 8), SURE)),
}
"""Lengths and confidences that are tried beside the plan's."""
ROOM = 512


@dataclass(frozen=True)
class EngineRow:
    """One plan in one engine; speedups are multiples of plain decoding, measured in turns;
    of three numbers the last two are the 95 % interval.

    best_      the grid's setting that was the fastest on its few prompts
    num_tried  settings of the grid, the plan's own not counted
    """

    engine: str
    version: str
    shape: str
    temperature: float
    setting: str
    predicted_tokens: list[float]
    measured_tokens: list[float]
    predicted_speedup: list[float]
    measured_speedup: list[float]
    cpu_speedup: float | None
    num_prompts: int
    num_same: int
    num_greedy: int
    num_tried: int
    num_tried_prompts: int
    best_setting: str
    best_speedup: float
    weights: str = "float32"
    """The type of the target's."""
    num_tokens: int = 128
    """Length of every continuation."""
    plain_ms: list[float] | None = None
    """Milliseconds of a plain step: in the profile, and in the check; None: not written down."""

    @property
    def target(self) -> str:
        """The target as the table names it."""
        return target_words(self.shape, self.weights)


def program(engine: str, shape: str, arguments: Namespace, *, threads: int = 1) -> Program:
    suffix, folder = SUFFIXES[engine], arguments.files
    files = Files(
        target=str(folder / f"{stem_of(shape, arguments.weights)}{suffix}"),
        draft=str(folder / f"draft{suffix}"),
        place=arguments.engine_path,
        options=OPTIONS.get(engine, ()),
        threads=threads,
    )
    return PROGRAMS[engine](files, ROOM)


def profiled(engine: Program, arguments: Namespace, path: Path) -> Profile:
    """The profile at `path`, measured now if it is not there.

    Inflating a target does not change its distribution: acceptance is the smaller one's.
    """
    if not path.exists():
        target, draft = (
            load_named(f"embedded/{role}", device="cpu", dtype="float32", attention="sdpa")
            for role in ("target", "draft")
        )
        temperatures = [0.0] if engine.facts.greedy_only else [0.0, 0.6]
        settings = Settings(
            samplings=tuple(Sampling(temperature=each) for each in temperatures),
            num_tokens=arguments.num_tokens,
        )
        prompts = load_prompts("profile", arguments.num_profiled)
        measure_engine_profile(
            Pair(target, draft), prompts, settings, engine=engine, output=path
        ).save(path)
    return Profile.load(path)


def contest(
    engine: Program, plan: Plan, grid: Sequence[tuple[int, float]], stem: Path, arguments: Namespace
) -> tuple[Check, Check]:
    """The plan beside the best of a grid, and before that among all of it.  Both are kept."""

    prompts = load_prompts("evaluation", arguments.num_prompts)

    def checked(kind: str, every: int, others: Sequence[Drafting]) -> Check:
        path = stem.with_name(f"{stem.name}-{kind}.json")
        if not path.exists():
            turns = Turns(prompts[::every], plan.sampling, arguments.num_tokens, seed=0)
            check(engine, plan, turns, others=others).save(path)
        return Check.load(path)

    among = checked(
        "grid",
        arguments.num_prompts // arguments.num_tried,
        [ConfidentDrafting(max_depth=length, confidence=sure) for length, sure in grid],
    )
    best = others_best(among).drafting
    assert best is not None
    return checked("best", 1, [best]), among


def others_best(among: Check) -> EngineRun:
    """The fastest that was tried beside the plan."""
    return max(among.runs[2:], key=lambda run: run.speedup.value)


def target_words(shape: str, weights: str) -> str:
    """The size, and the weights where they are not of 32 bits."""
    return shape if weights == "float32" else f"{shape}, {weights}"


def row_of(profile: Profile, found: Check, among: Check, shape: str, weights: str) -> EngineRow:
    """The row of a plan that was checked beside the best of a grid, and before among all of it."""
    run, promise, best = found.planned, found.plan.predicted, others_best(found)
    sampling = found.plan.sampling
    assert promise is not None
    known = run.cpu_ms_per_token and found.plain.cpu_ms_per_token
    return EngineRow(
        engine=found.engine.name,
        version=found.engine.version,
        shape=shape,
        temperature=sampling.temperature,
        setting=run.setting,
        predicted_tokens=_three(promise.tokens_per_step),
        measured_tokens=_three(run.tokens_per_step),
        predicted_speedup=_three(promise.speedup),
        measured_speedup=_three(run.speedup),
        cpu_speedup=found.plain.cpu_ms_per_token / run.cpu_ms_per_token if known else None,
        num_prompts=found.num_prompts,
        num_same=run.num_same or 0,
        num_greedy=found.num_greedy,
        num_tried=len(among.runs) - 2,
        num_tried_prompts=among.num_prompts,
        best_setting=best.setting,
        best_speedup=best.speedup.value,
        weights=weights,
        num_tokens=found.num_tokens,
        plain_ms=[step_costs(profile, sampling=sampling).autoregressive_ms, found.plain.step_ms],
    )


def _three(estimate: Estimate) -> list[float]:
    return [estimate.value, estimate.low, estimate.high]


def table(rows: Sequence[EngineRow]) -> str:
    """A line for each plan."""
    head = [
        "engine", "target", "T", "the plan's setting", "tokens per step", "speedup",
        "speedup, processor time", "best of the grid", "prompts × tokens", "greedy texts as plain",
    ]  # fmt: skip
    lines = []
    for row in rows:
        tokens, speed = (
            f"{measured[0]:.2f} ({measured[0] / predicted[0] - 1:+.1%})"
            for measured, predicted in (
                (row.measured_tokens, row.predicted_tokens),
                (row.measured_speedup, row.predicted_speedup),
            )
        )
        cpu = "–" if row.cpu_speedup is None else f"{row.cpu_speedup:.2f}"
        ahead = row.best_speedup / row.measured_speedup[0] - 1
        tried = f"of {row.num_tried} on {row.num_tried_prompts}"
        best = f"{row.best_setting}: {row.best_speedup:.2f} ({ahead:+.1%}, {tried})"
        lines.append(
            [
                row.engine, row.target, f"{row.temperature:g}", row.setting, tokens, speed, cpu,
                best, f"{row.num_prompts} × {row.num_tokens}",
                f"{row.num_same} of {row.num_greedy}",
            ]
        )  # fmt: skip
    return markdown(head, lines)


def main() -> None:
    counts = {
        "num-profiled": (256, "profiling prompts that acceptance is measured on"),
        "num-prompts": (192, "evaluation prompts for the plan, the best of the grid, and neither"),
        "num-tried": (12, "so many of them, evenly spread, for the grid"),
        "num-tokens": (128, "tokens of every continuation"),
    }
    parser = parser_of(__doc__ or "", counts)
    parser.add_argument("--files", type=Path, required=True)
    parser.add_argument("--engine-path", help="folder of llama-server and llama-bench")
    parser.add_argument(
        "--engines", nargs="+", default=["llamacpp", "openvino"], choices=list(GRID)
    )
    parser.add_argument("--shapes", nargs="+", default=["25M", "100M"])
    parser.add_argument("--weights", choices=list(WORDS), default="float32")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with folder_beside(arguments.output) as folder:
        for shape, name in product(arguments.shapes, arguments.engines):
            engine = program(name, shape, arguments)
            place = folder / f"{name}-{stem_of(shape, arguments.weights)}.json"
            profile = profiled(engine, arguments, place)
            for sampling in dict.fromkeys(entry.sampling for entry in profile.acceptance):
                plan = solve(profile, temperature=sampling.temperature)
                stem = place.with_name(f"{place.stem}-{sampling.temperature:g}")
                checks = contest(engine, plan, GRID[name], stem, arguments)
                rows.append(row_of(profile, *checks, shape, arguments.weights))
                publish(rows, table(rows), "engines", arguments.output, arguments.page)
                print(table(rows[-1:]), flush=True)


if __name__ == "__main__":
    main()
