"""Trees that grow while decoding against fixed ones: predicted and measured side by side.

    python -m benchmarks.growing [-o FILE] [--page FILE] [--pair NAME] [--shape NAME] ...

For each embedded pair, each shape of its target and each temperature: train a head, profile, let
each solver propose, and measure every proposal, each number where it costs least noise: the time of
a step by decoding some prompts on the shape itself, on one core, a step of each way in turn, beside
autoregressive decoding; tokens per step by decoding the evaluation prompts with the pair as it is,
whose function the inflated shapes compute.  Rules that look at the text draft more on some texts
than on others: the time of a step is that of steps with as many draft passes and nodes as were
taken where the tokens were counted.  DySpec's threshold stands there twice: as the
planner sets it, and as somebody tunes it who decodes the profiling prompts with each of a grid.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from tqdm import tqdm

from planner.plans.plan import Plan
from planner.verifiers import GREEDY_VERIFIER
from profiler import discard_pieces
from profiler.journal import Journal, Piece
from runtime.decode import prompt_seed
from runtime.embedded import load_prompts

from .growing_table import HEADER, RIVALS, GrowingRow, details, table
from .growing_times import Effort, TimedEntrant, decoder_of, times_of
from .lead import MeasuredSpeed, lead
from .marks import add_outputs, folder_beside, publish, replace_marked
from .regret_times import OFTEN, TEMPERATURES, Profiling, add_contests, contests_of
from .truth import log_error, models

DECODING_SEED = 501
LEAST_PROMPTS = 4
"""Two halves of which each has an error."""
TUNING, COMPARING = "profile", "evaluation"
"""The prompts by which settings are tuned, and those by which everything is compared."""


@dataclass(frozen=True)
class EntrantTally:
    """Counts of what one entrant did, prompt by prompt: float64 [prompts] each."""

    tokens: np.ndarray
    steps: np.ndarray
    passes: np.ndarray
    """Draft passes."""
    nodes: np.ndarray
    """Verified, roots included."""

    @property
    def tokens_per_step(self) -> float:
        return float(self.tokens.sum() / self.steps.sum())

    @property
    def passes_per_step(self) -> float:
        return float(self.passes.sum() / self.steps.sum())

    @property
    def nodes_per_step(self) -> float:
        return float(self.nodes.sum() / self.steps.sum())


@dataclass(frozen=True)
class Counting:
    """Prompts to be decoded for their tokens per step, and where what belongs to that lies."""

    which: str
    """`TUNING` or `COMPARING`."""
    num_prompts: int
    num_tokens: int
    folder: Path
    """Heads lie there."""
    output: Path | None
    """The results will go there: what is decoded is kept beside it until they do."""


def counted(pair: str, plan: Plan, counting: Counting) -> EntrantTally:
    """Tokens, steps, passes and nodes of prompts through the real loop, the pair as it is."""
    target, draft = models(pair)
    plan = plan.model_copy(update={"predicted": None})
    prompts = load_prompts(counting.which)[: counting.num_prompts]

    def measured() -> Piece:
        decoder = decoder_of(plan, target, draft, counting.folder)
        reports = [
            decoder.generate(
                prompt, max_new_tokens=counting.num_tokens, seed=prompt_seed(DECODING_SEED, index)
            ).report.measured
            for index, prompt in enumerate(prompts)
        ]
        return {
            "tokens": np.array([float(each.num_tokens) for each in reports]),
            "steps": np.array([float(each.num_steps) for each in reports]),
            "passes": np.array([float(each.num_draft_passes) for each in reports]),
            "nodes": np.array([float(each.num_drafted + each.num_steps) for each in reports]),
        }

    what = [plan.to_json(), counting.which, counting.num_prompts, counting.num_tokens]
    what += [target.info.fingerprint, draft.info.fingerprint]
    name = sha256(json.dumps(what).encode()).hexdigest()[:16]
    journal = Journal(counting.output, {"what": "decoded trees and their nodes"})
    return EntrantTally(**journal.piece(name, measured))


@dataclass(frozen=True)
class Result:
    """One entrant's times, and what it did on the prompts by which all are compared."""

    timed: TimedEntrant
    tally: EntrantTally
    tuning: EntrantTally | None = None
    """On the prompts by which settings are tuned, where this one is tuned."""

    @property
    def entrant(self) -> str:
        return self.timed.entrant.name

    @property
    def step_ms(self) -> float:
        """Milliseconds of a step on the prompts by which all are compared."""
        return step_on(self.timed, self.tally)

    @property
    def speedup(self) -> float:
        return self.tally.tokens_per_step * self.timed.autoregressive_ms / self.step_ms

    @property
    def tuned_rate(self) -> float:
        """Tokens per millisecond on those by which settings are tuned."""
        assert self.tuning is not None
        return self.tuning.tokens_per_step / step_on(self.timed, self.tuning)

    @property
    def influence(self) -> np.ndarray:
        """float64 [prompts]: by how much each of those compared moves ln(speedup); they sum to 0.
        Where many nodes bring many tokens, the one makes up for the other."""
        tally, timed = self.tally, self.timed
        ms = timed.pass_ms * tally.passes + timed.node_ms * tally.nodes
        share = tally.steps / tally.steps.sum()
        tokens = tally.tokens / tally.tokens.sum() - share
        return tokens - (ms - share * ms.sum()) / (tally.steps.sum() * self.step_ms)

    @property
    def measured(self) -> MeasuredSpeed:
        return MeasuredSpeed(self.speedup, (self.influence, -np.array(self.timed.influence)))


