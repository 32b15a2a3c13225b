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


class Texts(NamedTuple):
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


class Shape(NamedTuple):
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
    def of(cls, tree: Tree, columns: np.ndarray) -> Shape:
        """The shape of a tree whose nodes have these columns, int [n]."""
        counts = tree.num_children.astype(np.int64)
        nodes = np.flatnonzero(counts)
        levels = np.searchsorted(tree.depths[nodes], np.arange(tree.depth + 1))
        above = np.searchsorted(nodes, tree.parents[nodes])
        first = 1 + np.cumsum(counts) - counts
        return cls(levels, above, nodes, counts[nodes], columns.astype(np.int64), first[nodes])


class Walk(NamedTuple):
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
def fill_walk(texts, shape, walk):  # type: ignore[no-untyped-def]
    """Renewal recursion over every prompt's text; fills the arrays of `walk`, a `Walk`."""
    tree = shape.levels, shape.above, shape.columns[shape.nodes], shape.num_children
    text = texts.emitted, texts.expected, texts.places, texts.all_emitted, texts.all_expected
    children = shape.first_child, shape.columns
    mass = np.zeros((len(shape.nodes), texts.num_entered))
    for prompt in range(len(walk.rounds)):
        start, end = texts.starts[prompt], texts.starts[prompt + 1]
        begins = np.zeros(end - start + 1)
        begins[0] = 1.0
        rounds = tokens = 0.0
        for place in range(start, end):
            here = begins[place - start]
            if here > 0.0:
                if len(mass) > 0:
                    mass[0, -1] = here
                rounds += here
                tokens += _fill_round(
                    text, tree, children, mass, here, place, end, begins, walk.visits, walk.examined
                )
        walk.rounds[prompt], walk.tokens[prompt] = rounds, tokens
    if len(walk.visits) > 0:
        walk.visits[0] = walk.rounds.sum()


@uncounted
def _fill_round(text, tree, children, mass, here, place, end, begins, visits, examined):  # type: ignore[no-untyped-def]
    """Follow the rounds that start at `place`, `here` of them, to where the next ones begin.

    mass  float64 [m, E]  scratch; the root's are set
    end   of the text, whose last places those of `begins` are

    Returns their expected tokens.
    """
    emitted, expected, places, all_emitted, all_expected = text
    levels, above, columns, num_children = tree
    num_entered, depth, start = mass.shape[1], len(levels) - 1, end + 1 - len(begins)
    num_columns = emitted.shape[1] // num_entered
    num_families = all_emitted.shape[1] // num_entered
    tokens = here
    for level in range(depth + 1):
        below = visited = 0.0  # of all nodes of a level together
        if level < depth:
            if len(examined) > 0:
                _note_examined(levels, mass, level, place, examined)
            if len(visits) > 0 and place + 1 < end:
                _note_visits(tree, children, mass, level, place, expected, visits)
        if level < depth and place + 1 < end:
            for node in range(levels[level], levels[level + 1]):
                column = num_children[node] - 1
                for e in range(num_entered):
                    below += mass[node, e] * all_emitted[place, column]
                    visited += mass[node, e] * all_expected[place, column]
                    column += num_families
        if below > 0.0 and level + 1 < depth:
            for node in range(levels[level + 1], levels[level + 2]):
                column, parent = columns[node], above[node]
                if num_entered == 1:
                    mass[node, 0] = mass[parent, 0] * emitted[place, column]
                    continue
                for e in range(num_entered):
                    mass[node, e] = 0.0
                for e in range(num_entered):
                    handed = mass[parent, e] * emitted[place, column]
                    if handed > 0.0:  # between two acceptances: shared out to both
                        entry = places[place, column]
                        lower = int(entry)
                        mass[node, lower] += handed * (1.0 - (entry - lower))
                        if entry > lower:
                            mass[node, lower + 1] += handed * (entry - lower)
                    column += num_columns
        tokens += visited
        place += 1
        begins[place - start] += max(here - below, 0.0)
        here = below
        if not here > 0.0:
            break
    return tokens


@uncounted
def _note_examined(levels, mass, level, place, examined):  # type: ignore[no-untyped-def]
    depth, num_entered = min(level, len(examined) - 1), mass.shape[1]
    for node in range(levels[level], levels[level + 1]):
        for e in range(num_entered):
            examined[depth, place * num_entered + e] += mass[node, e]


@uncounted
def _note_visits(tree, children, mass, level, place, expected, visits):  # type: ignore[no-untyped-def]
    levels, _, _, num_children = tree
    first_child, columns = children
    num_entered = mass.shape[1]
    num_columns = expected.shape[1] // num_entered
    for node in range(levels[level], levels[level + 1]):
        for child in range(first_child[node], first_child[node] + num_children[node]):
            column = columns[child]
            for e in range(num_entered):
                visits[child] += mass[node, e] * expected[place, column]
                column += num_columns
