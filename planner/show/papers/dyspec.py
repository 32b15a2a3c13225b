"""DySpec (Xiong et al., 2024): its rows.

The text that we have of it has lost the insides of Tables 1 to 5; what its prose repeats of them is
printed beside.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...documents.sampling import Sampling
from ...export.tree_words import tree_of_words
from ...policies import Drafting, GreedyDrafting, ThresholdDrafting, TreeDrafting
from ...replay.chance_tables import tried
from ...replay.replays import Played
from ...trees.frontier import best_tree
from .ground import Ground, Missing, matched
from .mask_blocks import best_first, heavy_path, num_blocks, random_tree
from .row import PROFILE, Number, Result, Row
from .sequoia_claims import DEMO_ACCEPTANCE
from .spechub import DRAWING
from .toy_pairs import TOYS, toy_pairs

PAPER = "DySpec (Xiong et al., 2024)"
TREES = "a profile with recorded trees"
_EDGES = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
_DEPTH = 24
_OFFLOADED = 1 / 200
"""A draft pass of Llama2-7B over a token of Llama2-70B, offloaded: 25 ms and 5 s (section 5.3)."""


def _figure_2(ground: Ground) -> Result:
    """Acceptance of a first child by its draft probability: on random pairs, on recorded trees."""
    accepted, drawn = np.zeros(5), np.zeros(5)
    for row in range(len(TOYS)):
        p, q = toy_pairs(row, ground.num_pairs)
        places = np.clip(np.digitize(q, _EDGES) - 1, 0, 4).ravel()
        accepted += np.bincount(places, np.minimum(p, q).ravel(), 5)
        drawn += np.bincount(places, q.ravel(), 5)
    rates = accepted / drawn
    numbers, holds = _binned(rates, "random pairs"), bool((np.diff(rates) > 0).all())
    source = f"{ground.num_pairs:,} random pairs for each toy of SpecHub's Table 4"
    if ground.facts is None or not ground.facts.replays:
        return Result.of(source, numbers, holds)
    for sampling in ground.random_samplings:
        trials = tried(ground.replays(sampling).recorded)
        first = trials.rank == 0
        places = np.clip(np.digitize(trials.drawn[first], _EDGES) - 1, 0, 4)
        counts = np.bincount(places, minlength=5)
        rates = np.bincount(places, trials.accepted[first], 5) / np.maximum(counts, 1)
        numbers += _binned(rates, str(sampling))
        holds &= bool((np.diff(rates[counts > 0]) > 0).all())
    return Result.of(f"{source}; profile, recorded trees", numbers, holds)


def _binned(rates: np.ndarray, where: str) -> list[Number]:
    where = f"{where}, accepted where the draft's probability is"
    return [
        Number(f"{low:.1f} to {high:.1f}", rate, None, where)
        for low, high, rate in zip(_EDGES, _EDGES[1:], rates, strict=False)
    ]


def _figure_4(ground: Ground) -> Result:
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
        Number(f"{name}, %", 100 * ms / whole, 2.0 if name == "deciding" else None)
        for name, ms in parts.items()
    ]
    source = f"profile, times of a tree of {size} nodes"
    return Result.of(source, numbers, parts["deciding"] < 0.02 * whole, "printed: less than")


def _rivals(ground: Ground, sampling: Sampling, size: int) -> dict[str, Drafting]:
    """DySpec's two policies, Sequoia's tree, and SpecInfer's chains, of so many nodes."""
    children = ground.replays(sampling).num_children
    limits = {"num_nodes": size, "max_depth": _DEPTH, "max_children": children}
    best = ground.best(size, "rrsw", sampling, max_children=children)
    shapes = {"Sequoia": best} | {name: tree_of_words(name) for name in ("5x8", "8x8")}
    fixed = {name: TreeDrafting(parents=tree.parents.tolist()) for name, tree in shapes.items()}
    return {
        "DySpec, greedy": GreedyDrafting(**limits),
        "DySpec, threshold": ThresholdDrafting(threshold=1 / size, **limits),
        **fixed,
    }


def _played(ground: Ground, sampling: Sampling, size: int = 64) -> dict[str, Played]:
    """All rivals on the same recorded trees."""
    replays, costs = ground.replays(sampling), ground.costs("rrsw", sampling)
    return {
        name: Played(replays.play(drafting), costs.of(drafting))
        for name, drafting in _rivals(ground, sampling, size).items()
        if replays.hold(drafting)
    }


def _tokens(ground: Ground) -> Result:
    """Tokens per step of 64 nodes."""
    numbers, holds, cut = [], True, 0.0
    for sampling in ground.samplings:
        played = _played(ground, sampling)
        numbers += [
            Number(name, each.tokens_per_step, None, str(sampling)) for name, each in played.items()
        ]
        own = played["DySpec, greedy"]
        cut = max(cut, own.cut_short)
        holds &= all(own.tokens_per_step >= each.tokens_per_step for each in played.values())
    return Result.of("profile, recorded trees", numbers, holds, _where_they_end(cut))


def _where_they_end(share: float) -> str:
    """What recorded trees that are too small for greedy ones do to these."""
    return f"{100 * share:.0f} % of greedy rounds met the end of their recorded tree"


