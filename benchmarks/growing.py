"""Trees that grow while decoding against fixed ones: predicted and measured, in turns, in one run.

    python -m benchmarks.growing [-o FILE] [--readme FILE] [--pair NAME] [--shape NAME] ...

For each embedded pair, each shape of its target and each temperature: profile, let each solver
propose, and decode the evaluation prompts with every proposal, prompt by prompt in turns, beside
autoregressive decoding.  DySpec's threshold stands there twice: as the planner sets it, and as the
best of a grid of measured ones, which looks a little better than it is, being the best of several.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from planner.cli.models import EMBEDDED
from planner.display import drafting_words
from planner.drafting import Drafting, DynamicDrafting, ThresholdDrafting, TreeDrafting
from planner.optimizer import rank_candidates
from planner.optimizer.grading import Candidate
from planner.plan import GREEDY_RULE, Plan, Predicted
from planner.profile import Profile, Sampling
from planner.schema import write_atomically
from runtime import Decoder
from runtime.embedded import load_prompts
from runtime.models import LanguageModel

from .marks import replace_marked
from .regret import SHAPES, TEMPERATURES, at_shape, facts_of, named

THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.2)
THEIRS = DynamicDrafting(max_depth=20, num_tokens=20, schedule="constant", confidence=0.4)
"""Hugging Face's assisted generation as it comes."""


@dataclass(frozen=True)
class Entrant:
    """One way of drafting in the contest."""

    name: str
    plan: Plan
    tuned: bool = False
    """One of a grid, of which only the best measured one is shown?"""


@dataclass(frozen=True)
class Row:
    """What one entrant did."""

    pair: str
    shape: str
    temperature: float
    entrant: str
    drafting: str
    verifier: str
    tokens_per_step: float
    predicted_tokens: float | None
    passes_per_step: float
    """Draft passes."""
    speedup: float
    speedup_error: float
    """Standard error, over prompts."""
    predicted_speedup: float | None

    def markdown(self) -> str:
        def against(measured: str, predicted: float | None) -> str:
            return measured if predicted is None else f"{measured} ({predicted:.2f})"

        return (
            f"| {self.pair} | {self.shape or 'as it is'} | {self.temperature:g} | {self.entrant} | "
            f"{self.drafting}, {self.verifier} | "
            f"{against(f'{self.tokens_per_step:.2f}', self.predicted_tokens)} | "
            f"{self.passes_per_step:.2f} | "
            f"{against(f'{self.speedup:.2f} ± {self.speedup_error:.2f}', self.predicted_speedup)} |"
        )


HEADER = (
    "| pair | shape | T | solver | plan | tokens per target pass (predicted) | draft passes per "
    "target pass | speedup (predicted) |\n|---|---|---|---|---|---|---|---|"
)


def table(rows: Sequence[Row]) -> str:
    """All rows, in Markdown."""
    return "\n".join([HEADER, *(row.markdown() for row in rows)])


def rows_of_json(content: list[dict[str, Any]]) -> list[Row]:
    """The rows of a saved run."""
    return [Row(**row) for row in content]


def entrants(profile: Profile, temperature: float) -> list[Entrant]:
    """Everything that takes part at one temperature."""
    sampling = Sampling(temperature=temperature)

    def plan(verifier: str, drafting: Drafting, predicted: Predicted | None = None) -> Plan:
        return Plan(drafting=drafting, verifier=verifier, sampling=sampling, predicted=predicted)

    def best(solver: str, *kinds: str) -> Candidate | None:
        found = rank_candidates(profile, solver=solver, temperature=temperature)
        return next((c for c in found if c.speculates and c.drafting.kind in kinds), None)

    chosen = {
        "best fixed tree": best("fixed", "tree"),
        "best chain": best("chain", "tree"),
        "dyspec, greedy": best("dyspec", "dyspec-greedy"),
        "dyspec, threshold": best("dyspec", "dyspec-threshold"),
        "specdecpp": best("specdecpp", "stopping"),
        "assisted": best("assisted", "dynamic"),
        "price": best("price", "price"),
    }
    found = [
        Entrant(name, plan(candidate.verifier, candidate.drafting, candidate.predicted))
        for name, candidate in chosen.items()
        if candidate is not None
    ]
    rule = "rrsw" if temperature else GREEDY_RULE
    found += [
        Entrant(
            "dyspec, threshold, best of a grid",
            plan(
                rule,
                ThresholdDrafting(threshold=value, num_nodes=64, max_depth=20, max_children=8),
            ),
            tuned=True,
        )
        for value in THRESHOLDS
    ]
    found.append(Entrant("assisted, as it comes", plan("chain", THEIRS)))
    return found


