"""A draft model, the text's own n-grams, and both: plans with each, decoded in turns.

    python -m benchmarks.drafts [--pair distilled] [--shape 25M] [-o FILE] [--page FILE]

Each draft has a profile of its own, of the profiling prompts, and a plan from it for every
temperature.  The evaluation prompts behind the first 64 (look-up beside a model was made with the
first 24), and as many of prose, are decoded in turns by the plans and without a draft.  One thread.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch

from planner.optimizer import solve
from planner.policies import TreeDrafting
from profiler import Pair, Settings
from runtime import Decoder, LookupBeside, LookupModel
from runtime.embedded import load_prompts, pair_paths
from runtime.language_model import LanguageModel

from .contests import (
    TEMPERATURES,
    add_contests,
    contests_of,
    draft_of,
    profiled,
    samplings_at,
    target_of,
)
from .decoding import in_turns, log_error
from .moved import prose
from .outputs import ContestRow, contest_table, folder_beside, kept, kept_rows, parser_of, publish

DRAFTS = ("model", "model+lookup", "lookup")
TEXTS = ("code", "prose")
FIRST = 64
"""Evaluation prompts that are left out."""


@dataclass(frozen=True)
class DraftRow(ContestRow):
    """One draft's plan on one kind of text; of three numbers the last two are the 95 % interval."""

    text: str
    draft: str
    plan: str
    promised_tokens: float
    """Tokens of a step on texts like the profile's, which is code."""
    tokens: float
    """Tokens of a step."""
    promised_speedup: float
    speedup: list[float]

    @property
    def contest(self) -> tuple[str, str, str]:
        pair, shape, temperature = super().contest
        return pair, f"{shape}, {self.text}", temperature


def draft_named(name: str, pair: str, shape: str) -> LanguageModel:
    """One of `DRAFTS`."""
    if name == "lookup":
        return LookupModel(target_of(shape))
    model = draft_of(pair)
    return model if name == "model" else LookupBeside(model)


def prompts_of(text: str, count: int) -> list[list[int]]:
    """Prompts of one of `TEXTS`."""
    code = load_prompts("evaluation", FIRST + count)[FIRST:]
    if text == "code":
        return code
    return prose(pair_paths()[0] / "tokenizer.json", count, len(code[0]))


def measured(
    contest: tuple[str, str, float], text: str, folder: Path, arguments: Namespace
) -> list[DraftRow]:
    """A row for each draft."""
    pair, shape, temperature = contest
    target, stem = target_of(shape), f"profile-{pair}-{shape or 'as-it-is'}"
    plans, decoders = {}, {}
    for name in DRAFTS:
        draft = draft_named(name, pair, shape)
        profile = profiled(
            Pair(target, draft), folder / f"{stem}-{name}.json", load_prompts("profile"),
            Settings(samplings=samplings_at(TEMPERATURES)),
        )  # fmt: skip
        plans[name] = solve(profile, temperature=temperature)
        decoders[name] = Decoder.from_plan(plans[name], target, draft)
    none = {"drafting": TreeDrafting(parents=[-1]), "predicted": None}
    decoders["none"] = Decoder.from_plan(plans["model"].model_copy(update=none), target)
    prompts = prompts_of(text, arguments.num_prompts)
    found = in_turns(decoders, prompts, arguments.num_tokens)
    spent = {name: np.array([each.decode_ms for each in made]) for name, made in found.items()}
    plain, rows = spent["none"], []
    for name, plan in plans.items():
        assert plan.predicted is not None
        value = float(plain.sum() / spent[name].sum())
        off = log_error(plain / plain.sum() - spent[name] / spent[name].sum())
        factor = float(np.exp(1.96 * off))
        steps = sum(len(each.tokens_by_step) for each in found[name])
        rows.append(
            DraftRow(
                *contest,
                text=text,
                draft=name,
                plan=f"{plan.drafting.words()}, {plan.verifier}",
                promised_tokens=plan.predicted.tokens_per_step.value,
                tokens=arguments.num_tokens * len(prompts) / steps,
                promised_speedup=plan.predicted.speedup.value,
                speedup=[value, value / factor, value * factor],
            )
        )
    return rows


def table(rows: Sequence[DraftRow]) -> str:
    """Speedups, and tokens of a step, of all drafts side by side."""

    def cell(row: DraftRow, together: Sequence[DraftRow]) -> str:
        value, low, high = row.speedup
        return f"{value:.2f} [{low:.2f}, {high:.2f}], {row.tokens:.2f} tokens"

    return contest_table(rows, lambda row: row.draft, cell)


def main() -> None:
    counts = {
        "num-prompts": (48, "prompts of either text"),
        "num-tokens": (64, "tokens of every continuation"),
    }
    parser = parser_of(__doc__ or "", counts)
    add_contests(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    pairs, shapes = contests_of(arguments)
    with folder_beside(arguments.output, keep=True) as folder:
        for pair, shape, temperature, text in product(pairs, shapes, TEMPERATURES, TEXTS):
            place = folder / f"row-{pair}-{shape or 'as-it-is'}-{temperature:g}-{text}.json"
            measure = partial(measured, (pair, shape, temperature), text, folder, arguments)
            kept(place, list[DraftRow], measure)
            rows = kept_rows(folder, list[DraftRow])
            publish(rows, table(rows), "drafts", arguments.output, arguments.page)
            print(table(rows), flush=True)


if __name__ == "__main__":
    main()
