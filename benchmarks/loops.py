"""This project's own loop beside those of engines, in turns: without a draft, and at their best.

    python -m benchmarks.loops --files DIR [--engine-path DIR] [-o FILE] [--page FILE]

DIR is what `benchmarks.engine_files` makes.  Ours decodes with the plan that `solve` makes of a
profile with as many threads; an engine with the fastest of a grid of settings on a few evaluation
prompts.  All decode the others in turns, and each of them without a draft.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, product
from pathlib import Path

import torch

from engines.program import Answer, Program, Running
from engines.timing import Turns
from planner.documents.sampling import Sampling
from planner.optimizer import solve
from planner.policies import ConfidentDrafting, Drafting, TreeDrafting
from profiler import Pair, Settings
from runtime import Decoder
from runtime.embedded import load_prompts
from runtime.language_model import LanguageModel

from .contests import draft_of, profiled, samplings_at, target_of
from .engine_files import WORDS, folder_of, stem_of
from .engines import program, target_words
from .outputs import folder_beside, kept, kept_rows, markdown, parser_of, publish

OURS = "this project"
TEMPERATURES = (0.0, 0.6)
GRID = {
    "llamacpp": list(product((4, 6, 8, 12), (0.0, 0.3, 0.5))),
    "openvino": [(length, 0.0) for length in (2, 3, 4, 5, 6, 8)],
    "hf": list(product((2, 3, 5, 8), (0.0, 0.4))),
}
"""Lengths and confidences that are tried."""
NUM_TRIED = 12
"""Evaluation prompts, the first ones, that the grids are tried with."""


@dataclass(frozen=True)
class LoopRow:
    """One loop with one setting, or without a draft (`plain`)."""

    shape: str
    temperature: float
    threads: int
    loop: str
    setting: str
    plain: bool
    ms_per_token: float
    tokens_per_step: float
    num_prompts: int
    num_same: int | None
    """Texts that are those of our plain decoding, at temperature 0."""
    weights: str = "float32"
    """The type of the target's."""

    @property
    def contest(self) -> tuple[str, float, int]:
        return target_words(self.shape, self.weights), self.temperature, self.threads


@dataclass(frozen=True)
class OwnLoop:
    """A decoder, asked as an engine is."""

    decoder: Decoder

    def decode(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        requests: int = 1,
        *,
        num_tokens: int,
        seed: int,
    ) -> Answer:
        assert (sampling, requests) == (self.decoder.plan.sampling, 1)
        report = self.decoder.generate(
            prompt, max_new_tokens=num_tokens, seed=seed, stop_tokens=[]
        ).report
        made, measured = report.continuations[0], report.measured
        return Answer(
            tokens=made.tokens,
            num_timed=len(made.tokens),
            num_steps=measured.num_steps,
            num_drafted=measured.num_drafted,
            num_accepted=measured.num_accepted,
            ms=made.decode_ms,
        )


def own_loops(
    target: LanguageModel, sampling: Sampling, place: Path
) -> Iterator[tuple[str, OwnLoop]]:
    """Our loop without a draft, and with the plan, by their settings; the profile is at `place`."""
    draft = draft_of("distilled")
    profile = profiled(
        Pair(target, draft), place, load_prompts("profile"),
        Settings(samplings=samplings_at(TEMPERATURES)),
    )  # fmt: skip
    plan = solve(profile, temperature=sampling.temperature)
    none = {"drafting": TreeDrafting(parents=[-1]), "predicted": None}
    yield "no draft", OwnLoop(Decoder.from_plan(plan.model_copy(update=none), target))
    words = f"{plan.drafting.words()}, {plan.verifier}"
    yield words, OwnLoop(Decoder.from_plan(plan, target, draft))


def fastest(engine: Program, grid: Sequence[tuple[int, float]], turns: Turns) -> Drafting:
    """The setting of a grid that took the least time on these prompts, in turns."""
    tried = [ConfidentDrafting(max_depth=length, confidence=sure) for length, sure in grid]
    with ExitStack() as stack:
        running = {engine.words(each): stack.enter_context(engine.running(each)) for each in tried}
        turns.warm(running)
        decoded = turns.decoded(running)
    return min(tried, key=lambda each: ms_per_token(decoded[engine.words(each)]))


def ms_per_token(answers: Sequence[Answer]) -> float:
    return sum(each.ms for each in answers) / sum(each.num_timed for each in answers)


