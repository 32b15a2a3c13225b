"""SpecHub (Sun et al., 2024): its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...export.tree_words import full
from . import spechub_printed as printed
from .ground import Ground, Missing, matched
from .row import PROFILE, Bars, Lines, PaperRow, RowNumber, RowResult, Spot
from .spechub_printed import METHODS, Printed
from .toy_pairs import METHODS as TOY_METHODS
from .toy_pairs import PRINTED, TOYS, Guarantee, over_rrs, over_transport, table_4, worked_example

PAPER = "SpecHub (Sun et al., 2024)"
_EXACT = 1e-9
_LEVELS = (1, 2, 3, 4)
"""Levels of the full binary trees, of 3, 7, 15 and 31 nodes below the root."""
_SIZES = (4, 8, 16, 32)
"""Nodes of the best binary trees."""


def _table_4(ground: Ground) -> RowResult:
    found = table_4(ground.num_pairs)
    numbers = [
        RowNumber(
            method, found.mean[row, place], PRINTED[row, place],
            f"T={temperature:g}, lambda={similarity:g}", shown=row == 0,
        )
        for row, (temperature, similarity) in enumerate(TOYS)
        for place, method in enumerate(TOY_METHODS)
    ]  # fmt: skip
    agree = f"{found.agrees.sum()} of {found.agrees.size} entries"
    note = f"{agree} within 3 standard errors of the mean over 10,000 other pairs"
    source = f"{ground.num_pairs:,} random pairs"
    return RowResult.of(source, numbers, bool(found.agrees.all()), note)


def _example(published: Mapping[str, float], shown: Sequence[str]) -> RowResult:
    rejected = {method: abs(value) for method, value in worked_example().items()}
    numbers = [
        RowNumber(
            f"{method} rejects both",
            value,
            published.get(method),
            shown=method in shown,
            spot=Spot(method) if method in ("RRSw", *shown) else None,
        )
        for method, value in rejected.items()
    ]
    off = max(abs(rejected[method] - value) for method, value in published.items())
    return RowResult.of("p = [.1, .6, .3], q = [.5, .3, .2]", numbers, off <= _EXACT)


def _guaranteed(found: Guarantee, other: str, num_pairs: int) -> RowResult:
    numbers = [
        RowNumber("share of pairs that meet the condition", found.share),
        RowNumber(f"acceptance beyond {other}'s on these, at least", found.least),
    ]
    source = f"{num_pairs:,} random pairs for each toy of Table 4"
    return RowResult.of(source, numbers, found.least >= -_EXACT)


def _second(table: Mapping[float, Sequence[float]], ground: Ground) -> RowResult:
    """Acceptance of the second of two children."""
    numbers, holds = [], True
    for sampling in ground.random_samplings:
        rates = [ground.acceptance(name, sampling)[1] for name in METHODS.values()]
        known = next((row for t, row in table.items() if matched(sampling, t)), (None,) * 3)
        cells = zip(METHODS, rates, known, strict=True)
        numbers += [RowNumber(*cell, str(sampling)) for cell in cells]
        holds &= rates[0] < rates[1] < rates[2]
    return RowResult.of(ground.source(), numbers, holds)


def _first(ground: Ground) -> RowResult:
    """Acceptance of the first child; printed are both drafts' tables."""
    most = max(
        rrsw - hub for table in (printed.FIRST, printed.FIRST_160M) for rrsw, hub in table.values()
    )
    numbers, holds = [], True
    for sampling in ground.random_samplings:
        rates = [ground.acceptance(name, sampling)[0] for name in ("rrsw", "spechub")]
        known = next((row for t, row in printed.FIRST.items() if matched(sampling, t)), (None,) * 2)
        cells = zip(("RRSw", "SpecHub"), rates, known, strict=True)
        numbers += [RowNumber(*cell, str(sampling)) for cell in cells]
        holds &= rates[1] >= rates[0] - most
    note = f"the largest loss that is printed is {most:.3f}"
    return RowResult.of(ground.source(), numbers, holds, note)


