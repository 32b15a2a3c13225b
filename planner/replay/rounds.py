"""Rounds of decoding, played on recorded trees: what a policy asks for is looked up, not drafted.

The policies are those of decoding (`planner.policies`).  Chains and whatever else is not compiled
are asked through their protocol; the kernels of trees are called directly, a text at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..compiling import compiled
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
from ..policies.compiled.price_tables import Tables
from ..policies.compiled.uncounted import uncounted
from ..policies.policy import COLLISION
from ..policies.price import tables_of
from ..policies.stopping import HEAD, factor
from .recorded import (
    Recorded,
    Tally,
    Walk,
    below,
    book_pass,
    book_round,
    fill_nodes,
    fill_root,
    new_tally,
    new_walk,
    reveal,
    serve,
)

_factor = compiled(factor)


class Ends(NamedTuple):
    """The rule by which a chain is not continued, and how long it may become."""

    score: int
    """Place in `STOPPING_SCORES`"""
    least: float
    """The least score of its last token, or of the product over all of them."""
    first: int
    """The greatest length in the first round of a text."""
    of_all: bool = False
    before: bool = False
    """Is the token whose score is too low not drafted any more?"""
    scheduled: bool = False
    """Two tokens more after a round that accepted all, one less after any other?"""


def _play_chains(
    recorded: Recorded,
    drafting: StoppingDrafting | DynamicDrafting | ConfidentDrafting,
    deterministic: bool,
) -> Tally:
    """A chain, ended by its scores."""
    longest = drafting.max_depth
    match drafting:
        case StoppingDrafting(score=score):
            least = 1 - drafting.threshold
            ends = Ends(STOPPING_SCORES.index(score), least, longest, of_all=True)
        case DynamicDrafting(confidence=least, schedule=schedule):
            place, first = STOPPING_SCORES.index("probability"), drafting.num_tokens
            ends = Ends(place, least, first, scheduled=schedule == "heuristic")
        case ConfidentDrafting(confidence=least):
            ends = Ends(STOPPING_SCORES.index("confidence"), least, longest, before=True)
    tally = new_tally(len(recorded.texts), drafting.most_nodes)
    _fill_chains(recorded, tally, ends, longest)
    return tally


GREEDY, THRESHOLD, PRICE = range(3)


def _play_slots(
    recorded: Recorded,
    drafting: GreedyDrafting | ThresholdDrafting | PriceDrafting,
    deterministic: bool,
) -> Tally:
    """A tree, grown slot by slot; the price of time is the planned one throughout."""
    num_nodes, num_children = drafting.num_nodes, drafting.max_children
    tables = NO_TABLES
    match drafting:
        case GreedyDrafting():
            rule = GREEDY, 0.0
        case ThresholdDrafting(threshold=threshold):
            rule = THRESHOLD, threshold
        case PriceDrafting(price_per_ms=price):
            rule = PRICE, price
            tables = tables_of(drafting, deterministic=deterministic)
    tally = new_tally(len(recorded.texts), num_nodes)
    state = new_walk(num_nodes), new_memory(num_nodes, num_children)
    _fill_slots(recorded, tally, state, tables, (*rule, drafting.max_depth))
    return tally


PLAYED: dict[str, Callable[..., Tally]] = {
    "dyspec-greedy": _play_slots,
    "dyspec-threshold": _play_slots,
    "price": _play_slots,
    "stopping": _play_chains,
    "dynamic": _play_chains,
    "confident": _play_chains,
}
"""Compiled, by kind: (recorded, drafting, deterministic) -> Tally; only what does not learn."""

_ROW, _ROWS = np.zeros(0), np.zeros((0, 0))
NO_TABLES = Tables(_ROW, _ROWS, _ROWS, _ROWS, _ROW, _ROW, 0.0, 0.0, 0.0, False)
"""Stands for them where no price is paid."""


def play_tree(recorded: Recorded, tree: Tree) -> Tally:
    """The same tree in every round."""
    tally = new_tally(len(recorded.texts), tree.num_nodes)
    first_child = np.array([family[0] if family else 0 for family in tree.children])
    _fill_tree(recorded, tally, first_child, tree.num_children.astype(np.int64))
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
            widths = _play_round(recorded, policy, walk, (tree, end), tally, text)
            path = np.flatnonzero(walk.on_text[: walk.num_nodes[0]])[1:].tolist()
            took = 0.0 if step_ms is None else step_ms(int(walk.num_nodes[0]), widths)
            emitted = book_round(walk, tally, text, len(widths) > 0, end - tree)
            policy.verified(path, took)
            tree += emitted
    return tally


def _play_round(
    recorded: Recorded, policy: Policy, walk: Walk, place: tuple[int, int], tally: Tally, text: int
) -> list[int]:
    """Widths of its draft passes, 0 for the root's."""
    widths = []
    unknown = 0
    tree, end = place
    policy.start(len(walk.rows))
    fill_root(recorded, walk, tree)
    while requests := policy.grow():
        new = []
        for node, count in requests:
            if not walk.expanded[node]:
                walk.expanded[node] = True
                new.append(node)
            for _ in range(count):
                reveal(recorded, walk, end, node)
        if not new:
            continue
        rows = walk.rows[new]
        drawn, features = recorded.drawn[rows], recorded.features[rows]
        drawn[rows < 0] = features[rows < 0] = np.nan
        unknown += int((~walk.known[new]).sum())
        widths.append(0 if new == [0] else len(new))
        book_pass(tally, text, len(new), new == [0])
        policy.expanded(new, drawn[:, : policy.num_candidates], features)
    tally.unknown[text] += unknown > 0
    return widths