def _table_3(ground: Ground) -> Result:
    """The speed at the printed ratio of passes, and with target passes that take as long as one."""
    numbers, holds, cut = [], True, 0.0
    for sampling in ground.samplings:
        played = _played(ground, sampling)
        speed = {
            name: each.tokens_per_step / (1 + each.passes_per_step * _OFFLOADED)
            for name, each in played.items()
        }
        known = {0.0: 9.4, 0.6: 6.21}
        beside = next((row for t, row in known.items() if matched(sampling, t)), None)
        numbers += [
            Number(name, each, beside if name == "DySpec, threshold" else None, str(sampling))
            for name, each in speed.items()
        ]
        cut = max(cut, played["DySpec, greedy"].cut_short)
        others = [each for name, each in speed.items() if not name.startswith("DySpec")]
        holds &= max(speed["DySpec, greedy"], speed["DySpec, threshold"]) > max(others)
    source = "profile, recorded trees; a draft pass is 1/200 of the target's, as printed"
    return Result.of(source, numbers, holds, f"speedups; {_where_they_end(cut)}")


def _table_4(ground: Ground) -> Result:
    """The threshold's use of its budget, and what that loses to Sequoia's tree."""
    numbers, holds = [], True
    for sampling in ground.random_samplings:
        played = _played(ground, sampling)
        where, level = str(sampling), played["DySpec, threshold"]
        size = float(level.sizes @ np.arange(len(level.sizes)))
        beside = 551.79 / 768 if matched(sampling, 0.6) else None
        numbers += [
            Number("share of the nodes used", size / 64, beside, where),
            Number("DySpec, threshold", level.tokens_per_step, None, where),
            Number("Sequoia", played["Sequoia"].tokens_per_step, None, where),
        ]
        holds &= size < 64 and level.tokens_per_step < played["Sequoia"].tokens_per_step
    note = "printed: 551.79 of 768 nodes at a threshold of .001; here of 64 at 1/64"
    return Result.of("profile, recorded trees", numbers, holds, note)


def _figure_5(ground: Ground) -> Result:
    """Sizes of the threshold's trees, whose nodes follow what the draft is sure of."""
    numbers = []
    for sampling in ground.samplings:
        sizes = _played(ground, sampling)["DySpec, threshold"].sizes
        shares = np.cumsum(sizes)
        numbers += [
            Number(f"{100 * share:.0f} % of trees have at most", int(np.argmax(shares >= share)),
                   None, f"{sampling}, nodes")
            for share in (0.1, 0.5, 0.9)
        ]  # fmt: skip
        differ = numbers[-3].computed < numbers[-1].computed
    return Result.of("profile, recorded trees", numbers, differ)


def _figure_9(_: Ground) -> Result:
    """Blocks of 32 by 32 of the masks of best trees, behind a text of 128 tokens."""
    known = {768: (366.12, 218.31), 1024: (580.07, 295.59)}
    numbers, holds = [], True
    for size, beside in known.items():
        tree = best_tree(DEMO_ACCEPTANCE, size)
        parents = best_first(tree, DEMO_ACCEPTANCE)
        counts = [num_blocks(parents, order, prefix=128) for order in _orders(parents)]
        cells = zip(("as drafted", "depth first"), counts, beside, strict=True)
        numbers += [Number(*cell, f"{size} nodes") for cell in cells]
        holds &= counts[1] < counts[0]
    return Result.of("best trees of Sequoia's published vector", numbers, holds)


def _random_trees(_: Ground) -> Result:
    """The same of trees whose nodes choose their parents at random, without a text."""
    numbers, gains = [], []
    for size in (256, 512, 1024, 2048):
        parents = random_tree(size)
        before, behind = (num_blocks(parents, order) for order in _orders(parents))
        gains.append(before / behind)
        beside = 5.9 if size == 2048 else None
        numbers.append(Number("fewer blocks by", gains[-1], beside, f"{size} nodes"))
    note = "printed: at most; how fast the kernel is needs a GPU (make gpu)"
    return Result.of("random trees", numbers, min(gains) > 1, note)


def _orders(parents: np.ndarray) -> Sequence[np.ndarray]:
    return np.arange(len(parents)), heavy_path(parents)


_BETTER = "DySpec emits more tokens than Sequoia and SpecInfer with 64 nodes"

ROWS = (
    Row(PAPER, "Figure 1", "chains, several chains, and a tree", DRAWING),
    Row(
        PAPER, "Figure 2", "the likelier a token is under the draft, the more often it is accepted",
        compute=_figure_2,
    ),
    Row(PAPER, "Figure 3", "how a tree is grown", DRAWING),
    Row(
        PAPER, "Figure 4", "deciding on a tree takes less than 2 % of a step", PROFILE, _figure_4,
    ),
    Row(
        PAPER, "Figure 5", "trees by a threshold differ in size from step to step", TREES,
        _figure_5,
    ),
    Row(PAPER, "Figure 6", "two orders of a tree's nodes", "a drawing; Figure 9 has the numbers"),
    Row(PAPER, "Figure 7", "the masks in these", "a drawing; Figure 9 has the numbers"),
    Row(
        PAPER, "Figure 8", "on random trees, too", compute=_random_trees,
    ),
    Row(
        PAPER, "Figure 9", "depth first a tree's mask has fewer blocks", compute=_figure_9,
    ),
    Row(PAPER, "Table 1", f"{_BETTER}, for Llama2-7B", TREES, _tokens),
    Row(PAPER, "Table 2", f"{_BETTER}, for Llama2-13B", TREES, _tokens),
    Row(
        PAPER, "Table 3", "for Llama2-70B, offloaded, it is the fastest, by up to 9.4", TREES,
        _table_3,
    ),
    Row(
        PAPER, "Table 4", "above T=0 a threshold loses to Sequoia's tree, as it leaves nodes "
        "unused", TREES, _table_4,
    ),
    Row(
        PAPER, "Table 5", "the order makes attention up to 2.1 times as fast",
        "needs a GPU (make gpu); Figure 8 counts blocks",
    ),
)  # fmt: skip
