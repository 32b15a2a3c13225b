"""Rounds of one tree along recorded texts, compiled: the renewal recursion of `evidence`.

Only nodes that have children are followed.  What a node hands on to all of its children together is
its mass times one number, which is looked up: a child without children needs none of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ..documents.tree import Tree
from ..policies.compiled.uncounted import uncounted


class TextTables(NamedTuple):
    """Recorded texts, one after the other: N positions, and at each of them C columns and F sums of
    columns for each of E acceptances with which a node may be entered (see `Traces`)."""

    num_entered: int
    """E"""
    emitted: np.ndarray
    """float64 [N, E C]"""
    expected: np.ndarray
    """float64 [N, E C]"""
    places: np.ndarray
    """float64 [N, E C]: where among the E the child is entered, between two of them at a fraction;
    empty where E is 1"""
    all_emitted: np.ndarray
    """float64 [N, E F]: of all children of a node that has one, of one that has two, and so on"""
    all_expected: np.ndarray
    """float64 [N, E F]: likewise"""
    starts: np.ndarray
    """int64 [prompts + 1]"""


class Families(NamedTuple):
    """The m nodes of a tree that have children, level by level, and its n nodes."""

    levels: np.ndarray
    """int64 [depth + 1]: the first of the m at each depth, and m"""
    above: np.ndarray
    """int64 [m]: each one's parent among them; the root's is of no use"""
    nodes: np.ndarray
    """int64 [m]: which of the n nodes each is"""
    num_children: np.ndarray
    """int64 [m]"""
    columns: np.ndarray
    """int64 [n]: the column of each node among its parent's children"""
    first_child: np.ndarray
    """int64 [m]: the others stand behind it"""

    @classmethod
    def of(cls, tree: Tree, columns: np.ndarray) -> Families:
        """The families of a tree whose nodes have these columns, int [n]."""
        counts = tree.num_children.astype(np.int64)
        nodes = np.flatnonzero(counts)
        levels = np.searchsorted(tree.depths[nodes], np.arange(tree.depth + 1))
        above = np.searchsorted(nodes, tree.parents[nodes])
        first = 1 + np.cumsum(counts) - counts
        return cls(levels, above, nodes, counts[nodes], columns.astype(np.int64), first[nodes])


class Passage(NamedTuple):
    """Rounds of one tree along the texts."""

    rounds: np.ndarray
    """float64 [prompts]: expected rounds."""
    tokens: np.ndarray
    """float64 [prompts]: expected tokens of these rounds."""
    visits: np.ndarray
    """float64 [n]: expected visits of each node; empty where nobody asks."""
    examined: np.ndarray
    """float64 [depths, N * E]: chance that a node with children is visited, by its depth (the last
    stands for all below), the position, and the acceptance that it is entered with; empty where
    nobody asks."""


@njit(cache=True, nogil=True)
def fill_passage(texts, families, passage):  # type: ignore[no-untyped-def]
    """Renewal recursion over every prompt's text; fills the arrays of `passage`."""
    mass = np.zeros((len(families.nodes), texts.num_entered))
    for prompt in range(len(passage.rounds)):
        start, end = texts.starts[prompt], texts.starts[prompt + 1]
        begins = np.zeros(end - start + 1)
        begins[0] = 1.0
        scratch = mass, begins
        tokens = 0.0
        for place in range(start, end):
            tokens += _fill_round(texts, families, passage, scratch, (place, end))
        passage.rounds[prompt], passage.tokens[prompt] = begins[:-1].sum(), tokens
    if len(passage.visits) > 0:
        passage.visits[0] = passage.rounds.sum()


@uncounted
def _fill_round(texts, families, passage, scratch, where):  # type: ignore[no-untyped-def]
    """Follow the rounds that start at a place to where the next ones begin.

    scratch  mass, float64 [m, E], and how many rounds begin at each place of the text, and behind
             it, float64 [N + 1]
    where    the place, and the end of the text

    Returns their expected tokens.
    """
    mass, begins = scratch
    place, end = where
    depth, start = len(families.levels) - 1, end + 1 - len(begins)
    num_families = texts.all_emitted.shape[1] // texts.num_entered
    tokens = here = begins[place - start]  # of all nodes of a level together
    level = 0
    if depth > 0:
        mass[0, -1] = here
    while here > 0.0:
        below = visited = 0.0
        if level < depth:
            _note(texts, families, passage, mass, (level, place, end))
            if place + 1 < end:
                for node in range(families.levels[level], families.levels[level + 1]):
                    column = families.num_children[node] - 1
                    for e in range(texts.num_entered):
                        below += mass[node, e] * texts.all_emitted[place, column]
                        visited += mass[node, e] * texts.all_expected[place, column]
                        column += num_families
                if level + 1 < depth:
                    _hand_down(texts, families, mass, level + 1, place)
        tokens += visited
        level, place = level + 1, place + 1
        begins[place - start] += max(here - below, 0.0)
        here = below
    return tokens


@uncounted
def _hand_down(texts, families, mass, level, place):  # type: ignore[no-untyped-def]
    """The masses of the nodes of a level, from those of the level above, which stands at `place`:
    what enters between two acceptances is shared out to both."""
    num_columns = texts.emitted.shape[1] // texts.num_entered
    for node in range(families.levels[level], families.levels[level + 1]):
        above, column = families.above[node], families.columns[families.nodes[node]]
        if texts.num_entered == 1:
            mass[node, 0] = mass[above, 0] * texts.emitted[place, column]
            continue
        for e in range(texts.num_entered):
            mass[node, e] = 0.0
        for e in range(texts.num_entered):
            handed = mass[above, e] * texts.emitted[place, column]
            if handed > 0.0:
                entry = texts.places[place, column]
                lower = int(entry)
                mass[node, lower] += handed * (1.0 - (entry - lower))
                if entry > lower:
                    mass[node, lower + 1] += handed * (entry - lower)
            column += num_columns


@uncounted
def _note(texts, families, passage, mass, where):  # type: ignore[no-untyped-def]
    """Add to `examined` and `visits`, where they are asked for."""
    level, place, end = where
    first, last = families.levels[level], families.levels[level + 1]
    if len(passage.examined) > 0:
        depth = min(level, len(passage.examined) - 1)
        for node in range(first, last):
            for e in range(texts.num_entered):
                passage.examined[depth, place * texts.num_entered + e] += mass[node, e]
    if len(passage.visits) == 0 or place + 1 == end:
        return
    num_columns = texts.expected.shape[1] // texts.num_entered
    for node in range(first, last):
        for rank in range(families.num_children[node]):
            child = families.first_child[node] + rank
            column = families.columns[child]
            for e in range(texts.num_entered):
                passage.visits[child] += mass[node, e] * texts.expected[place, column]
                column += num_columns
