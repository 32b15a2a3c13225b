"""Rounds of decoding, played on recorded trees: what a rule asks for is looked up, not drafted.

The rules are those of decoding (`planner.growth`).  Chains and whatever else is not compiled are
asked through their protocol; the kernels of trees are called directly, a text at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit

from ..drafting import GreedyDrafting, PriceDrafting, StoppingDrafting, ThresholdDrafting
from ..growth import Grower, greedy, price, threshold
from ..growth.base import COLLISION, ENTROPY, MAX_PROBABILITY, SCORE
from ..growth.slots import new_heap, new_nodes, new_requests
from ..growth.stopping import FACTORS
from ..tree import Tree


class Recorded(NamedTuple):
    """Trees, one per position: the arrays of `planner.profile.Replay`, ready for kernels."""

    starts: np.ndarray
    """int64 [texts + 1]: the trees of each text"""
    first: np.ndarray
    """int64 [trees + 1]: the rows of each tree"""
    drawn: np.ndarray
    """float64 [rows, K]"""
    child: np.ndarray
    """int8 [rows, K]"""
    taken: np.ndarray
    """int8 [rows]"""
    features: np.ndarray
    """float64 [rows, F]"""
    path: np.ndarray
    """int8 [trees, levels]"""


class Tally(NamedTuple):
    """What happened, by text: float64 [texts] or [texts, counts]."""

    tokens: np.ndarray
    """Emitted."""
    rounds: np.ndarray
    root_passes: np.ndarray
    """First draft passes, one for each round that drafted at all."""
    widths: np.ndarray
    """Later draft passes by the number of nodes expanded."""
    sizes: np.ndarray
    """Rounds that drafted, by nodes verified, root included."""
    depths: np.ndarray
    """Rounds by levels below the root."""
    accepted: np.ndarray
    """Draft tokens."""
    unknown: np.ndarray
    """Rounds in which the rule wanted to draft below a node that was not recorded; as if nothing
    more had been worth revealing there."""


class Walk(NamedTuple):
    """One round's tree, as it lies in the record."""

    num_nodes: np.ndarray
    """int64 [1]"""
    rows: np.ndarray
    """int64 [num_nodes]: -1 where the node was not expanded in the record"""
    on_text: np.ndarray
    """bool [num_nodes]: is the node accepted?"""
    depths: np.ndarray
    """int64 [num_nodes]"""
    revealed: np.ndarray
    """int64 [num_nodes]"""
    expanded: np.ndarray
    """bool [num_nodes]"""
    new: np.ndarray
    """int64 [num_nodes]: the nodes of the next draft pass"""


def new_tally(num_texts: int, num_nodes: int) -> Tally:
    """Nothing yet, for trees of up to `num_nodes` nodes."""
    counts = np.zeros((num_texts, num_nodes + 1))
    alone = np.zeros(num_texts)
    return Tally(
        tokens=alone.copy(),
        rounds=alone.copy(),
        root_passes=alone.copy(),
        widths=counts.copy(),
        sizes=counts.copy(),
        depths=counts.copy(),
        accepted=alone.copy(),
        unknown=alone.copy(),
    )


def play_greedy(recorded: Recorded, drafting: GreedyDrafting, deterministic: bool) -> Tally:
    """DySpec, Algorithm 1."""
    tally = new_tally(len(recorded.starts) - 1, drafting.num_nodes)
    _play_greedy(
        recorded,
        new_walk(drafting.num_nodes),
        tally,
        new_nodes(drafting.num_nodes, drafting.max_children),
        new_heap(drafting.num_nodes + 1),
        (np.array([greedy.NO_NODE]), np.zeros(1)),
        new_requests(drafting.num_nodes),
        drafting.max_depth,
    )
    return tally


def play_threshold(recorded: Recorded, drafting: ThresholdDrafting, deterministic: bool) -> Tally:
    """DySpec, Algorithm 2."""
    tally = new_tally(len(recorded.starts) - 1, drafting.num_nodes)
    _play_threshold(
        recorded,
        new_walk(drafting.num_nodes),
        tally,
        new_nodes(drafting.num_nodes, drafting.max_children),
        new_heap(drafting.num_nodes + 1),
        new_heap(drafting.num_nodes + 1),
        new_requests(drafting.num_nodes),
        drafting.threshold,
        drafting.max_depth,
    )
    return tally


