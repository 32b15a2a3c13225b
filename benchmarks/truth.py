"""Does the plan tell the truth?  Predicted and measured tokens per step, every verifier.

    python -m benchmarks.truth [-o FILE] [--page FILE] [--jobs N] [--pair NAME] [--verifier NAME]

Two predictions are compared with what is then measured on the embedded pairs' evaluation prompts:
one from other prompts and other texts (the profiling set: what a plan promises about prompts nobody
has seen), and one along the very texts that were then decoded (the arithmetic alone: what is left
is the luck of drafting and of accepting, which temperature 0 does not have).  Prints a Markdown
table; `-o` writes JSON, `--page` puts the table between that file's truth marks.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import groupby, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from planner.documents.sampling import Sampling
from planner.documents.tree import Tree
from planner.estimates.evidence import Traces
from planner.plans.plan import Plan, TreeDrafting
from planner.trees.frontier import deep_search
from planner.verifiers import GREEDY_VERIFIER, VERIFIERS
from profiler import Pair, discard_pieces
from profiler.acceptance import Tracing, acceptance_entries, measure_acceptance, trace_texts
from profiler.journal import Journal, Piece
from runtime import HuggingFaceModel, decode_prompts
from runtime.embedded import PAIRS, load_pair, load_prompts
from runtime.written import Written

from .marks import add_outputs, publish

TEMPERATURES = (0.0, 0.6, 1.0)
SIZES = (4, 16, 64)
NUM_RANKS = 16
MAX_DEPTH = 16
REWEIGHTINGS = 3
PREDICTION_SEEDS, DECODING_SEED = (11, 12, 13, 14), 101


@dataclass(frozen=True)
class TruthCase:
    """One tree size under one verifier at one temperature for one pair."""

    pair: str
    temperature: float
    verifier: str
    num_nodes: int


@dataclass(frozen=True)
class TruthRow:
    """A case, predicted and measured, in tokens per step."""

    case: TruthCase
    depth: int
    measured: float
    measured_error: float
    """Standard error, over prompts."""
    unseen: float
    """Predicted from other prompts, with its 95 % interval."""
    unseen_low: float
    unseen_high: float
    same: float
    """Predicted along the texts that were decoded."""
    same_error: float
    """Standard error of ln(same / measured): each text compared with itself."""

    @property
    def unseen_difference(self) -> float:
        return self.unseen / self.measured - 1

    @property
    def same_difference(self) -> float:
        return self.same / self.measured - 1

    @property
    def inside(self) -> bool:
        """Does the interval promised cover what was measured, itself not exact?"""
        slack = 1.96 * self.measured_error
        return self.unseen_low - slack <= self.measured <= self.unseen_high + slack


@dataclass(frozen=True)
class Ratio:
    """Tokens per step as a ratio of sums over prompts."""

    tokens: np.ndarray
    """float64 [prompts]."""
    steps: np.ndarray
    """float64 [prompts]."""

    @property
    def value(self) -> float:
        return float(self.tokens.sum() / self.steps.sum())

    @property
    def influence(self) -> np.ndarray:
        """float64 [prompts]: by how much each prompt moves ln(value); they sum to 0."""
        return self.tokens / self.tokens.sum() - self.steps / self.steps.sum()


def log_error(influence: np.ndarray) -> float:
    """Standard error of the logarithm of a ratio, prompts being the samples."""
    return float(np.sqrt((influence**2).sum() * len(influence) / (len(influence) - 1)))


@cache
def models(pair: str) -> tuple[HuggingFaceModel, HuggingFaceModel]:
    torch.set_num_threads(1)
    target, draft = load_pair(pair)
    return HuggingFaceModel(target), HuggingFaceModel(draft)


def traces(
    pair: str, temperature: float, num_tokens: int, seeds: Sequence[int]
) -> dict[str, Traces]:
    """Traces by verifier, as profiles of the profiling prompts hold them: a text a seed, prompt."""
    sampling = Sampling(temperature=temperature)
    pieces = [
        measure_acceptance(
            Pair(*models(pair)), load_prompts("profile"), sampling, Tracing(NUM_RANKS, seed),
            num_tokens=num_tokens,
        )
        for seed in (seeds if temperature > 0 else seeds[:1])
    ]  # fmt: skip
    return joined(pieces, sampling)


def joined(pieces: Sequence[Piece], sampling: Sampling) -> dict[str, Traces]:
    """Traces by verifier: those of all pieces, one after the other."""
    by_piece = [acceptance_entries(piece, sampling) for piece in pieces]
    found = {}
    for index, entry in enumerate(by_piece[0][0]):
        entries = [(entries[index], arrays) for entries, arrays in by_piece]
        lengths = [prompt.num_positions for entry, _ in entries for prompt in entry.prompts]
        emitted, expected = (
            np.concatenate([arrays[getattr(each, field)] for each, arrays in entries], dtype=float)
            for field in ("emitted", "expected")
        )
        found[entry.verifier] = Traces(
            emitted, np.cumsum([0, *lengths]), expected, entry.by_rank_alone
        )
    return found


def fitting_tree(evidence: Traces, case: TruthCase) -> Tree:
    """The best tree of the case's size for the acceptance that holds inside it."""
    law = evidence.law
    for _ in range(REWEIGHTINGS):
        law = law.limited(VERIFIERS[case.verifier].max_children)
        tree = deep_search(law, case.num_nodes, MAX_DEPTH)
        assert tree is not None
        law = evidence.law_inside(tree)
    return tree