@compiled(nogil=True)
def _fill_slots(recorded, tally, state, tables, rule):  # type: ignore[no-untyped-def]
    """Rounds of a policy whose memory is that of all three, each with places of its own in it."""
    walk, memory = state
    greedy = greedy_kernel.state_in(memory)
    state = walk, greedy, threshold_kernel.state_in(memory)[2], price_kernel.growth_in(memory)
    for text in range(len(tally.tokens)):
        tree, end = recorded.texts[text]
        while tree < end:
            tree += _play_slots_round(recorded, tally, state, tables, rule, (text, tree, end))


@uncounted
def _play_slots_round(recorded, tally, state, tables, rule, place):  # type: ignore[no-untyped-def]
    """Returns how many tokens were emitted."""
    walk, (nodes, heap, waiting, requests), below, growth = state
    kind, level, max_depth = rule
    text, tree, end = place
    if kind == GREEDY:
        greedy_kernel.start(nodes, heap, waiting, max_depth)
    elif kind == THRESHOLD:
        threshold_kernel.start(nodes, heap, below, max_depth)
    else:
        price_kernel.start(growth)
    fill_root(recorded, walk, tree)
    drafted = unknown = False
    while True:
        if kind == GREEDY:
            greedy_kernel.advance(nodes, heap, waiting, requests, max_depth)
        elif kind == THRESHOLD:
            threshold_kernel.advance(nodes, heap, below, requests, level, max_depth)
        else:
            price_kernel.advance(growth, tables, requests, level, max_depth)
        if requests.count[0] == 0:
            break
        num = serve(recorded, walk, end, requests)
        drafted = drafted or num > 0
        unknown |= fill_nodes(recorded, walk, nodes, num)
        for i in range(num if kind == PRICE else 0):
            row = walk.rows[walk.new[i]]
            collision = recorded.features[row, COLLISION] if row >= 0 else np.nan
            price_kernel.expand(growth, tables, walk.new[i], collision)
        book_pass(tally, text, num, walk.new[0] == 0)
    tally.unknown[text] += unknown
    return book_round(walk, tally, text, drafted, end - tree)


@compiled(nogil=True)
def _fill_chains(recorded, tally, ends, max_depth):  # type: ignore[no-untyped-def]
    for text in range(len(tally.tokens)):
        tree, end = recorded.texts[text]
        longest = ends.first
        while tree < end:
            row, of, known = recorded.first[tree], tree, True
            depth, emitted, score, unknown = 0, 1, 1.0, False
            while depth < min(longest, max_depth) and score >= ends.least:
                book_pass(tally, text, 1, depth == 0)
                unknown |= not known
                factor = 0.0
                if row >= 0:
                    factor = 1.0  # of the root, on which no head has a word
                    if ends.score != HEAD or depth > 0:
                        seen = recorded.features[row]
                        factor = _factor(ends.score, recorded.drawn[row, 0], seen)
                if ends.before and (row < 0 or factor < ends.least):
                    break
                depth += 1
                if row < 0:
                    break
                on_text = emitted == depth and recorded.taken[row] == 0
                emitted += on_text
                score = score * factor if ends.of_all else factor
                place = tree + depth if on_text else end
                row, of, own = below(recorded, (of, row, 0), (place, end), depth)
                known = known and own
            tally.unknown[text] += unknown
            if ends.scheduled:
                longest = longest + 2 if emitted == depth + 1 else max(1, longest - 1)
            tally.rounds[text] += 1
            tally.accepted[text] += emitted - 1
            tally.sizes[text, depth + 1] += 1
            tally.depths[text, depth] += 1
            emitted = min(emitted, end - tree)
            tally.tokens[text] += emitted
            tree += emitted


@compiled
def _fill_tree(recorded, tally, first_child, num_children):  # type: ignore[no-untyped-def]
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
