"""DySpec (Xiong et al., 2024): its rows.

The text that we have of it has lost the insides of Tables 1 to 5; what its prose repeats of them is
printed beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...documents.sampling import Sampling
from ...export.tree_words import chains
from ...policies import Drafting, GreedyDrafting, ThresholdDrafting, TreeDrafting
from ...replay.chance_tables import tried
from ...replay.replays import Played
from ...trees.frontier import best_tree
from .ground import Ground, Missing, matched
from .mask_blocks import best_first, heavy_path, num_blocks, random_tree
from .row import PROFILE, Bars, Lines, Masks, Orders, PaperRow, RowNumber, RowResult, Spot
from .sequoia_claims import DEMO_ACCEPTANCE
from .spechub_rows import DRAWING
from .toy_pairs import TOYS, toy_pairs

PAPER = "DySpec (Xiong et al., 2024)"
TREES = "a profile with recorded trees"
_EDGES = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
_DEPTH = 24
_SIZE = 64
"""Nodes of contests, as printed."""
GREEDY, THRESHOLD = "DySpec, greedy", "DySpec, threshold"
_OFFLOADED = 1 / 200
"""A draft pass of Llama2-7B over a token of Llama2-70B, offloaded: 25 ms and 5 s (section 5.3)."""


def _figure_2(ground: Ground) -> RowResult:
    """Correlation of a first child's draft probability with its acceptance, on random pairs and on
    recorded trees; of these also acceptance by that probability."""
    numbers: list[RowNumber] = []
    for row, (temperature, similarity) in enumerate(TOYS):
        p, q = toy_pairs(row, ground.num_pairs)
        drawn = q > 0
        found = _correlation(q[drawn], np.minimum(1, p[drawn] / q[drawn]), q[drawn])
        where = f"random pairs, T={temperature:g}, lambda={similarity:g}"
        numbers.append(RowNumber("correlation", found, None, where, row == 2))
        if row == 2:
            accepted = np.minimum(1, p[drawn] / q[drawn])
            numbers += _by_chance(q[drawn], accepted, q[drawn], where, Spot("random pairs"))
    source = f"{ground.num_pairs:,} random pairs for each toy of SpecHub's Table 4"
    if ground.facts is not None and ground.facts.replays:
        source += "; profile, recorded trees"
        for sampling in ground.random_samplings:
            trials = tried(ground.replays(sampling).recorded)
            first = trials.rank == 0
            drawn, accepted = trials.drawn[first], trials.accepted[first].astype(float)
            found = _correlation(drawn, accepted, np.ones(len(drawn)))
            where = f"{sampling}, by the draft's probability"
            numbers.append(RowNumber("correlation", found, None, where))
            spot = Spot(f"recorded, {sampling}")
            numbers += _by_chance(drawn, accepted, np.ones(len(drawn)), where, spot)
    least = min(each.computed for each in numbers if each.what == "correlation")
    return RowResult.of(source, numbers, least > 0)


def _by_chance(
    drawn: np.ndarray, accepted: np.ndarray, weights: np.ndarray, where: str, spot: Spot
) -> list[RowNumber]:
    """Acceptance by the draft's probability, in five parts of it; float64 [n] each.

    spot  on the line that they are on
    """
    places = np.clip(np.digitize(drawn, _EDGES) - 1, 0, 4)
    counts = np.bincount(places, weights, 5)
    rates = np.bincount(places, weights * accepted, 5) / np.where(counts > 0, counts, 1)
    shown = not spot.line.startswith("random")
    return [
        RowNumber(
            f"{100 * low:.0f} to {100 * high:.0f} %", rate, None, where, shown,
            spot=replace(spot, x=(low + high) / 2) if count > 0 else None,
        )
        for low, high, rate, count in zip(_EDGES, _EDGES[1:], rates, counts, strict=False)
    ]  # fmt: skip


def _correlation(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Pearson's, every pair of values weighing so much."""
    (xx, xy), (_, yy) = np.cov(x, y, aweights=weights)
    return float(xy / np.sqrt(xx * yy))


def _figure_4(ground: Ground) -> RowResult:
    """Shares of a step in which a policy decides on every node of a tree as large as was timed."""
    sampling = ground.samplings[0]
    fixed = ground.costs("rrsw", sampling)
    grown, size = fixed.growing(), fixed.max_nodes
    if grown is fixed:
        raise Missing("needs a profile with the times of growing trees")
    tree = ground.best(size, "rrsw", sampling)
    walk = fixed.overhead_ms(size)
    parts = {
        "deciding": grown.overhead_ms(size) - walk,
        "the draft": grown.draft_root.ms + sum(grown.draft_ms(int(w)) for w in tree.widths[1:]),
        "the target": grown.verify_ms(size),
        "the walk": walk,
    }
    whole = sum(parts.values())
    numbers = [
        RowNumber(
            name, 100 * ms / whole, 2.0 if name == "deciding" else None, unit="%", spot=Spot(name)
        )
        for name, ms in parts.items()
    ]
    source = f"profile, times of a tree of {size} nodes"
    return RowResult.of(source, numbers, parts["deciding"] < 0.02 * whole, "printed: less than")


