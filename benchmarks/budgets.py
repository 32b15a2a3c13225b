"""Large growing trees: tokens per step played and decoded, along the same texts.

    python -m benchmarks.budgets [-o FILE] [--page FILE] [--jobs N] [--pair NAME]

DySpec's greedy policy and `price`, each with budgets of several sizes, decode the evaluation
prompts of the embedded pairs as they are.  Trees of the usual size are then recorded at every
position of the very texts that were decoded, and the policy is played on them, as a plan's
prediction is.  Both have the luck of drafting and accepting in them, which temperature 0 does not
have.  Prints a Markdown table; `-o` writes JSON, `--page` puts the table between that file's
budgets marks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby, product
from pathlib import Path

import numpy as np
from tqdm import tqdm

from planner.documents.arrays import replay_arrays
from planner.documents.sampling import Sampling
from planner.plans.plan import Plan
from planner.policies import Drafting, GreedyDrafting, PriceDrafting
from planner.replay.chance_tables import KNOTS, ChanceTables, fitted_tables
from planner.replay.replays import Replays
from planner.verifiers import verifier_at
from profiler import Pair
from profiler.journal import Journal, Piece
from profiler.recording import Recording, Width, record_replays, replay_entry
from profiler.target_texts import sample_continuations
from runtime.embedded import PAIRS, load_prompts
from runtime.written import Written

from .contests import TEMPERATURES, draft_of, target_of
from .decoding import Ratio, counts, decoded, decoder_of, log_error
from .outputs import folder_beside, markdown, parser_of, processes, publish

BUDGETS = (32, 64, 256)
MAX_DEPTH = 24
MAX_CHILDREN = 8
WIDTH = Width()
FITTING_TEXTS = 16
"""Profiling prompts that the tables of `price` are fitted to."""
RECORDING_SEED, DECODING_SEED = 21, 301


@dataclass(frozen=True)
class BudgetCase:
    """One policy with one budget, for one pair at one temperature."""

    pair: str
    temperature: float
    policy: str
    budget: int


@dataclass(frozen=True)
class BudgetRow:
    """A case, played and decoded."""

    case: BudgetCase
    measured: float
    """Tokens of a step."""
    measured_nodes: float
    """Nodes that a step verified."""
    played: float
    played_nodes: float
    error: float
    """Standard error of ln(played / measured), over prompts: each text compared with itself."""
    met_end: float
    """Share of the rounds that drafted on beside the text where the recorded tree ends."""

    @property
    def difference(self) -> float:
        return self.played / self.measured - 1


def greedy(budget: int, tables: ChanceTables) -> Drafting:
    """The likeliest places, as many as the budget."""
    return GreedyDrafting(num_nodes=budget, max_depth=MAX_DEPTH, max_children=MAX_CHILDREN)


def price(budget: int, tables: ChanceTables) -> Drafting:
    """The price of time at times that are made up so that large trees pay: a target's pass takes 10
    ms whatever it verifies, a draft's .1 ms."""
    return PriceDrafting(
        num_nodes=budget,
        max_depth=MAX_DEPTH,
        max_children=MAX_CHILDREN,
        price_per_ms=0.25,
        node_price=1 / budget,
        lookahead=1.4,
        draft_root_ms=0.1,
        draft_ms=[0.1] * 32,
        verify_ms=[10.0] * budget,
        knots=list(KNOTS),
        before=tables.before.tolist(),
        after=tables.after.tolist(),
        ahead=tables.ahead.tolist(),
    )


POLICIES: dict[str, Callable[[int, ChanceTables], Drafting]] = {
    "dyspec, greedy": greedy,
    "price": price,
}


@dataclass(frozen=True)
class Recorder:
    """One pair at one temperature, and the trees that it would draft along given texts."""

    pair: str
    sampling: Sampling

    @property
    def models(self) -> Pair:
        return Pair(target_of(), draft_of(self.pair))

    @property
    def verifier(self) -> str:
        """The one that the trees are drawn for."""
        return verifier_at("rrsw", self.sampling).name

    def replays(self, texts: Sequence[Written]) -> Replays:
        recording = Recording(self.verifier, WIDTH, RECORDING_SEED)
        piece = record_replays(self.models, texts, self.sampling, recording)
        entry, arrays = replay_entry(piece, self.sampling, self.verifier, WIDTH)
        return Replays.of(entry, replay_arrays(arrays, entry.arrays, ""))

    def tables(self, num_tokens: int) -> ChanceTables:
        """Chances of acceptance along the target's own texts behind profiling prompts."""
        prompts = load_prompts("profile", FITTING_TEXTS)
        texts = sample_continuations(
            self.models.target, prompts, self.sampling, num_tokens, RECORDING_SEED
        )
        written = [Written(*each) for each in zip(prompts, texts, strict=True)]
        return fitted_tables(self.replays(written).recorded, MAX_CHILDREN)


@dataclass(frozen=True)
class DecodedTexts:
    """How many evaluation prompts are decoded, and how far."""

    num_prompts: int
    num_tokens: int


