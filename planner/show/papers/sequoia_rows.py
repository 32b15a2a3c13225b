"""Sequoia (Chen et al., 2024): its rows."""

from __future__ import annotations

import numpy as np

from ...estimates.evidence import expected_tokens
from ...export.tree_words import chains
from ...trees.frontier import best_tree
from . import sequoia_printed as printed
from .ground import Ground
from .row import PROFILE, Bars, Lines, PaperRow, RowNumber, RowResult
from .sequoia_claims import DEMO_ACCEPTANCE, SIZES, growth, power_law, properties
from .sequoia_hardware import aware_choice, contest, offloaded, pass_times, sizes_by_hardware
from .sequoia_shapes import best_over_chains, best_over_shapes, growth_by_size
from .sequoia_verifiers import cut_tails, one_tree, rejections
from .spechub_rows import DRAWING

PAPER = "Sequoia (Chen et al., 2024)"
_EXACT = 1e-9


def _table_1(_: Ground) -> RowResult:
    vectors = {"published vector": DEMO_ACCEPTANCE, "power law, b = 1": power_law()}
    numbers, holds = [], True
    for name, vector in vectors.items():
        for row in growth(vector):
            shown = vector is DEMO_ACCEPTANCE
            numbers += [
                RowNumber(
                    row.shape, tokens, None, f"{name}, {size} nodes", shown and size == SIZES[-1]
                )
                for size, tokens in zip(SIZES, row.tokens, strict=True)
            ]
            numbers.append(RowNumber(f"{row.shape}'s bound", row.bound, None, name, False))
            holds &= row.agrees
    return RowResult.of("the vector published with the code; a power law", numbers, holds)


def _table_2(_: Ground) -> RowResult:
    """The closed forms of chains against the sum over their nodes."""
    first, many = DEMO_ACCEPTANCE[0], DEMO_ACCEPTANCE[:16].sum()
    lengths = (1, 2, 4, 8, 16, 32)
    one = [expected_tokens(chains(1, n), DEMO_ACCEPTANCE) for n in lengths]
    forms = [(1 - first ** (n + 1)) / (1 - first) for n in lengths]
    off = float(np.abs(np.subtract(one, forms)).max())
    several = [chains(16, n) for n in lengths]
    most = max(expected_tokens(tree, DEMO_ACCEPTANCE) for tree in several)
    bound = 1 + 1 / (1 - many)
    numbers = [
        RowNumber("a chain is off its closed form by at most", off),
        RowNumber("16 chains reach", most),
        RowNumber("their printed bound", bound),
    ]
    deep = all(tree.depth == (tree.num_nodes - 1) // 16 for tree in several)
    return RowResult.of("the vector published with the code", numbers,
                     off <= _EXACT and most <= bound and deep)  # fmt: skip


def _theorem_3_6(_: Ground) -> RowResult:
    sizes = np.array([size for size in SIZES if size >= 16])
    numbers, least = [], np.inf
    for exponent in (0.5, 1.0, 2.0):
        vector = power_law(exponent)
        tokens = np.array([expected_tokens(best_tree(vector, n), vector) for n in sizes])
        bound = exponent * np.log(sizes) / (10 * np.log(np.log(sizes)))
        numbers.append(
            RowNumber(
                "tokens over the bound, at least", (tokens / bound).min(), None, f"b = {exponent:g}"
            )
        )
        least = min(least, (tokens / bound).min())
    return RowResult.of("power laws; 16 to 1024 nodes", numbers, least >= 1)


def _theorem_3_7(_: Ground) -> RowResult:
    found = properties()
    numbers = []
    for item in found:
        numbers += [
            RowNumber("cover", item.cover, None, item.verifier, item.published is not None),
            RowNumber(
                "transport off by",
                max(item.transport, 0.0),
                None,
                item.verifier,
                item.published is not None,
            ),
        ]
    known = [item for item in found if item.published is not None]
    note = f"{sum(item.agrees for item in known)} of {len(known)} as proven"
    return RowResult.of("100 random pairs", numbers, all(item.agrees for item in found), note)


ROWS = (
    PaperRow(
        PAPER, "Figure 1", "the best tree emits more than any other shape, at every size", PROFILE,
        best_over_shapes, picture=Bars("tokens per step"),
    ),
    PaperRow(
        PAPER, "Figure 2", "its tokens grow with log n, and on where those of other shapes stop",
        PROFILE,
        growth_by_size, picture=Lines("nodes", "tokens per step", "log"),
    ),
    PaperRow(
        PAPER, "Figure 3", "of verifiers, Sequoia's rejects least at any number of children, by a "
        "power law", PROFILE, rejections, picture=Lines("children", "all rejected", "log", "log"),
    ),
    PaperRow(
        PAPER, "Figure 4", "passes over many nodes take longer than over one: t(n) is no constant",
        PROFILE, pass_times, picture=Lines("nodes", "time over one token's", "log"),
    ),
    PaperRow(
        PAPER, "Figure 5a", "the best tree of 512 nodes emits up to 33 % more than 16 chains",
        PROFILE,
        best_over_chains, picture=Bars("more tokens than chains, %"),
    ),
    PaperRow(
        PAPER, "Figure 5b", "at every temperature Sequoia's verifier is at least as good as "
        "SpecInfer's and top-k", PROFILE, one_tree, picture=Lines("temperature", "tokens per step"),
    ),
    PaperRow(
        PAPER, "Figure 5c", "the tree chosen by its time is faster than those of most tokens at "
        "any size", PROFILE, aware_choice, picture=Lines("nodes", "speedup", "log"),
    ),
    PaperRow(PAPER, "Figure 6", "in which order the dynamic programme goes", DRAWING),
    PaperRow(
        PAPER, "Table 1", "all shapes but the best tree have a bound, and keep to it",
        compute=_table_1, exact=True,
    ),
    PaperRow(
        PAPER, "Table 2", "the tokens of one chain, of 16, and their depths in closed form",
        compute=_table_2, exact=True,
    ),
    PaperRow(
        PAPER, "Table 3", "the size chosen for the hardware is faster than 128 or 256 nodes",
        PROFILE, sizes_by_hardware,
    ),
    PaperRow(
        PAPER, "Table 4", "on an A100 Sequoia's tree emits more than SpecInfer's chains, and is "
        "faster", PROFILE, lambda ground: contest(printed.A100, ground),
    ),
    PaperRow(
        PAPER, "Table 5", "offloaded to an L40, too, with 768 nodes", PROFILE, offloaded,
    ),
    PaperRow(
        PAPER, "Table 6", "with top-p Sequoia's verifier is the best of three", compute=cut_tails,
    ),
    PaperRow(
        PAPER, "Table 7", "as Table 4, on an L40", PROFILE,
        lambda ground: contest(printed.L40, ground),
    ),
    PaperRow(
        PAPER, "Theorem 3.6", "where rejection is a power law, tokens grow with b log n / "
        "log log n",
        compute=_theorem_3_6, exact=True,
    ),
    PaperRow(
        PAPER, "Theorem 3.7", "Sequoia's verifier has the cover and the transport property, others "
        "only one", compute=_theorem_3_7, exact=True,
    ),
)  # fmt: skip
