"""Rounds of decoding, played on recorded trees: what a policy asks for is looked up, not drafted.

The policies are those of decoding (`planner.policies`).  Chains and whatever else is not compiled
are asked through their protocol; the kernels of trees are called directly, a text at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit

from ..documents.head_card import STOPPING_SCORES
from ..documents.tree import Tree
from ..policies import (
    ConfidentDrafting,
    DynamicDrafting,
    GreedyDrafting,
    Policy,
    PriceDrafting,
    StoppingDrafting,
    ThresholdDrafting,
)
from ..policies.compiled import greedy_kernel, price_kernel, threshold_kernel
from ..policies.compiled.memory import new_memory
from ..policies.compiled.slots import requests_in
from ..policies.policy import COLLISION
from ..policies.price import tables_of
from ..policies.stopping import HEAD, factor
from .recorded import (
    Recorded,
    Tally,
    Walk,
    book_pass,
    book_round,
    fill_nodes,
    fill_root,
    new_tally,
    new_walk,
    reveal,
    serve,
)

_factor = njit(cache=True)(factor)


class Ends(NamedTuple):
    """When a chain is not continued."""

    score: int
    """Place in `STOPPING_SCORES`"""
    least: float
    """The least score of its last token, or of the product over all of them."""
    of_all: bool
    before: bool = False
    """Is the token whose score is too low not drafted any more?"""


class Lengths(NamedTuple):
    """How long chains may become."""

    first: int
    """The length in the first round of a text."""
    scheduled: bool
    """Two tokens more after a round that accepted all, one less after any other?"""


def play_greedy(recorded: Recorded, drafting: GreedyDrafting, deterministic: bool) -> Tally:
    """DySpec, Algorithm 1."""
    tally = new_tally(len(recorded.texts), drafting.num_nodes)
    _play_greedy(
        recorded,
        new_walk(drafting.num_nodes),
        tally,
        new_memory(drafting.num_nodes, drafting.max_children),
        drafting.max_depth,
    )
    return tally


def play_threshold(recorded: Recorded, drafting: ThresholdDrafting, deterministic: bool) -> Tally:
    """DySpec, Algorithm 2."""
    tally = new_tally(len(recorded.texts), drafting.num_nodes)
    _play_threshold(
        recorded,
        new_walk(drafting.num_nodes),
        tally,
        new_memory(drafting.num_nodes, drafting.max_children),
        drafting.threshold,
        drafting.max_depth,
    )
    return tally


def play_price(recorded: Recorded, drafting: PriceDrafting, deterministic: bool) -> Tally:
    """One price of time, the planned one throughout."""
    tally = new_tally(len(recorded.texts), drafting.num_nodes)
    _play_price(
        recorded,
        new_walk(drafting.num_nodes),
        tally,
        new_memory(drafting.num_nodes, drafting.max_children),
        tables_of(drafting, deterministic=deterministic),
        (drafting.price_per_ms, drafting.max_depth),
    )
    return tally


def play_stopping(recorded: Recorded, drafting: StoppingDrafting, deterministic: bool) -> Tally:
    """A chain, as long as P(all accepted) is high enough (SpecDec++)."""
    ends = Ends(STOPPING_SCORES.index(drafting.score), 1 - drafting.threshold, True)
    return _chains_played(recorded, drafting, ends, Lengths(drafting.max_depth, False))


def play_dynamic(recorded: Recorded, drafting: DynamicDrafting, deterministic: bool) -> Tally:
    """Hugging Face's assisted generation, its confidence left as it is."""
    ends = Ends(STOPPING_SCORES.index("probability"), drafting.confidence, False)
    lengths = Lengths(drafting.num_tokens, drafting.schedule == "heuristic")
    return _chains_played(recorded, drafting, ends, lengths)


def play_confident(recorded: Recorded, drafting: ConfidentDrafting, deterministic: bool) -> Tally:
    """A chain, as long as the draft is sure of the next token (llama.cpp)."""
    ends = Ends(STOPPING_SCORES.index("confidence"), drafting.confidence, False, before=True)
    return _chains_played(recorded, drafting, ends, Lengths(drafting.max_depth, False))


