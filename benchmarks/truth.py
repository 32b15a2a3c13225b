"""Does the plan tell the truth?  Predicted and measured tokens per step on unseen prompts.

    python -m benchmarks.truth [-o FILE] [--pair NAME] [--verifier NAME] [--num-prompts N] ...

Acceptance is recorded on the embedded pairs' profiling prompts; trees of several sizes are then
decoded on the evaluation prompts.  Prints a Markdown table; `-o` also writes JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from planner.optimizer import best_tree
from planner.optimizer.acceptance import Traces
from planner.plan import GREEDY_RULE, VERIFIER_TRAITS, Plan, TreeDrafting
from planner.profile import Sampling
from planner.schema import write_atomically
from profiler.acceptance import acceptance_entries, measure_acceptance
from profiler.traces import TRACERS
from runtime import HuggingFaceModel, decode_prompts
from runtime.embedded import PAIRS, load_pair, load_prompts

TEMPERATURES = (0.0, 0.6, 1.0)
SIZES = (4, 16, 64)
NUM_RANKS = 16
MAX_DEPTH = 16
REWEIGHTINGS = 3


@dataclass(frozen=True)
class Row:
    """One tree under one verifier at one temperature for one pair."""

    pair: str
    temperature: float
    verifier: str
    num_nodes: int
    depth: int
    predicted: float
    low: float
    high: float
    measured: float
    measured_error: float
    """Standard error of `measured`, over prompts."""

    @property
    def difference(self) -> float:
        return self.predicted / self.measured - 1

    def markdown(self) -> str:
        inside = "yes" if self.low <= self.measured <= self.high else "no"
        return (
            f"| {self.pair} | {self.temperature:g} | {self.verifier} | {self.num_nodes} | "
            f"{self.predicted:.3f} [{self.low:.2f}, {self.high:.2f}] | "
            f"{self.measured:.3f} ± {self.measured_error:.3f} | {self.difference:+.1%} | {inside} |"
        )


HEADER = (
    "| pair | T | verifier | n | predicted [95 %] | measured ± s.e. | predicted/measured − 1 | "
    "inside |\n|---|---|---|---|---|---|---|---|"
)


def rows_of(
    pair: str, temperature: float, verifiers: list[str], num_prompts: int, num_tokens: int
) -> list[Row]:
    """Every verifier and size, for one pair at one temperature."""
    target, draft = map(HuggingFaceModel, load_pair(pair))
    sampling = Sampling(temperature=temperature)
    piece = measure_acceptance(
        target, draft, load_prompts("profile")[:num_prompts], sampling,
        num_tokens=num_tokens, num_ranks=NUM_RANKS, seed=0,
    )  # fmt: skip
    entries, arrays = acceptance_entries(piece, sampling)
    starts = np.concatenate(([0], np.cumsum(piece["num_positions"])))
    rows = []
    for entry in entries:
        if entry.verifier not in ([GREEDY_RULE] if temperature == 0 else verifiers):
            continue
        assert entry.emitted is not None
        traces = Traces(arrays[entry.emitted].astype(np.float64), starts)
        most = VERIFIER_TRAITS[entry.verifier].max_children
        for size in SIZES:
            if most == 1 and size > MAX_DEPTH + 1:
                continue  # a chain of that size would be deeper than is tried
            tree = fitting_tree(traces, size)
            predicted = traces.predict(tree).tokens_per_step
            plan = Plan(
                drafting=TreeDrafting(parents=tree.parents.tolist()),
                verifier=entry.verifier,
                sampling=sampling,
            )
            report = decode_prompts(
                plan, target, draft, load_prompts("evaluation")[:num_prompts],
                max_new_tokens=num_tokens, seed=1,
            )  # fmt: skip
            steps = [len(each.tokens_by_step) for each in report.continuations]
            tokens = [len(each.tokens) for each in report.continuations]
            rows.append(
                Row(
                    pair,
                    temperature,
                    entry.verifier,
                    size,
                    tree.depth,
                    predicted.value,
                    predicted.low,
                    predicted.high,
                    report.measured.tokens_per_step,
                    ratio_error(tokens, steps),
                )
            )
            print(rows[-1].markdown(), flush=True)
    return rows


def fitting_tree(traces: Traces, size: int):  # type: ignore[no-untyped-def]
    """The best tree of `size` nodes for the acceptance that holds inside it."""
    acceptance = traces.acceptance
    for _ in range(REWEIGHTINGS):
        tree = best_tree(acceptance, size, MAX_DEPTH)
        acceptance = traces.predict(tree).acceptance
    return tree


def ratio_error(numerators: list[int], denominators: list[int]) -> float:
    """Standard error of sum(numerators) / sum(denominators), prompts being the samples."""
    above, below = np.array(numerators, float), np.array(denominators, float)
    ratio = above.sum() / below.sum()
    spread = (above - ratio * below).std(ddof=1) / np.sqrt(len(above))
    return float(spread / below.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--pair", choices=PAIRS, action="append", help="only this one; repeatable")
    parser.add_argument("--verifier", choices=TRACERS, action="append", help="likewise")
    parser.add_argument("--num-prompts", type=int, default=64)
    parser.add_argument("--num-tokens", type=int, default=128)
    arguments = parser.parse_args()
    print(HEADER)
    rows = []
    for pair in arguments.pair or PAIRS:
        for temperature in TEMPERATURES:
            rows += rows_of(
                pair,
                temperature,
                arguments.verifier or list(TRACERS),
                arguments.num_prompts,
                arguments.num_tokens,
            )
    worst = max(rows, key=lambda row: abs(row.difference))
    inside = sum(row.low <= row.measured <= row.high for row in rows)
    print(
        f"\nworst difference {worst.difference:+.1%}; measured inside the predicted interval in "
        f"{inside} of {len(rows)} rows",
        file=sys.stderr,
    )
    if arguments.output:
        content = json.dumps([asdict(row) for row in rows], indent=1) + "\n"
        write_atomically(arguments.output, content)


if __name__ == "__main__":
    main()
