"""One round on recorded trees: what has been revealed of its tree, and the books kept of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..policies.compiled.uncounted import uncounted


class Recorded(NamedTuple):
    """Trees, one per position: the arrays of a profile's `Replay`, ready for kernels."""

    texts: np.ndarray
    """int64 [texts, 2]: the first tree of each text, and the end of its last"""
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
    goes_on: bool
    """Is something to be found where a tree ends (`below`)?"""


class Tally(NamedTuple):
    """Counts of what happened, by text: float64 [texts] or [texts, counts]."""

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
    """Rounds in which the policy wanted to draft below a node of which nothing was recorded."""


class Walk(NamedTuple):
    """One round's tree, as it lies in the record."""

    num_nodes: np.ndarray
    """int64 [1]"""
    rows: np.ndarray
    """int64 [num_nodes]: -1 where there is none"""
    trees: np.ndarray
    """int64 [num_nodes]: whose rows these are"""
    known: np.ndarray
    """bool [num_nodes]: is the row the node's own?"""
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
    tokens, rounds, root_passes, accepted, unknown = np.zeros((5, num_texts))
    widths, sizes, depths = np.zeros((3, num_texts, num_nodes + 1))
    return Tally(tokens, rounds, root_passes, widths, sizes, depths, accepted, unknown)


def new_walk(num_nodes: int) -> Walk:
    """A lone root."""
    rows, trees, depths, revealed, new = np.zeros((5, num_nodes), np.int64)
    known, on_text, expanded = np.zeros((3, num_nodes), np.bool_)
    one = np.ones(1, np.int64)
    return Walk(one, rows, trees, known, on_text, depths, revealed, expanded, new)


@uncounted
def fill_root(recorded, walk, tree):  # type: ignore[no-untyped-def]
    """Start over, with the root of a recorded tree."""
    walk.num_nodes[0] = 1
    walk.rows[0] = recorded.first[tree]
    walk.trees[0] = tree
    walk.known[0] = True
    walk.on_text[0] = True
    walk.depths[0] = 0
    walk.revealed[0] = 0
    walk.expanded[0] = False


@uncounted
def serve(recorded, walk, end, requests):  # type: ignore[no-untyped-def]
    """Reveal what is asked for; returns how many nodes of `walk.new` are to be expanded."""
    num = 0
    for i in range(requests.count[0]):
        node = requests.nodes[i]
        if not walk.expanded[node]:
            walk.expanded[node] = True
            walk.new[num] = node
            num += 1
        for _ in range(requests.children[i]):
            reveal(recorded, walk, end, node)
    return num


@uncounted
def reveal(recorded, walk, end, node):  # type: ignore[no-untyped-def]
    """One more child of a node."""
    child, rank, row = walk.num_nodes[0], walk.revealed[node], walk.rows[node]
    walk.num_nodes[0] += 1
    walk.revealed[node] += 1
    walk.depths[child] = walk.depths[node] + 1
    walk.revealed[child] = 0
    walk.expanded[child] = False
    walk.on_text[child] = walk.on_text[node] and row >= 0 and recorded.taken[row] == rank
    place = walk.trees[0] + walk.depths[child] if walk.on_text[child] else end
    walk.rows[child], walk.trees[child], known = below(
        recorded, (walk.trees[node], row, rank), (place, end), child
    )
    walk.known[child] = walk.known[node] and known


@uncounted
def below(recorded, parent, place, number):  # type: ignore[no-untyped-def]
    """(row, its tree, is it the child's own?) of the child at a rank of a recorded row.

    parent  (tree, row, rank); a row of -1 has no children
    place   (that in the text where the child stands, the text's end): the end if it is not on it
    number  tells the child from others

    Where the tree ends, a child on the text is the root of the tree recorded there: what the draft
    offers behind it was drawn there again, from the same law.  For one that is not, another node
    of the tree stands in that is not on the text either.
    """
    tree, row, rank = parent
    start, end = place
    own = recorded.child[row, rank] if row >= 0 else -1
    if own >= 0:
        return recorded.first[tree] + own, tree, True
    if row < 0 or not recorded.goes_on:
        return -1, tree, False
    if start < end:
        return recorded.first[start], start, True
    others = recorded.first[tree + 1] - recorded.first[tree] - 1
    for step in range(others):
        other = recorded.first[tree] + 1 + (number + step) % others
        if recorded.taken[other] < 0:
            return other, tree, False
    return -1, tree, False


@uncounted
def fill_nodes(recorded, walk, nodes, num):  # type: ignore[no-untyped-def]
    """Write what the draft pass finds, NaN where there is nothing; was any node not recorded?"""
    unknown = False
    for i in range(num):
        node = walk.new[i]
        row = walk.rows[node]
        nodes.expanded[node] = True
        unknown |= not walk.known[node]
        for rank in range(nodes.drawn.shape[1]):
            nodes.drawn[node, rank] = recorded.drawn[row, rank] if row >= 0 else np.nan
    return unknown


@uncounted
def book_pass(tally, text, width, of_root):  # type: ignore[no-untyped-def]
    """A draft pass over `width` nodes, if there is any."""
    if width > 0:
        if of_root:
            tally.root_passes[text] += 1
        else:
            tally.widths[text, width] += 1


@uncounted
def book_round(walk, tally, text, drafted, room):  # type: ignore[no-untyped-def]
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