def _contest(ground: Ground, sampling: Sampling) -> dict[str, Played]:
    """DySpec's policies beside fixed trees of as many nodes, on the same recorded trees."""
    replays, costs = ground.replays(sampling), ground.costs("rrsw", sampling)
    rivals = _rivals(ground, sampling)
    return {name: Played(replays.play(drafting), costs) for name, drafting in rivals.items()}


def _rivals(ground: Ground, sampling: Sampling) -> dict[str, Drafting]:
    """DySpec's two policies, Sequoia's tree, and SpecInfer's 5 chains."""
    children = ground.replays(sampling).num_children
    limits = {"num_nodes": _SIZE, "max_depth": _DEPTH, "max_children": children}
    best = ground.best(_SIZE, "rrsw", sampling, max_children=children)
    many = min(5, children)
    fixed = {"Sequoia": best, "SpecInfer": chains(many, (_SIZE - 1) // many)}
    return {
        GREEDY: GreedyDrafting.model_validate(limits),
        THRESHOLD: ThresholdDrafting.model_validate(limits | {"threshold": 1 / _SIZE}),
        **{name: TreeDrafting(parents=tree.parents.tolist()) for name, tree in fixed.items()},
    }


def _tokens(ground: Ground) -> RowResult:
    """Tokens per step."""
    numbers, holds = [], True
    for sampling in ground.samplings:
        contest = _contest(ground, sampling)
        where = f"{sampling}, {_SIZE} nodes"
        tokens = {name: each.tokens_per_step for name, each in contest.items()}
        numbers += [RowNumber(name, each, None, where) for name, each in tokens.items()]
        holds &= tokens[GREEDY] > max(tokens["Sequoia"], tokens["SpecInfer"])
    return RowResult.of("profile, recorded trees", numbers, holds)


def _table_3(ground: Ground) -> RowResult:
    """Speedups at the printed ratio of passes, where target passes take as long as one token's."""
    numbers, holds = [], True
    for sampling in ground.samplings:
        contest = _contest(ground, sampling)
        speed = {
            name: each.tokens_per_step / (1 + each.passes_per_step * _OFFLOADED)
            for name, each in contest.items()
        }
        own = max(GREEDY, THRESHOLD, key=speed.__getitem__)
        beside = 9.4 if matched(sampling, 0.0) else None
        numbers += [
            RowNumber(name, each, beside if name == own else None, f"{sampling}, {_SIZE} nodes")
            for name, each in speed.items()
        ]
        holds &= speed[own] > max(speed["Sequoia"], speed["SpecInfer"])
    source = "profile, recorded trees; a draft pass is 1/200 of the target's, as printed"
    return RowResult.of(source, numbers, holds, "speedups")


def _table_4(ground: Ground) -> RowResult:
    """The threshold's use of its budget, and what that loses to Sequoia's tree."""
    numbers, holds = [], True
    for sampling in ground.random_samplings:
        contest = _contest(ground, sampling)
        level, best = (contest[name].tokens_per_step for name in (THRESHOLD, "Sequoia"))
        sizes = contest[THRESHOLD].sizes
        used = float(sizes @ np.arange(len(sizes))) / _SIZE
        beside = 551.79 / 768 if matched(sampling, 0.6) else None
        where = f"{sampling}, {_SIZE} nodes"
        numbers += [
            RowNumber("share of the nodes used", used, beside, where),
            RowNumber(THRESHOLD, level, None, where),
            RowNumber("Sequoia", best, None, where),
        ]
        holds &= used < 1 and level < best
    note = "printed: of 768 nodes at a threshold of .001; here at 1/n"
    return RowResult.of("profile, recorded trees", numbers, holds, note)


def _figure_5(ground: Ground) -> RowResult:
    """Sizes of the threshold's trees, which follow what the draft is sure of."""
    numbers, holds = [], True
    for sampling in ground.samplings:
        contest = _contest(ground, sampling)
        own = contest[THRESHOLD].sizes
        numbers += [
            RowNumber(
                "share of the trees",
                share,
                None,
                f"{sampling}, {size} nodes",
                False,
                spot=Spot("by a threshold", size, str(sampling)),
            )
            for size, share in enumerate(own)
            if size > 0
        ]
        shares = np.cumsum(own)
        sizes = [int(np.argmax(shares >= share)) for share in (0.1, 0.5, 0.9)]
        names = ("a tenth of the trees have at most", "half", "nine tenths")
        numbers += [
            RowNumber(name, size, None, f"{sampling}, at most {_SIZE} nodes")
            for name, size in zip(names, sizes, strict=True)
        ]
        holds &= sizes[0] < sizes[-1]
    return RowResult.of("profile, recorded trees", numbers, holds)


def _figure_9(_: Ground) -> RowResult:
    """Blocks of 32 by 32 of the masks of best trees, behind a text of 128 tokens."""
    known = {768: (366.12, 218.31), 1024: (580.07, 295.59)}
    numbers, holds = [], True
    for size, beside in known.items():
        tree = best_tree(DEMO_ACCEPTANCE, size)
        parents = best_first(tree, DEMO_ACCEPTANCE)
        counts = [num_blocks(parents, order, prefix=128) for order in _orders(parents)]
        cells = zip(("as drafted", "depth first"), counts, beside, strict=True)
        numbers += [
            RowNumber(*cell, f"{size} nodes", spot=Spot(f"{cell[0]}, {size}")) for cell in cells
        ]
        holds &= counts[1] < counts[0]
    return RowResult.of("best trees of Sequoia's published vector", numbers, holds)


def _random_trees(_: Ground) -> RowResult:
    """The same of trees whose nodes choose their parents at random, without a text."""
    numbers, gains = [], []
    for size in (256, 512, 1024, 2048):
        parents = random_tree(size)
        before, behind = (num_blocks(parents, order) for order in _orders(parents))
        gains.append(before / behind)
        beside = 5.9 if size == 2048 else None
        spot = Spot("depth first", size)
        numbers.append(RowNumber("fewer blocks by", gains[-1], beside, f"{size} nodes", spot=spot))
    note = "printed: at most; how fast the kernel is needs a GPU (make gpu)"
    return RowResult.of("random trees", numbers, min(gains) > 1, note)


def _orders(parents: np.ndarray) -> Sequence[np.ndarray]:
    return np.arange(len(parents)), heavy_path(parents)


_BETTER = "DySpec emits more tokens than Sequoia and SpecInfer of as many nodes"

ROWS = (
    PaperRow(PAPER, "Figure 1", "chains, several chains, and a tree", DRAWING),
    PaperRow(
        PAPER, "Figure 2", "the likelier a token is under the draft, the more often it is accepted",
        compute=_figure_2, picture=Lines("probability under the draft", "accepted"),
    ),
    PaperRow(PAPER, "Figure 3", "how a tree is grown", DRAWING),
    PaperRow(
        PAPER, "Figure 4", "deciding on a tree takes less than 2 % of a step", PROFILE, _figure_4,
        picture=Bars("% of a step"),
    ),
    PaperRow(
        PAPER, "Figure 5", "trees by a threshold differ in size from step to step", TREES,
        _figure_5, picture=Lines("nodes", "share of the trees"),
    ),
    PaperRow(
        PAPER, "Figure 6", "two orders of a tree's nodes", "a drawing; Figure 9 has the numbers",
        picture=Orders(12),
    ),
    PaperRow(
        PAPER, "Figure 7", "the masks in these", "a drawing; Figure 9 has the numbers",
        picture=Masks(96),
    ),
    PaperRow(
        PAPER, "Figure 8",
        "depth first the masks of random trees have up to 5.9 times fewer blocks",
        compute=_random_trees, picture=Lines("nodes", "fewer blocks by", "log"),
    ),
    PaperRow(
        PAPER, "Figure 9", "depth first the masks of drafted trees have fewer blocks",
        compute=_figure_9, picture=Bars("blocks"),
    ),
    PaperRow(PAPER, "Table 1", f"{_BETTER}, for Llama2-7B", TREES, _tokens),
    PaperRow(PAPER, "Table 2", f"{_BETTER}, for Llama2-13B", TREES, _tokens),
    PaperRow(
        PAPER, "Table 3", "for Llama2-70B, offloaded, it is the fastest, by up to 9.4", TREES,
        _table_3,
    ),
    PaperRow(
        PAPER, "Table 4", "above T=0 a threshold loses to Sequoia's tree, as it leaves nodes "
        "unused", TREES, _table_4,
    ),
    PaperRow(
        PAPER, "Table 5", "the order makes attention up to 2.1 times as fast",
        "needs a GPU (make gpu); Figure 8 counts blocks",
    ),
)  # fmt: skip