def play_price(recorded: Recorded, drafting: PriceDrafting, deterministic: bool) -> Tally:
    """One price of time, the planned one throughout."""
    tally = new_tally(len(recorded.starts) - 1, drafting.num_nodes)
    _play_price(
        recorded,
        new_walk(drafting.num_nodes),
        tally,
        price.new_growth(drafting.num_nodes, drafting.max_children),
        price.tables_of(drafting, deterministic=deterministic),
        new_requests(drafting.num_nodes),
        drafting.price_per_ms,
        drafting.max_depth,
    )
    return tally


def play_stopping(recorded: Recorded, drafting: StoppingDrafting, deterministic: bool) -> Tally:
    """A chain, as long as P(all accepted) is high enough (SpecDec++)."""
    tally = new_tally(len(recorded.starts) - 1, drafting.most_nodes)
    factor = list(FACTORS).index(drafting.score)
    _play_stopping(recorded, tally, factor, 1 - drafting.threshold, drafting.max_depth)
    return tally


PLAYED: dict[str, Callable[..., Tally]] = {
    "dyspec-greedy": play_greedy,
    "dyspec-threshold": play_threshold,
    "stopping": play_stopping,
    "price": play_price,
}
"""Compiled: (recorded, drafting, deterministic) -> Tally, by kind of drafting."""


def play_tree(recorded: Recorded, tree: Tree) -> Tally:
    """The same tree in every round."""
    tally = new_tally(len(recorded.starts) - 1, tree.num_nodes)
    first_child = np.array([family[0] if family else 0 for family in tree.children])
    _play_tree(recorded, tally, first_child, tree.num_children.astype(np.int64))
    tally.sizes[:, tree.num_nodes] = tally.rounds if tree.num_nodes > 1 else 0
    tally.depths[:, tree.depth] = tally.rounds
    for level, width in enumerate(tree.widths.tolist()):
        if level == 0:
            tally.root_passes[:] = tally.rounds
        else:
            tally.widths[:, width] += tally.rounds
    return tally


def play(
    recorded: Recorded,
    grower_of_text: Callable[[], Grower],
    step_ms: Callable[[int, list[int]], float] | None = None,
) -> Tally:
    """Any rule, asked as decoding asks it: slower, and obvious.

    grower_of_text  a rule as it is at the start of a text
    step_ms         what a round took, by nodes verified and widths of the draft passes (0 for the
                    first); None: the rule is told 0
    """
    num_nodes = grower_of_text().num_nodes
    tally = new_tally(len(recorded.starts) - 1, num_nodes)
    walk = new_walk(num_nodes)
    for text in range(len(tally.tokens)):
        grower = grower_of_text()
        tree, end = recorded.starts[text], recorded.starts[text + 1]
        while tree < end:
            widths = _play_round(recorded, grower, walk, tree, tally, text)
            path = np.flatnonzero(walk.on_text[: walk.num_nodes[0]])[1:].tolist()
            took = 0.0 if step_ms is None else step_ms(int(walk.num_nodes[0]), widths)
            emitted = _book_round(walk, tally, text, len(widths) > 0, end - tree)
            grower.verified(path, took)
            tree += emitted
    return tally


def new_walk(num_nodes: int) -> Walk:
    """A lone root."""
    return Walk(
        np.ones(1, np.int64),
        np.zeros(num_nodes, np.int64),
        np.zeros(num_nodes, np.bool_),
        np.zeros(num_nodes, np.int64),
        np.zeros(num_nodes, np.int64),
        np.zeros(num_nodes, np.bool_),
        np.zeros(num_nodes, np.int64),
    )


def _play_round(
    recorded: Recorded, grower: Grower, walk: Walk, tree: int, tally: Tally, text: int
) -> list[int]:
    """Widths of its draft passes, 0 for the root's."""
    widths = []
    unknown = 0
    grower.start(len(walk.rows))
    _fill_root(recorded, walk, tree)
    while requests := grower.grow():
        new = []
        for node, count in requests:
            if not walk.expanded[node]:
                walk.expanded[node] = True
                new.append(node)
            for _ in range(count):
                _reveal(recorded, walk, tree, node)
        if not new:
            continue
        rows = walk.rows[new]
        drawn, features = recorded.drawn[rows], recorded.features[rows]
        drawn[rows < 0] = features[rows < 0] = np.nan
        unknown += int((rows < 0).sum())
        widths.append(0 if new == [0] else len(new))
        _book_pass(tally, text, len(new), new == [0])
        grower.expanded(new, drawn[:, : grower.max_children], features)
    tally.unknown[text] += unknown > 0
    return widths