@dataclass(frozen=True)
class Decoded:
    """The evaluation prompts, decoded."""

    measured: Ratio
    again: Ratio
    """The same tokens over the rounds that were to be expected along them."""


@dataclass(frozen=True)
class Texts:
    """How many texts are decoded, of which length."""

    num_tokens: int
    num_repeats: int = 1
    """Texts per prompt at most."""
    precision: float = 0.0
    """Enough of them, once the comparison's standard error is below this (it alone is looked at,
    never the difference: stopping so favours no outcome)."""
    seed: int = DECODING_SEED
    retrace: bool = True
    """Is it also asked what was to be expected along the texts that came out?"""


def decoded(
    case: TruthCase, parents: list[int], texts: Texts, output: Path | None = None
) -> Decoded:
    """The evaluation prompts through the real loop.

    output  where the results will go: what is decoded is kept beside it until they are there
    """
    num_tokens, seed = texts.num_tokens, texts.seed
    target, draft = models(case.pair)
    sampling = Sampling(temperature=case.temperature)
    tree = Tree(parents)
    plan = Plan(drafting=TreeDrafting(parents=parents), verifier=case.verifier, sampling=sampling)
    prompts = load_prompts("evaluation")

    def one(repeat: int) -> Piece:
        run = decode_prompts(
            plan, target, draft, prompts, max_new_tokens=num_tokens, seed=seed + repeat
        ).continuations
        steps = np.array([len(each.tokens_by_step) for each in run], float)
        piece = {"tokens": np.array([len(each.tokens) for each in run], float), "steps": steps}
        if texts.retrace:
            written = [
                Written(prompt, each.tokens) for prompt, each in zip(prompts, run, strict=True)
            ]
            tracing = Tracing(NUM_RANKS, seed + repeat, (case.verifier,))
            traced = trace_texts(Pair(target, draft), written, sampling, tracing)
            _, piece["rounds"] = joined([traced], sampling)[case.verifier].rounds(tree)
        return piece

    fingerprints = [target.info.fingerprint, draft.info.fingerprint]
    what = [plan.to_json(), num_tokens, seed, texts.retrace, *fingerprints]
    name = sha256(json.dumps(what).encode()).hexdigest()[:16]
    journal = Journal(output, {"what": "decoded"})
    total: Piece = {}
    for repeat in range(texts.num_repeats if case.temperature > 0 else 1):
        piece = journal.piece(f"{name}-{repeat}", lambda: one(repeat))  # noqa: B023 - called here
        total = {part: total.get(part, 0.0) + values for part, values in piece.items()}
        measured = Ratio(total["tokens"], total["steps"])
        again = Ratio(total["tokens"], total.get("rounds", total["steps"]))
        error = log_error(again.influence - measured.influence)
        if texts.retrace and error <= texts.precision:
            break
    return Decoded(measured, again)


def compare(
    cases: Sequence[TruthCase], texts: Texts, *, num_jobs: int, output: Path | None
) -> list[TruthRow]:
    """Every case, in order; progress on stderr; interrupted, it continues for the same output."""
    settings = list(dict.fromkeys((case.pair, case.temperature) for case in cases))
    with ProcessPoolExecutor(num_jobs, mp_context=get_context("spawn")) as pool:
        running = {
            key: pool.submit(traces, *key, texts.num_tokens, PREDICTION_SEEDS) for key in settings
        }
        recorded = {
            key: each.result() for key, each in tqdm(running.items(), desc="traces", unit="set")
        }
        evidence = [recorded[case.pair, case.temperature][case.verifier] for case in cases]
        trees = [fitting_tree(each, case) for each, case in zip(evidence, cases, strict=True)]
        runs = [
            pool.submit(decoded, case, tree.parents.tolist(), texts, output)
            for case, tree in zip(cases, trees, strict=True)
        ]
        done = [run.result() for run in tqdm(runs, desc="decoding")]
    return [row(*each) for each in zip(cases, trees, done, evidence, strict=True)]


def row(case: TruthCase, tree: Tree, decoded: Decoded, unseen: Traces) -> TruthRow:
    promise = unseen.predict(tree).tokens_per_step
    measured, again = decoded.measured, decoded.again
    return TruthRow(
        case,
        tree.depth,
        measured.value,
        measured.value * log_error(measured.influence),
        promise.value,
        promise.low,
        promise.high,
        again.value,
        log_error(again.influence - measured.influence),
    )