def _decay(ground: Ground) -> RowResult:
    """Acceptance by rank, up to the tenth child."""
    numbers, holds = [], True
    for sampling in ground.random_samplings:
        for method in ("RRS", "RRSw"):
            rates = ground.acceptance(METHODS[method], sampling)[:10]
            if len(rates) < 10:
                raise Missing("needs a profile of 10 ranks or more (--num-ranks)")
            numbers += [
                RowNumber(
                    f"{method}'s child {rank}",
                    rate,
                    None,
                    str(sampling),
                    rank in (1, 5),
                    spot=Spot(method, rank, str(sampling)),
                )
                for rank, rate in enumerate(rates, start=1)
            ]
            numbers.append(RowNumber(f"{method}'s 6 to 10", rates[5:].sum(), None, str(sampling)))
            holds &= rates[5:].sum() < rates[:5].sum() / 10
    return RowResult.of(ground.source(), numbers, holds, "negligible: less than a tenth of 1 to 5")


def _compared(
    ground: Ground,
    table: Printed,
    *,
    best: bool = False,
    at: Sequence[float] = (),
    by_temperature: bool = False,
) -> RowResult:
    """Tokens per step of binary trees under the three methods.

    table  printed, of which the mean over the datasets is shown
    best   the best trees of `_SIZES`, each method's own; else full ones
    at     temperatures to look at; none: all
    by_temperature  draw those of the largest tree over the temperature, not over the size
    """
    numbers, against = [], []
    samplings = ground.random_samplings
    chosen = [each for each in samplings if each.temperature in at]
    for sampling in chosen or samplings:
        known = next((t for at, t in table.items() if matched(sampling, at)), None)
        for place in range(len(_LEVELS)):
            row = []
            for column, (method, name) in enumerate(METHODS.items()):
                if best:
                    tree = ground.best(_SIZES[place], name, sampling, max_children=2)
                else:
                    tree = full(2, _LEVELS[place])
                row.append(ground.tokens(tree, name, sampling))
                where = f"{sampling}, {tree.num_nodes} nodes"
                beside = None if known is None else float(known[:, place, column].mean())
                last = place == len(_LEVELS) - 1
                spot: Spot | None = Spot(method, tree.num_nodes, str(sampling))
                if by_temperature:
                    spot = Spot(method, sampling.temperature, "31 nodes") if last else None
                numbers.append(RowNumber(method, row[-1], beside, where, last, spot=spot))
            if not row[0] < row[1] < row[2]:
                against.append(where)
    notes = [f"not at {', '.join(against)}"] if against else []
    notes += [f"the profile has no T={at[0]:g}"] if at and not chosen else []
    return RowResult.of(ground.source(), numbers, not against, "; ".join(notes))


def _table_6(ground: Ground) -> RowResult:
    """Binary trees with full ternary ones beside: 31 nodes of two children, 40 of three."""
    binary = _compared(ground, printed.JF160M)
    numbers, holds = list(binary.numbers), bool(binary.holds)
    for sampling in ground.random_samplings:
        known = next((t for at, t in printed.TERNARY.items() if matched(sampling, at)), None)
        wide = ground.tokens(full(3, 3), "rrsw", sampling)
        beside = None if known is None else float(np.mean(known))
        numbers.append(RowNumber("RRSw", wide, beside, f"{sampling}, 3 children, 40 nodes"))
        holds &= ground.tokens(full(2, 4), "spechub", sampling) > wide
    return RowResult.of(binary.source, numbers, holds)


def _table_5(ground: Ground) -> RowResult:
    """Full trees, and the best."""
    one, two = _compared(ground, printed.JF68M), _compared(ground, printed.JF68M_BEST, best=True)
    printed_too = "as printed, RRSw is ahead once, too (best tree of 16 nodes, T=0.6, OpenWebText)"
    note = "; ".join(note for note in (one.note, two.note, printed_too) if note)
    return RowResult.of(one.source, one.numbers + two.numbers, one.holds and two.holds, note)


DRAWING = "a drawing, without numbers"
_MORE = "SpecHub emits more tokens than RRSw, and RRSw more than RRS"
_BY_SIZE = Lines("nodes", "tokens per step", "log")

