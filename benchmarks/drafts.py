"""Which draft?  A model, the text's own n-grams, and both, each with its own plan, in turns.

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
from tqdm import tqdm

from planner import Profile
from planner.documents.sampling import Sampling
from planner.optimizer import solve
from profiler import Pair, Settings, measure_profile
from runtime import Decoder, LookupBeside, LookupModel
from runtime.decode import prompt_seed
from runtime.embedded import load_prompts, pair_paths
from runtime.language_model import LanguageModel

from .contests import TEMPERATURES, add_contests, contests_of, draft_of, target_of
from .decoding import log_error
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
    """On texts like the profile's, which is code."""
    tokens: float
    """Of a step."""
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


def profiled(pair: Pair, path: Path) -> Profile:
    """The profile at `path`, measured now if it is not there."""
    if not path.exists():
        settings = Settings(samplings=tuple(Sampling(temperature=each) for each in TEMPERATURES))
        measure_profile(pair, load_prompts("profile"), settings, output=path).save(path)
    return Profile.load(path)


def measured(
    contest: tuple[str, str, float], text: str, folder: Path, arguments: Namespace
) -> list[DraftRow]:
    """A row for each draft."""
    pair, shape, temperature = contest
    prompts = load_prompts("evaluation", FIRST + arguments.num_prompts)[FIRST:]
    if text == "prose":
        prompts = prose(pair_paths()[0] / "tokenizer.json", len(prompts), len(prompts[0]))
    plans, decoders = {}, {}
    for name in DRAFTS:
        models = Pair(target_of(shape), draft_named(name, pair, shape))
        profile = profiled(models, folder / f"profile-{pair}-{shape or 'as-it-is'}-{name}.json")
        plans[name] = solve(profile, temperature=temperature)
        decoders[name] = Decoder.from_plan(plans[name], models.target, models.draft)
    alone = plans["model"].model_copy(
        update={"drafting": {"kind": "tree", "parents": [-1]}, "predicted": None}
    )
    alone = type(alone).model_validate(alone.model_dump())
    decoders["none"] = Decoder.from_plan(alone, target_of(shape))
    spent: dict[str, list[float]] = {name: [] for name in decoders}
    steps = dict.fromkeys(decoders, 0)
    rng = np.random.default_rng(0)
    for each in decoders.values():
        each.generate(prompts[0], max_new_tokens=8)
    for number, prompt in enumerate(tqdm(prompts, leave=False)):
        for name in rng.permutation(list(decoders)):
            made = decoders[name].generate(
                prompt, max_new_tokens=arguments.num_tokens, seed=prompt_seed(0, number),
                stop_tokens=[],
            ).report.continuations[0]  # fmt: skip
            spent[name].append(made.decode_ms)
            steps[name] += len(made.tokens_by_step)
    plain, total = np.array(spent["none"]), arguments.num_tokens * len(prompts)
    rows = []
    for name in DRAFTS:
        own, promise = np.array(spent[name]), plans[name].predicted
        assert promise is not None
        value = float(plain.sum() / own.sum())
        factor = float(np.exp(1.96 * log_error(plain / plain.sum() - own / own.sum())))
        rows.append(
            DraftRow(
                *contest,
                text=text,
                draft=name,
                plan=f"{plans[name].drafting.words()}, {plans[name].verifier}",
                promised_tokens=promise.tokens_per_step.value,
                tokens=total / steps[name],
                promised_speedup=promise.speedup.value,
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