def _chains_played(
    recorded: Recorded,
    drafting: StoppingDrafting | DynamicDrafting | ConfidentDrafting,
    ends: Ends,
    lengths: Lengths,
) -> Tally:
    tally = new_tally(len(recorded.texts), drafting.most_nodes)
    _play_chains(recorded, tally, ends, lengths, drafting.max_depth)
    return tally


PLAYED: dict[str, Callable[..., Tally]] = {
    "dyspec-greedy": play_greedy,
    "dyspec-threshold": play_threshold,
    "stopping": play_stopping,
    "dynamic": play_dynamic,
    "confident": play_confident,
    "price": play_price,
}
"""Compiled, by kind: (recorded, drafting, deterministic) -> Tally; only what does not learn."""


def play_tree(recorded: Recorded, tree: Tree) -> Tally:
    """The same tree in every round."""
    tally = new_tally(len(recorded.texts), tree.num_nodes)
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
    policy_of_text: Callable[[], Policy],
    step_ms: Callable[[int, list[int]], float] | None = None,
) -> Tally:
    """Rounds of any policy, asked as decoding asks it: slower, and obvious.

    policy_of_text  the policy as it is at the start of a text
    step_ms         what a round took, by nodes verified and widths of the draft passes (0 for the
                    first); None: the policy is told 0
    """
    num_nodes = policy_of_text().num_nodes
    tally = new_tally(len(recorded.texts), num_nodes)
    walk = new_walk(num_nodes)
    for text in range(len(tally.tokens)):
        policy = policy_of_text()
        tree, end = recorded.texts[text]
        while tree < end:
            widths = _play_round(recorded, policy, walk, tree, tally, text)
            path = np.flatnonzero(walk.on_text[: walk.num_nodes[0]])[1:].tolist()
            took = 0.0 if step_ms is None else step_ms(int(walk.num_nodes[0]), widths)
            emitted = book_round(walk, tally, text, len(widths) > 0, end - tree)
            policy.verified(path, took)
            tree += emitted
    return tally


def _play_round(
    recorded: Recorded, policy: Policy, walk: Walk, tree: int, tally: Tally, text: int
) -> list[int]:
    """Widths of its draft passes, 0 for the root's."""
    widths = []
    unknown = 0
    policy.start(len(walk.rows))
    fill_root(recorded, walk, tree)
    while requests := policy.grow():
        new = []
        for node, count in requests:
            if not walk.expanded[node]:
                walk.expanded[node] = True
                new.append(node)
            for _ in range(count):
                reveal(recorded, walk, tree, node)
        if not new:
            continue
        rows = walk.rows[new]
        drawn, features = recorded.drawn[rows], recorded.features[rows]
        drawn[rows < 0] = features[rows < 0] = np.nan
        unknown += int((rows < 0).sum())
        widths.append(0 if new == [0] else len(new))
        book_pass(tally, text, len(new), new == [0])
        policy.expanded(new, drawn[:, : policy.num_candidates], features)
    tally.unknown[text] += unknown > 0
    return widths


@njit(cache=True, nogil=True)
def _play_greedy(recorded, walk, tally, memory, max_depth):  # type: ignore[no-untyped-def]
    nodes, heap, waiting, requests = greedy_kernel.state_in(memory)
    for text in range(len(tally.tokens)):
        tree, end = recorded.texts[text]
        while tree < end:
            greedy_kernel.start(nodes, heap, waiting, max_depth)
            fill_root(recorded, walk, tree)
            drafted = unknown = False
            while True:
                greedy_kernel.advance(nodes, heap, waiting, requests, max_depth)
                if requests.count[0] == 0:
                    break
                num = serve(recorded, walk, tree, requests)
                drafted = drafted or num > 0
                unknown |= fill_nodes(recorded, walk, nodes, num)
                book_pass(tally, text, num, walk.new[0] == 0)
            tally.unknown[text] += unknown
            tree += book_round(walk, tally, text, drafted, end - tree)