@njit(cache=True)
def _play_greedy(recorded, walk, tally, nodes, heap, waiting, requests, max_depth):  # type: ignore[no-untyped-def]
    for text in range(len(tally.tokens)):
        tree, end = recorded.starts[text], recorded.starts[text + 1]
        while tree < end:
            greedy.start(nodes, heap, waiting, max_depth)
            _fill_root(recorded, walk, tree)
            drafted = unknown = False
            while True:
                greedy.advance(nodes, heap, waiting, requests, max_depth)
                if requests.count[0] == 0:
                    break
                num = _serve(recorded, walk, tree, requests)
                drafted = drafted or num > 0
                unknown |= _fill_nodes(recorded, walk, nodes, num)
                _book_pass(tally, text, num, walk.new[0] == 0)
            tally.unknown[text] += unknown
            tree += _book_round(walk, tally, text, drafted, end - tree)


@njit(cache=True)
def _play_threshold(  # type: ignore[no-untyped-def]
    recorded, walk, tally, nodes, level, below, requests, least, max_depth
):
    for text in range(len(tally.tokens)):
        tree, end = recorded.starts[text], recorded.starts[text + 1]
        while tree < end:
            threshold.start(nodes, level, below, max_depth)
            _fill_root(recorded, walk, tree)
            drafted = unknown = False
            while True:
                threshold.advance(nodes, level, below, requests, least, max_depth)
                if requests.count[0] == 0:
                    break
                num = _serve(recorded, walk, tree, requests)
                drafted = drafted or num > 0
                unknown |= _fill_nodes(recorded, walk, nodes, num)
                _book_pass(tally, text, num, walk.new[0] == 0)
            tally.unknown[text] += unknown
            tree += _book_round(walk, tally, text, drafted, end - tree)


@njit(cache=True)
def _play_price(recorded, walk, tally, growth, tables, requests, price_per_ms, max_depth):  # type: ignore[no-untyped-def]
    for text in range(len(tally.tokens)):
        tree, end = recorded.starts[text], recorded.starts[text + 1]
        while tree < end:
            price.start(growth)
            _fill_root(recorded, walk, tree)
            drafted = unknown = False
            while True:
                price.advance(growth, tables, requests, price_per_ms, max_depth)
                if requests.count[0] == 0:
                    break
                num = _serve(recorded, walk, tree, requests)
                drafted = drafted or num > 0
                unknown |= _fill_nodes(recorded, walk, growth.nodes, num)
                collisions = np.full(num, np.nan)
                for i in range(num):
                    row = walk.rows[walk.new[i]]
                    if row >= 0:
                        collisions[i] = recorded.features[row, COLLISION]
                price.fill_expanded(growth, tables, walk.new[:num], collisions)
                _book_pass(tally, text, num, walk.new[0] == 0)
            tally.unknown[text] += unknown
            tree += _book_round(walk, tally, text, drafted, end - tree)


@njit(cache=True)
def _play_stopping(recorded, tally, factor, least, max_depth):  # type: ignore[no-untyped-def]
    """factor  place of the score in `growth.stopping.FACTORS`"""
    for text in range(len(tally.tokens)):
        tree, end = recorded.starts[text], recorded.starts[text + 1]
        while tree < end:
            row, depth, emitted, all_accepted = recorded.first[tree], 0, 1, 1.0
            while depth < max_depth and all_accepted >= least:
                _book_pass(tally, text, 1, depth == 0)
                depth += 1
                if row < 0:
                    tally.unknown[text] += 1
                    break
                if emitted == depth and recorded.taken[row] == 0:
                    emitted += 1
                all_accepted *= _factor(recorded, row, factor, depth == 1)
                own = recorded.child[row, 0]
                row = recorded.first[tree] + own if own >= 0 else -1
            tally.rounds[text] += 1
            tally.accepted[text] += emitted - 1
            tally.sizes[text, depth + 1] += 1
            tally.depths[text, depth] += 1
            emitted = min(emitted, end - tree)
            tally.tokens[text] += emitted
            tree += emitted