def step_on(timed: TimedEntrant, tally: EntrantTally) -> float:
    """Milliseconds of a step on the texts of `tally`."""
    return timed.step_with(tally.passes_per_step, tally.nodes_per_step)


def row_of(pair: str, result: Result) -> GrowingRow:
    timed, tally = result.timed, result.tally
    entrant, predicted = timed.entrant, timed.entrant.plan.predicted
    return GrowingRow(
        pair, timed.shape, timed.temperature, entrant.name, entrant.plan.drafting.words(),
        GREEDY_VERIFIER if timed.temperature == 0 else entrant.plan.verifier,
        tally.tokens_per_step, None if predicted is None else predicted.tokens_per_step.value,
        tally.passes_per_step,
        result.step_ms, None if predicted is None else predicted.step_ms.value,
        result.speedup,
        result.speedup * float(np.hypot(log_error(result.influence), timed.error)),
        None if predicted is None else predicted.speedup.value,
    )  # fmt: skip


def shown(results: Sequence[Result]) -> list[Result]:
    """The results without those of a grid that suited the tuning prompts less than its best one.

    results  of one pair, shape and temperature
    """
    best: dict[str, Result] = {}
    for each in results:
        known = best.get(each.entrant)
        if known is None or each.tuned_rate > known.tuned_rate:
            best[each.entrant] = each
    return list(best.values())


def compared(pair: str, results: Sequence[Result]) -> list[GrowingRow]:
    """Their rows, those with rivals compared with the fastest of these (`lead`)."""
    rows = []
    for each in results:
        row, names = row_of(pair, each), RIVALS.get(each.entrant)
        rivals = [
            other
            for other in results
            if names is not None and other is not each and (not names or other.entrant in names)
        ]
        if rivals:
            found = lead(each.measured, [other.measured for other in rivals])
            picked = dict.fromkeys(rivals[place].entrant for place in found.rivals)
            row = replace(
                row, rival=" and ".join(picked), gain=found.gain, gain_error=found.error
            )  # fmt: skip
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_outputs(parser)
    add_contests(parser)
    parser.add_argument("--temperature", type=float, choices=TEMPERATURES, action="append")
    parser.add_argument("--repeats", type=int, default=12, help="rounds of profiled times")
    parser.add_argument("--num-prompts", type=int, default=64)
    parser.add_argument("--num-profiled", type=int, default=256, help="tokens a prompt")
    parser.add_argument("--num-tokens", type=int, default=64, help="decoded a prompt")
    parser.add_argument("--num-timed", type=int, default=8, help="prompts decoded on the shape")
    parser.add_argument("--num-rounds", type=int, default=1, help="how often each of these is")
    parser.add_argument("--num-timed-tokens", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=2, help="processes that decode")
    parser.add_argument(
        "--times-only", action="store_true",
        help="stop before tokens are counted; the same command without it goes on from there",
    )  # fmt: skip
    arguments = parser.parse_args()
    check_counts(parser, arguments)
    with folder_beside(arguments.output, keep=arguments.times_only) as folder:
        run(arguments, folder)
    if arguments.output and not arguments.times_only:
        discard_pieces(arguments.output)


def check_counts(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Are there so many prompts, and enough of them for an error?  Exits with one line if not."""
    shipped = len(load_prompts(COMPARING))
    limits = {"num_prompts": shipped, "num_timed": shipped // max(OFTEN.values())}
    for name, most in limits.items():
        got = getattr(arguments, name)
        if not LEAST_PROMPTS <= got <= most:
            option = "--" + name.replace("_", "-")
            parser.error(f"{option}: got {got}, expected {LEAST_PROMPTS} to {most}")


def run(arguments: argparse.Namespace, folder: Path) -> None:
    """Everything; times and heads are kept in `folder`."""
    pairs, shapes = contests_of(arguments)
    effort = Effort(
        profiling=Profiling(arguments.repeats, arguments.num_profiled),
        num_prompts=arguments.num_timed, num_tokens=arguments.num_timed_tokens,
        num_rounds=arguments.num_rounds, jobs=arguments.jobs,
    )  # fmt: skip
    temperatures = arguments.temperature or TEMPERATURES
    times = {pair: times_of(pair, shapes, temperatures, effort, folder) for pair in pairs}
    if arguments.times_only:
        return
    rows: list[GrowingRow] = []
    print(HEADER)
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        for pair in pairs:
            running = [
                [
                    pool.submit(
                        counted, pair, each.entrant.plan,
                        Counting(
                            which, arguments.num_prompts, arguments.num_tokens, folder,
                            arguments.output,
                        ),
                    )
                    for which in ((COMPARING, TUNING) if each.entrant.tuned else (COMPARING,))
                ]
                for each in times[pair]
            ]  # fmt: skip
            tallies = [
                [each.result() for each in asked]
                for asked in tqdm(running, desc=f"decoding, {pair}")
            ]
            results = [
                Result(each, *tally) for each, tally in zip(times[pair], tallies, strict=True)
            ]
            for _, group in groupby(
                results, lambda each: (each.timed.shape, each.timed.temperature)
            ):
                for row in compared(pair, shown(list(group))):
                    print(row.markdown(), flush=True)
                    rows.append(row)
            publish(rows, table(rows), "growing", arguments.output, arguments.page)
            if arguments.page:
                beside = arguments.page.with_name("growing-details.md")
                replace_marked(beside, "growing-details", details(rows))


if __name__ == "__main__":
    main()