@njit(cache=True, nogil=True)
def _play_threshold(recorded, walk, tally, memory, least, max_depth):  # type: ignore[no-untyped-def]
    nodes, level, below, requests = threshold_kernel.state_in(memory)
    for text in range(len(tally.tokens)):
        tree, end = recorded.texts[text]
        while tree < end:
            threshold_kernel.start(nodes, level, below, max_depth)
            fill_root(recorded, walk, tree)
            drafted = unknown = False
            while True:
                threshold_kernel.advance(nodes, level, below, requests, least, max_depth)
                if requests.count[0] == 0:
                    break
                num = serve(recorded, walk, tree, requests)
                drafted = drafted or num > 0
                unknown |= fill_nodes(recorded, walk, nodes, num)
                book_pass(tally, text, num, walk.new[0] == 0)
            tally.unknown[text] += unknown
            tree += book_round(walk, tally, text, drafted, end - tree)


@njit(cache=True, nogil=True)
def _play_price(recorded, walk, tally, memory, tables, price_and_depth):  # type: ignore[no-untyped-def]
    price_per_ms, max_depth = price_and_depth
    growth, requests = price_kernel.growth_in(memory), requests_in(memory)
    for text in range(len(tally.tokens)):
        tree, end = recorded.texts[text]
        while tree < end:
            price_kernel.start(growth)
            fill_root(recorded, walk, tree)
            drafted = unknown = False
            while True:
                price_kernel.advance(growth, tables, requests, price_per_ms, max_depth)
                if requests.count[0] == 0:
                    break
                num = serve(recorded, walk, tree, requests)
                drafted = drafted or num > 0
                unknown |= fill_nodes(recorded, walk, growth.nodes, num)
                collisions = np.full(num, np.nan)
                for i in range(num):
                    row = walk.rows[walk.new[i]]
                    if row >= 0:
                        collisions[i] = recorded.features[row, COLLISION]
                price_kernel.fill_expanded(growth, tables, walk.new[:num], collisions)
                book_pass(tally, text, num, walk.new[0] == 0)
            tally.unknown[text] += unknown
            tree += book_round(walk, tally, text, drafted, end - tree)


@njit(cache=True, nogil=True)
def _play_chains(recorded, tally, ends, lengths, max_depth):  # type: ignore[no-untyped-def]
    for text in range(len(tally.tokens)):
        tree, end = recorded.texts[text]
        longest = lengths.first
        while tree < end:
            row, depth, emitted, score = recorded.first[tree], 0, 1, 1.0
            while depth < min(longest, max_depth) and score >= ends.least:
                book_pass(tally, text, 1, depth == 0)
                factor = 0.0
                if row >= 0:
                    factor = 1.0  # of the root, on which no head has a word
                    if ends.score != HEAD or depth > 0:
                        seen = recorded.features[row]
                        factor = _factor(ends.score, recorded.drawn[row, 0], seen)
                if ends.before and (row < 0 or factor < ends.least):
                    tally.unknown[text] += row < 0
                    break
                depth += 1
                if row < 0:
                    tally.unknown[text] += 1
                    break
                if emitted == depth and recorded.taken[row] == 0:
                    emitted += 1
                score = score * factor if ends.of_all else factor
                own = recorded.child[row, 0]
                row = recorded.first[tree] + own if own >= 0 else -1
            if lengths.scheduled:
                longest = longest + 2 if emitted == depth + 1 else max(1, longest - 1)
            tally.rounds[text] += 1
            tally.accepted[text] += emitted - 1
            tally.sizes[text, depth + 1] += 1
            tally.depths[text, depth] += 1
            emitted = min(emitted, end - tree)
            tally.tokens[text] += emitted
            tree += emitted


@njit(cache=True)
def _play_tree(recorded, tally, first_child, num_children):  # type: ignore[no-untyped-def]
    for text in range(len(tally.tokens)):
        tree, end = recorded.texts[text]
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