@njit(cache=True)
def _factor(recorded, row, factor, of_root):  # type: ignore[no-untyped-def]
    if factor == 0:  # head
        return 1.0 if of_root else recorded.features[row, SCORE]
    if factor == 1:  # confidence
        return recorded.features[row, MAX_PROBABILITY]
    if factor == 2:  # entropy
        return np.exp(-recorded.features[row, ENTROPY])
    return recorded.drawn[row, 0]


@njit(cache=True)
def _play_tree(recorded, tally, first_child, num_children):  # type: ignore[no-untyped-def]
    for text in range(len(tally.tokens)):
        tree, end = recorded.starts[text], recorded.starts[text + 1]
        while tree < end:
            node, emitted = 0, 1
            for rank in recorded.path[tree]:
                if rank < 0 or rank >= num_children[node]:
                    break
                node = first_child[node] + rank
                emitted += 1
            tally.rounds[text] += 1
            tally.accepted[text] += emitted - 1
            emitted = min(emitted, end - tree)
            tally.tokens[text] += emitted
            tree += emitted


@njit(cache=True)
def _fill_root(recorded, walk, tree):  # type: ignore[no-untyped-def]
    walk.num_nodes[0] = 1
    walk.rows[0] = recorded.first[tree]
    walk.on_text[0] = True
    walk.depths[0] = 0
    walk.revealed[0] = 0
    walk.expanded[0] = False


@njit(cache=True)
def _serve(recorded, walk, tree, requests):  # type: ignore[no-untyped-def]
    """Reveal what is asked for; returns how many nodes of `walk.new` are to be expanded."""
    num = 0
    for i in range(requests.count[0]):
        node = requests.nodes[i]
        if not walk.expanded[node]:
            walk.expanded[node] = True
            walk.new[num] = node
            num += 1
        for _ in range(requests.children[i]):
            _reveal(recorded, walk, tree, node)
    return num


@njit(cache=True)
def _reveal(recorded, walk, tree, node):  # type: ignore[no-untyped-def]
    child, rank, row = walk.num_nodes[0], walk.revealed[node], walk.rows[node]
    walk.num_nodes[0] += 1
    walk.revealed[node] += 1
    walk.depths[child] = walk.depths[node] + 1
    walk.revealed[child] = 0
    walk.expanded[child] = False
    walk.rows[child] = -1
    walk.on_text[child] = False
    if row >= 0:
        own = recorded.child[row, rank]
        if own >= 0:
            walk.rows[child] = recorded.first[tree] + own
        walk.on_text[child] = walk.on_text[node] and recorded.taken[row] == rank


@njit(cache=True)
def _fill_nodes(recorded, walk, nodes, num):  # type: ignore[no-untyped-def]
    """What the draft pass finds, NaN where nothing was recorded; was there such a node?"""
    unknown = False
    for i in range(num):
        node = walk.new[i]
        row = walk.rows[node]
        nodes.expanded[node] = True
        if row < 0:
            nodes.drawn[node] = np.nan
            unknown = True
        else:
            nodes.drawn[node] = recorded.drawn[row, : nodes.drawn.shape[1]]
    return unknown


@njit(cache=True)
def _book_pass(tally, text, width, of_root):  # type: ignore[no-untyped-def]
    if width > 0:
        if of_root:
            tally.root_passes[text] += 1
        else:
            tally.widths[text, width] += 1


@njit(cache=True)
def _book_round(walk, tally, text, drafted, room):  # type: ignore[no-untyped-def]
    """Returns how many tokens were emitted, at most `room`."""
    count = walk.num_nodes[0]
    emitted = 0
    depth = 0
    for node in range(count):
        emitted += walk.on_text[node]
        depth = max(depth, walk.depths[node])
    tally.rounds[text] += 1
    tally.accepted[text] += emitted - 1
    tally.depths[text, depth] += 1
    if drafted:
        tally.sizes[text, count] += 1
    emitted = min(emitted, room)
    tally.tokens[text] += emitted
    return emitted