def table(rows: Sequence[TruthRow]) -> str:
    """One line per pair, temperature and verifier, sizes side by side; then what it comes to."""
    head = ["pair", "T", "verifier"]
    head += [f"measured, n = {', '.join(map(str, SIZES))}"]
    head += ["predicted from unseen prompts", "predicted along the same texts"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]

    def key(each: TruthRow) -> tuple[str, float, str]:
        return each.case.pair, each.case.temperature, each.case.verifier

    for (pair, temperature, verifier), group in groupby(rows, key):
        of_sizes = list(group)
        measured = ", ".join(f"{each.measured:.3f}" for each in of_sizes)
        unseen = ", ".join(
            f"{each.unseen_difference:+.1%}{'' if each.inside else ' (!)'}" for each in of_sizes
        )
        same = ", ".join(
            f"{each.same_difference:+.1%} ± {each.same_error:.1%}" for each in of_sizes
        )
        name = verifier if temperature else "any"
        lines.append(f"| {pair} | {temperature:g} | {name} | {measured} | {unseen} | {same} |")
    return "\n".join([*lines, "", *summary(rows)])


def rows_of_json(content: list[dict[str, Any]]) -> list[TruthRow]:
    """The rows of a saved run."""
    return [TruthRow(**{**row, "case": TruthCase(**row["case"])}) for row in content]


def summary(rows: Sequence[TruthRow]) -> list[str]:
    """How many rows are how near, and lookahead against rrsw."""

    def near(differences: list[float]) -> str:
        worst = max(differences, key=abs)
        count = sum(abs(difference) <= 0.02 for difference in differences)
        return f"{count} of {len(differences)} within 2 %, worst {worst:+.1%}"

    sizes = [
        abs(np.log(row.same / row.measured)) / row.same_error for row in rows if row.same_error > 0
    ]
    farthest = f"; at most {max(sizes):.1f} standard errors off" if sizes else ""
    lines = [
        f"- Same texts: {near([row.same_difference for row in rows])}{farthest}.",
        f"- Unseen prompts: {near([row.unseen_difference for row in rows])}; the promised interval "
        f"covers the measurement in {sum(row.inside for row in rows)} of {len(rows)}.",
    ]
    by_case = {row.case: row for row in rows}
    for (pair, temperature), group in groupby(rows, lambda r: (r.case.pair, r.case.temperature)):
        gains = [
            gain(row, rival)
            for row in group
            if row.case.verifier == "lookahead"
            and (rival := by_case.get(replace(row.case, verifier="rrsw"))) is not None
        ]
        if gains:
            lines.append(
                f"- `lookahead` over `rrsw`, each with its own best tree, {pair}, T = "
                f"{temperature:g}, measured (predicted): {', '.join(gains)}."
            )
    return lines


def gain(row: TruthRow, rival: TruthRow) -> str:
    """How many more tokens per step, measured and (predicted)."""
    error = np.hypot(row.measured_error / row.measured, rival.measured_error / rival.measured)
    measured, predicted = row.measured / rival.measured - 1, row.unseen / rival.unseen - 1
    return f"{measured:+.1%} ± {error:.1%} ({predicted:+.1%})"


def all_cases(pairs: Sequence[str], verifiers: Sequence[str]) -> list[TruthCase]:
    """All cases but chains longer than `MAX_DEPTH`; at temperature 0 all verifiers are one."""
    cases = []
    for pair, temperature in product(pairs, TEMPERATURES):
        for verifier in verifiers if temperature else [GREEDY_VERIFIER]:
            longest = MAX_DEPTH + 1 if VERIFIERS[verifier].max_children == 1 else max(SIZES)
            cases += [TruthCase(pair, temperature, verifier, n) for n in SIZES if n <= longest]
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_outputs(parser)
    parser.add_argument("--pair", choices=PAIRS, action="append", help="only this one; repeatable")
    parser.add_argument("--verifier", choices=VERIFIERS, action="append", help="likewise")
    parser.add_argument("--num-tokens", type=int, default=128)
    parser.add_argument("--num-repeats", type=int, default=6, help="texts per prompt at most")
    parser.add_argument(
        "--precision", type=float, default=0.007,
        help="no more texts where the standard error is below this",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=2, help="processes of one thread each")
    arguments = parser.parse_args()
    rows = compare(
        all_cases(arguments.pair or list(PAIRS), arguments.verifier or list(VERIFIERS)),
        Texts(arguments.num_tokens, arguments.num_repeats, arguments.precision),
        num_jobs=arguments.jobs,
        output=arguments.output,
    )
    print(table(rows))
    publish(rows, table(rows), "truth", arguments.output, arguments.page)
    if arguments.output:
        discard_pieces(arguments.output)


if __name__ == "__main__":
    main()