@dataclass
class Tally:
    """What one entrant did, prompt by prompt."""

    tokens: list[float]
    ms: list[float]
    steps: int = 0
    passes: int = 0
    grow_ms: float = 0.0

    @property
    def ms_per_token(self) -> float:
        return sum(self.ms) / sum(self.tokens)


def contest(
    target: LanguageModel, draft: LanguageModel, plans: Sequence[Plan], prompts: int, length: int
) -> list[Tally]:
    """Decode every prompt with every plan, in an order of its own."""
    decoders = [Decoder.from_plan(plan, target, draft) for plan in plans]
    tallies = [Tally([], []) for _ in plans]
    order = np.random.default_rng(0)
    texts = load_prompts("evaluation")[:prompts]
    for index, prompt in enumerate(tqdm(texts, desc=f"decoding {target.info.name}")):
        for place in order.permutation(len(plans)):
            report = decoders[place].generate(prompt, max_new_tokens=length, seed=index).report
            tally, (text,) = tallies[place], report.continuations
            tally.tokens.append(len(text.tokens))
            tally.ms.append(text.decode_ms)
            tally.steps += report.measured.num_steps
            tally.passes += report.measured.num_draft_passes
    return tallies


def rows_of(
    pair: str, shape: str, temperature: float, found: Sequence[Entrant], done: Sequence[Tally]
) -> list[Row]:
    """One row an entrant, the last tally being autoregressive decoding."""
    *tallies, alone = done
    rows: dict[str, Row] = {}
    for entrant, tally in zip(found, tallies, strict=True):
        predicted = entrant.plan.predicted
        gain = alone.ms_per_token / tally.ms_per_token
        row = Row(
            pair, shape, temperature, entrant.name, drafting_words(entrant.plan.drafting),
            GREEDY_RULE if temperature == 0 else entrant.plan.verifier,
            sum(tally.tokens) / tally.steps,
            None if predicted is None else predicted.tokens_per_step.value,
            tally.passes / tally.steps, gain, gain * _log_error(alone, tally),
            None if predicted is None else predicted.speedup.value,
        )  # fmt: skip
        known = rows.get(entrant.name)
        if known is None or (entrant.tuned and row.speedup > known.speedup):
            rows[entrant.name] = row
    return list(rows.values())


def _log_error(one: Tally, other: Tally) -> float:
    """Standard error of the logarithm of the ratio of ms per token, prompts being the samples."""
    influence = np.zeros(len(one.ms))
    for tally, sign in ((one, 1), (other, -1)):
        ms, tokens = np.array(tally.ms), np.array(tally.tokens)
        influence += sign * (ms / ms.sum() - tokens / tokens.sum())
    return float(np.sqrt((influence**2).sum() * len(influence) / (len(influence) - 1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--readme", type=Path, help="put the table between this file's marks")
    parser.add_argument("--pair", choices=["distilled", "plain"], action="append")
    parser.add_argument("--shape", choices=SHAPES, action="append", help="'' is as it is")
    parser.add_argument("--temperature", type=float, choices=TEMPERATURES, action="append")
    parser.add_argument("--repeats", type=int, default=20, help="of every profiled time")
    parser.add_argument("--num-prompts", type=int, default=32)
    parser.add_argument("--num-tokens", type=int, default=128)
    arguments = parser.parse_args()
    rows: list[Row] = []
    print(HEADER)
    for pair in arguments.pair or ["distilled", "plain"]:
        draft = named(next(each for each, place in EMBEDDED.items() if place == (pair, 1)))
        facts = facts_of(named("embedded/target"), draft, arguments.repeats, arguments.num_tokens)
        for shape, temperature in product(
            arguments.shape or SHAPES, arguments.temperature or TEMPERATURES
        ):
            target = named(f"embedded/target@{shape}" if shape else "embedded/target")
            profile = at_shape(facts, target, draft, arguments.repeats) if shape else facts
            found = entrants(profile, temperature)
            alone = Plan(
                drafting=TreeDrafting(parents=[-1]), verifier=found[0].plan.verifier,
                sampling=Sampling(temperature=temperature),
            )  # fmt: skip
            plans = [*(entrant.plan for entrant in found), alone]
            done = contest(target, draft, plans, arguments.num_prompts, arguments.num_tokens)
            for row in rows_of(pair, shape, temperature, found, done):
                print(row.markdown(), flush=True)
                rows.append(row)
            save(rows, arguments.output, arguments.readme)


def save(rows: Sequence[Row], output: Path | None, readme: Path | None) -> None:
    """What was measured so far."""
    if output:
        write_atomically(output, json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if readme:
        replace_marked(readme, "growing", table(rows))


if __name__ == "__main__":
    main()
