"""Does the plan tell the truth?  Predicted and measured tokens per step, every verifier.

    python -m benchmarks.truth [-o FILE] [--page FILE] [--jobs N] [--pair NAME] [--verifier NAME]

Two predictions are compared with what is then measured on the embedded pairs' evaluation prompts:
one from other prompts and other texts (the profiling set: what a plan promises about prompts nobody
has seen), and one along the very texts that were then decoded (the arithmetic alone: what is left
is the luck of drafting and of accepting, which temperature 0 does not have).  Prints a Markdown
table; `-o` writes JSON, `--page` puts the table between that file's truth marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby, product
from pathlib import Path

import numpy as np
from tqdm import tqdm

from planner.documents.sampling import Sampling
from planner.documents.tree import Tree
from planner.estimates.evidence import Traces
from planner.plans.plan import Plan, TreeDrafting
from planner.trees.frontier import deep_search
from planner.verifiers import GREEDY_VERIFIER, VERIFIERS
from profiler import Pair
from profiler.acceptance import Tracing, acceptance_entries, measure_acceptance, trace_texts
from profiler.journal import Journal, Piece
from runtime.embedded import PAIRS, load_prompts
from runtime.written import Written

from .contests import TEMPERATURES, draft_of, target_of
from .decoding import Ratio, counts, decoded, decoder_of, log_error
from .outputs import folder_beside, markdown, parser_of, processes, publish

SIZES = (4, 16, 64)
NUM_RANKS = 16
MAX_DEPTH = 16
REWEIGHTINGS = 3
PREDICTION_SEED, DECODING_SEED = 11, 101
PREDICTION_TEXTS = 4
"""Texts behind every prompt, where the target samples."""


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


def traces(pair: str, temperature: float, num_tokens: int) -> dict[str, Traces]:
    """Traces by verifier, as profiles hold them: of several texts behind every profiling prompt."""
    sampling = Sampling(temperature=temperature)
    prompts = load_prompts("profile") * (PREDICTION_TEXTS if temperature > 0 else 1)
    tracing = Tracing(NUM_RANKS, PREDICTION_SEED)
    models = Pair(target_of(), draft_of(pair))
    piece = measure_acceptance(models, prompts, sampling, tracing, num_tokens=num_tokens)
    return by_verifier(piece, sampling)


def by_verifier(piece: Piece, sampling: Sampling) -> dict[str, Traces]:
    entries, arrays = acceptance_entries(piece, sampling)
    found = {}
    for entry in entries:
        found[entry.verifier] = Traces.of(
            entry, (arrays[entry.expected], arrays[entry.emitted]), arrays.get(entry.entering)
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
class Texts:
    """How many texts are decoded, of which length."""

    num_tokens: int
    num_repeats: int
    """Texts per prompt at most."""
    precision: float
    """Enough of them, once the comparison's standard error is below this (it alone is looked at,
    never the difference: stopping so favours no outcome)."""


def retraced(
    case: TruthCase, parents: list[int], texts: Texts, folder: Path
) -> tuple[Ratio, Ratio]:
    """The evaluation prompts decoded, and the same tokens over the rounds that were to be expected
    along them.

    folder  what is decoded is kept there
    """
    sampling, tree = Sampling(temperature=case.temperature), Tree(parents)
    plan = Plan(drafting=TreeDrafting(parents=parents), verifier=case.verifier, sampling=sampling)
    models = Pair(target_of(), draft_of(case.pair))
    prompts = load_prompts("evaluation")

    def one(seed: int) -> Piece:
        decoder = decoder_of(plan, models.target, models.draft, folder)
        run = decoded(decoder, prompts, texts.num_tokens, seed)
        written = [Written(prompt, each.tokens) for prompt, each in zip(prompts, run, strict=True)]
        traced = trace_texts(models, written, sampling, Tracing(NUM_RANKS, seed, (case.verifier,)))
        _, rounds = by_verifier(traced, sampling)[case.verifier].rounds(tree)
        return counts(run) | {"rounds": rounds}

    journal = Journal(folder / "decoded", {"case": asdict(case), "num_tokens": texts.num_tokens})
    pieces = []
    for repeat in range(texts.num_repeats if case.temperature else 1):
        seed = DECODING_SEED + repeat
        pieces.append(journal.piece(str(seed), partial(one, seed)))
        tokens, steps, rounds = (
            np.sum([piece[part] for piece in pieces], axis=0)
            for part in ("tokens", "steps", "rounds")
        )
        measured, again = Ratio(tokens, steps), Ratio(tokens, rounds)
        if log_error(again.influence - measured.influence) <= texts.precision:
            break
    return measured, again


def compare(
    cases: Sequence[TruthCase], texts: Texts, *, num_jobs: int, folder: Path
) -> list[TruthRow]:
    """Every case, in order; progress on stderr; interrupted, it continues in the same folder."""
    settings = list(dict.fromkeys((case.pair, case.temperature) for case in cases))
    with processes(num_jobs) as pool:
        running = {key: pool.submit(traces, *key, texts.num_tokens) for key in settings}
        recorded = {
            key: each.result() for key, each in tqdm(running.items(), desc="traces", unit="set")
        }
        evidence = [recorded[case.pair, case.temperature][case.verifier] for case in cases]
        trees = [fitting_tree(each, case) for each, case in zip(evidence, cases, strict=True)]
        runs = [
            pool.submit(retraced, case, tree.parents.tolist(), texts, folder)
            for case, tree in zip(cases, trees, strict=True)
        ]
        done = [run.result() for run in tqdm(runs, desc="decoding")]
    return [row(*each) for each in zip(cases, trees, done, evidence, strict=True)]


def row(case: TruthCase, tree: Tree, decoded: tuple[Ratio, Ratio], unseen: Traces) -> TruthRow:
    promise = unseen.predict(tree).tokens_per_step
    measured, again = decoded
    return TruthRow(
        case, tree.depth, measured.value, measured.value * log_error(measured.influence),
        promise.value, promise.low, promise.high, again.value,
        log_error(again.influence - measured.influence),
    )  # fmt: skip


def table(rows: Sequence[TruthRow]) -> str:
    """One line per pair, temperature and verifier, sizes side by side; then what it comes to."""
    head = [
        "pair", "T", "verifier", f"measured, n = {', '.join(map(str, SIZES))}",
        "predicted from unseen prompts", "predicted along the same texts",
    ]  # fmt: skip
    lines = []
    for case, group in groupby(rows, lambda row: replace(row.case, num_nodes=0)):
        of_sizes = list(group)
        measured = [f"{row.measured:.3f}" for row in of_sizes]
        unseen = [f"{row.unseen_difference:+.1%}{'' if row.inside else ' (!)'}" for row in of_sizes]
        same = [f"{row.same_difference:+.1%} ± {row.same_error:.1%}" for row in of_sizes]
        name = case.verifier if case.temperature else "any"
        cells = map(", ".join, (measured, unseen, same))
        lines.append([case.pair, f"{case.temperature:g}", name, *cells])
    return "\n".join([markdown(head, lines), "", *summary(rows)])


def summary(rows: Sequence[TruthRow]) -> list[str]:
    """How many rows are how near, and what later verifiers gain over rrsw."""

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
        alike = list(group)
        for verifier in ("lookahead", "traversal"):
            gains = [
                gain(row, rival)
                for row in alike
                if row.case.verifier == verifier
                and (rival := by_case.get(replace(row.case, verifier="rrsw"))) is not None
            ]
            if gains:
                lines.append(
                    f"- `{verifier}` over `rrsw`, each with its own best tree, {pair}, T = "
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
    parser = parser_of(
        __doc__,
        {
            "num-tokens": (128, "decoded a prompt"),
            "num-repeats": (6, "texts per prompt at most"),
            "jobs": (2, "processes of one thread each"),
        },
    )
    parser.add_argument("--pair", choices=PAIRS, action="append", help="only this one; repeatable")
    parser.add_argument("--verifier", choices=VERIFIERS, action="append", help="likewise")
    parser.add_argument(
        "--precision", type=float, default=0.007,
        help="no more texts where the standard error is below this",
    )  # fmt: skip
    arguments = parser.parse_args()
    cases = all_cases(arguments.pair or list(PAIRS), arguments.verifier or list(VERIFIERS))
    texts = Texts(arguments.num_tokens, arguments.num_repeats, arguments.precision)
    with folder_beside(arguments.output) as folder:
        rows = compare(cases, texts, num_jobs=arguments.jobs, folder=folder)
        print(table(rows))
        publish(rows, table(rows), "truth", arguments.output, arguments.page)


if __name__ == "__main__":
    main()