def measured(
    shape: str, temperature: float, threads: int, folder: Path, arguments: Namespace
) -> list[LoopRow]:
    """A row for each loop and setting."""
    torch.set_num_threads(threads)
    rounded = arguments.files / folder_of(shape, arguments.weights)
    target = target_of(
        shape, arguments.weights, rounded if arguments.weights == "bfloat16" else None
    )
    profile = folder / f"profile-{stem_of(shape, arguments.weights)}-{threads}.json"
    sampling = Sampling(temperature=temperature)
    prompts = load_prompts("evaluation", NUM_TRIED + arguments.num_prompts)
    few = Turns(prompts[:NUM_TRIED], sampling, arguments.num_tokens, seed=0)
    turns = replace(few, prompts=prompts[NUM_TRIED:])
    running: dict[tuple[str, str, bool], Running] = {}
    with ExitStack() as stack:
        for place, (setting, loop) in enumerate(own_loops(target, sampling, profile)):
            running[OURS, setting, place == 0] = loop
        for name in arguments.engines:
            engine = program(name, shape, arguments, threads=threads)
            if engine.facts.greedy_only and not sampling.is_greedy:
                continue
            best = fastest(engine, GRID[name], few)
            for drafting in (None, best):
                key = name, engine.words(drafting), drafting is None
                running[key] = stack.enter_context(engine.running(drafting))
        named = {" ".join(map(str, key)): each for key, each in running.items()}
        turns.warm(named)
        decoded = turns.decoded(named)
    texts = [[answer.tokens for answer in answers] for answers in decoded.values()]
    return [
        LoopRow(
            shape, temperature, threads, *key,
            ms_per_token=ms_per_token(answers),
            tokens_per_step=sum(each.num_timed for each in answers)
            / sum(each.num_steps for each in answers),
            num_prompts=len(answers),
            num_same=sum(map(list.__eq__, own, texts[0])) if sampling.is_greedy else None,
            weights=arguments.weights,
        )
        for key, answers, own in zip(running, decoded.values(), texts, strict=True)
    ]  # fmt: skip


def table(rows: Sequence[LoopRow]) -> str:
    """A line for each loop; ratios are its time over ours."""
    head = [
        "target", "T", "threads", "loop", "no draft, ms a token", "setting", "tokens per step",
        "ms a token", "times as fast as no draft", "texts as our plain ones",
    ]  # fmt: skip
    lines = []
    for (target, temperature, threads), group in groupby(rows, lambda row: row.contest):
        loops = [list(each) for _, each in groupby(group, lambda row: row.loop)]
        for plain, best in loops:
            alone, drafted = (
                f"{row.ms_per_token:.2f}" + (f" ({row.ms_per_token / ours.ms_per_token:.2f} ×)")
                for row, ours in zip((plain, best), loops[0], strict=True)
            )
            same = "–" if best.num_same is None else f"{best.num_same} of {best.num_prompts}"
            lines.append(
                [
                    target, f"{temperature:g}", f"{threads}", plain.loop, alone, best.setting,
                    f"{best.tokens_per_step:.2f}", drafted,
                    f"{plain.ms_per_token / best.ms_per_token:.2f}", same,
                ]
            )  # fmt: skip
    return markdown(head, lines)


def main() -> None:
    counts = {
        "num-prompts": (48, "evaluation prompts"),
        "num-tokens": (128, "tokens of every continuation"),
    }
    parser = parser_of(__doc__ or "", counts)
    parser.add_argument("--files", type=Path, required=True)
    parser.add_argument("--engine-path", help="folder of llama-server and llama-bench")
    parser.add_argument("--engines", nargs="+", default=list(GRID), choices=list(GRID))
    parser.add_argument("--shapes", nargs="+", default=["25M", "100M"])
    parser.add_argument("--weights", choices=list(WORDS), default="float32")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    arguments = parser.parse_args()
    with folder_beside(arguments.output, keep=True) as folder:
        for contest in product(arguments.shapes, TEMPERATURES, arguments.threads):
            words = map(str, (arguments.weights, *contest))
            place = folder / f"row-{'-'.join(words)}.json"
            kept(place, list[LoopRow], partial(measured, *contest, folder, arguments))
            rows = kept_rows(folder, list[LoopRow])
            publish(rows, table(rows), "loops", arguments.output, arguments.page)
            print(table(rows), flush=True)


if __name__ == "__main__":
    main()