ROWS = (
    PaperRow(
        PAPER, "Figure 1", f"{_MORE}, on binary trees of any size at T=1", PROFILE,
        lambda ground: _compared(ground, printed.JF68M, at=(1.0,)), picture=_BY_SIZE,
    ),
    PaperRow(PAPER, "Figure 2", "what a tree of tokens is", DRAWING),
    PaperRow(PAPER, "Figure 3", "what rejection sampling is", DRAWING),
    PaperRow(PAPER, "Figure 4", "what SpecHub leaves out of optimal transport", DRAWING),
    PaperRow(
        PAPER, "Figure 5", "of two drafts, RRSw rejects both with chance .06, the optimum never",
        compute=lambda _: _example({"RRSw": 0.06, "OTMw": 0.0}, ("RRSw", "OTMw")), exact=True,
        picture=Bars("both rejected"),
    ),
    PaperRow(
        PAPER, "Figure 6", "SpecHub never does, either", exact=True,
        compute=lambda _: _example({"SpecHub": 0.0}, ("SpecHub",)), picture=Bars("both rejected"),
    ),
    PaperRow(
        PAPER, "Figure 7", f"{_MORE}, on a binary tree of 31 nodes at every temperature", PROFILE,
        lambda ground: _compared(ground, printed.JF68M, by_temperature=True),
        picture=Lines("temperature", "tokens per step"),
    ),
    PaperRow(
        PAPER, "Figure 8", f"{_MORE}, for a target of 33 B parameters, too, at T=1", PROFILE,
        lambda ground: _compared(ground, printed.VICUNA_33B, at=(1.0,)), picture=_BY_SIZE,
    ),
    PaperRow(
        PAPER, "Figure 9", "acceptance falls fast: children behind the fifth are negligible",
        PROFILE, _decay, picture=Lines("child", "accepted", yscale="log"),
    ),
    PaperRow(
        PAPER, "Table 1", "second children are accepted more often by SpecHub than by RRSw, and by "
        "that than by RRS", PROFILE, lambda ground: _second(printed.SECOND_68M, ground),
    ),
    PaperRow(
        PAPER, "Table 2", "the same with a larger draft", PROFILE,
        lambda ground: _second(printed.SECOND_160M, ground),
    ),
    PaperRow(
        PAPER, "Table 3", "first children are accepted by SpecHub about as often as by RRSw",
        PROFILE, _first,
    ),
    PaperRow(
        PAPER, "Table 4", "acceptance of two drafts of random pairs, by method", compute=_table_4,
        exact=True,
    ),
    PaperRow(
        PAPER, "Table 5", f"{_MORE}, on full and on best binary trees", PROFILE, _table_5,
    ),
    PaperRow(
        PAPER, "Table 6", f"{_MORE}; RRSw on larger ternary trees less than SpecHub on binary ones",
        PROFILE, _table_6,
    ),
    PaperRow(
        PAPER, "Table 7", f"{_MORE}, drafting with EAGLE", PROFILE,
        lambda ground: _compared(ground, printed.EAGLE),
    ),
    PaperRow(
        PAPER, "Table 8", f"{_MORE}, for Llama2-13B", PROFILE,
        lambda ground: _compared(ground, printed.LLAMA_13B),
    ),
    PaperRow(
        PAPER, "Table 9", f"{_MORE}, for Vicuna-33B", PROFILE,
        lambda ground: _compared(ground, printed.VICUNA_33B),
    ),
    PaperRow(
        PAPER, "Theorem 3", "SpecHub accepts at least as much as RRS where q(a) / (1 - q(a)) > "
        "1 - sum min(p, q), a being the draft's favourite", exact=True,
        compute=lambda ground: _guaranteed(over_rrs(ground.num_pairs), "RRS", ground.num_pairs),
    ),
    PaperRow(
        PAPER, "Theorem 4", "it accepts at least as much as the optimum of independent drafts "
        "where q(a) > 1/2", exact=True,
        compute=lambda ground: _guaranteed(
            over_transport(ground.num_pairs), "the optimum", ground.num_pairs
        ),
    ),
)  # fmt: skip