def rows_of(pair: str, temperature: float, texts: DecodedTexts, folder: Path) -> list[BudgetRow]:
    """All policies and budgets; what is decoded is kept in the folder."""
    recorder = Recorder(pair, Sampling(temperature=temperature))
    tables = recorder.tables(texts.num_tokens)
    seen: dict[str, Replays] = {}  # at temperature 0 all write the same

    def recorded(written: Sequence[Written]) -> Replays:
        key = str([each.text for each in written])
        if key not in seen:
            seen.clear()
            seen[key] = recorder.replays(written)
        return seen[key]

    rows = []
    for policy, budget in product(POLICIES, BUDGETS):
        case = BudgetCase(pair, temperature, policy, budget)
        journal = Journal(folder / "played", {"case": asdict(case), "texts": asdict(texts)})
        drafting = POLICIES[policy](budget, tables)
        measure = partial(decoded_and_played, recorder, drafting, texts, recorded, folder)
        name = f"{pair}-{temperature:g}-{policy}-{budget}"
        rows.append(row(case, journal.piece(name, measure)))
    return rows


def decoded_and_played(
    recorder: Recorder,
    drafting: Drafting,
    texts: DecodedTexts,
    recorded: Callable[[Sequence[Written]], Replays],
    folder: Path,
) -> Piece:
    """`counts` of the decoding, and of the rounds played "played", "rounds", "filled" (nodes) and
    "unknown", float64 [prompts] each."""
    plan = Plan(drafting=drafting, verifier=recorder.verifier, sampling=recorder.sampling)
    models, prompts = recorder.models, load_prompts("evaluation", texts.num_prompts)
    decoder = decoder_of(plan, models.target, models.draft, folder)
    run = decoded(decoder, prompts, texts.num_tokens, DECODING_SEED)
    written = [Written(prompt, each.tokens) for prompt, each in zip(prompts, run, strict=True)]
    tally = recorded(written).play(drafting)
    alone = tally.rounds - tally.sizes.sum(axis=1)
    return counts(run) | {
        "played": tally.tokens,
        "rounds": tally.rounds,
        "filled": tally.sizes @ np.arange(tally.sizes.shape[1]) + alone,
        "unknown": tally.unknown,
    }


def row(case: BudgetCase, piece: Piece) -> BudgetRow:
    measured, again = (
        Ratio(piece[tokens], piece[steps])
        for tokens, steps in (("tokens", "steps"), ("played", "rounds"))
    )
    return BudgetRow(
        case=case,
        measured=measured.value,
        measured_nodes=float(piece["nodes"].sum() / piece["steps"].sum()),
        played=again.value,
        played_nodes=float(piece["filled"].sum() / piece["rounds"].sum()),
        error=log_error(again.influence - measured.influence),
        met_end=float(piece["unknown"].sum() / piece["rounds"].sum()),
    )


def table(rows: Sequence[BudgetRow]) -> str:
    """One line per pair, temperature and policy, budgets side by side; then what it comes to."""
    sizes = ", ".join(map(str, BUDGETS))
    head = [
        "pair", "T", "policy", f"measured, budgets of {sizes}", "nodes of a step (played)",
        "predicted along the same texts", "rounds that met the end of their record",
    ]  # fmt: skip
    lines = []
    for case, group in groupby(rows, lambda each: replace(each.case, budget=0)):
        of_sizes = list(group)
        cells = (
            [f"{each.measured:.3f}" for each in of_sizes],
            [f"{each.measured_nodes:.0f} ({each.played_nodes:.0f})" for each in of_sizes],
            [f"{each.difference:+.1%} ± {each.error:.1%}" for each in of_sizes],
            [f"{each.met_end:.0%}" for each in of_sizes],
        )
        lines.append([case.pair, f"{case.temperature:g}", case.policy, *map(", ".join, cells)])
    return "\n".join([markdown(head, lines), "", *summary(rows)])


def summary(rows: Sequence[BudgetRow]) -> list[str]:
    """How many are how near, by budget."""
    lines = []
    for budget in BUDGETS:
        own = [each for each in rows if each.case.budget == budget]
        if not own:
            continue
        differences = [each.difference for each in own]
        ends = [each.met_end for each in own]
        near = sum(abs(difference) <= 0.03 for difference in differences)
        lines.append(
            f"- Budget of {budget}: {near} of {len(own)} within 3 %, worst "
            f"{max(differences, key=abs):+.1%}, mean {np.mean(differences):+.1%}; {min(ends):.0%} "
            f"to {max(ends):.0%} of the rounds met the end of their record."
        )
    return lines


def main() -> None:
    parser = parser_of(
        __doc__,
        {
            "num-prompts": (32, "evaluation prompts to decode"),
            "num-tokens": (128, "decoded a prompt"),
            "jobs": (2, "processes of one thread each"),
        },
    )
    parser.add_argument("--pair", choices=PAIRS, action="append", help="only this one; repeatable")
    arguments = parser.parse_args()
    texts = DecodedTexts(arguments.num_prompts, arguments.num_tokens)
    settings = list(product(arguments.pair or PAIRS, TEMPERATURES))
    with folder_beside(arguments.output) as folder, processes(arguments.jobs) as pool:
        running = [pool.submit(rows_of, *each, texts, folder) for each in settings]
        rows = [found for each in tqdm(running, desc="budgets") for found in each.result()]
        print(table(rows))
        publish(rows, table(rows), "budgets", arguments.output, arguments.page)


if __name__ == "__main__":
    main()
