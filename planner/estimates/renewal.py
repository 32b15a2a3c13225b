"""Rounds of one tree along recorded texts, compiled: the renewal recursion of `evidence`.

Only nodes that have children are followed.  What a node hands on to all of its children together is
its mass times one number, which is looked up: a child without children needs none of its own.

What becomes of a round does not depend on how many start where it does.  So one round from every
place of a text is followed first, node by node and all places in one loop, which processors do many
at a time; how many start at each place is worked out from that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiling import compiled
from ..documents.tree import Tree
from ..policies.compiled.uncounted import uncounted


class TextTables(NamedTuple):
    """Recorded texts, one after the other: N positions, and at each of them C columns and F sums of
    columns for each of E acceptances with which a node may be entered (see `Traces`)."""

    num_entered: int
    """E"""
    emitted: np.ndarray
    """float64 [E C, N]"""
    expected: np.ndarray
    """float64 [E C, N]"""
    places: np.ndarray
    """float64 [E C, N]: where among the E the child is entered, between two of them at a fraction;
    empty where E is 1"""
    all_emitted: np.ndarray
    """float64 [E F, N]: of all children of a node that has one, of one that has two, and so on"""
    all_expected: np.ndarray
    """float64 [E F, N]: likewise"""
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


@compiled(nogil=True)
def fill_passage(texts, families, passage):  # type: ignore[no-untyped-def]
    """Renewal recursion over every prompt's text; fills the arrays of `passage`."""
    longest = 0
    for prompt in range(len(passage.rounds)):
        longest = max(longest, texts.starts[prompt + 1] - texts.starts[prompt])
    mass = np.empty((len(families.nodes), texts.num_entered, longest))
    passed = np.empty((len(families.levels), longest))
    tokens, begins = np.empty(longest), np.empty(longest + 1)
    for prompt in range(len(passage.rounds)):
        text = texts.starts[prompt], texts.starts[prompt + 1]
        length = text[1] - text[0]
        _follow(texts, families, mass, (passed, tokens), text)
        begins[0] = 1.0
        begins[1 : length + 1] = 0.0
        for place in range(length):
            begun = here = begins[place]
            for level in range(min(len(passed), length - place)):
                below = begun * passed[level, place]
                begins[place + level + 1] += max(here - below, 0.0)
                here = below
            passage.tokens[prompt] += begun * tokens[place]
            passage.rounds[prompt] += begun
        if len(passage.examined) > 0 or len(passage.visits) > 0:
            _note(texts, families, passage, (mass, begins), text)
    if len(passage.visits) > 0:
        passage.visits[0] = passage.rounds.sum()


@uncounted
def _follow(texts, families, mass, found, text):  # type: ignore[no-untyped-def]
    """Follow a round that starts at each place of a text, all of them together.

    found  float64 [depth + 1, N], the chance that it comes by a level of the tree and goes on, and
           float64 [N], its expected tokens; both are written
    """
    (passed, tokens), (start, end) = found, text
    length, num_families = end - start, len(texts.all_emitted) // texts.num_entered
    for t in range(length):
        tokens[t] = 1.0  # the root
        for level in range(len(passed)):
            passed[level, t] = 0.0
    for level in range(len(passed) - 1):
        for node in range(families.levels[level], families.levels[level + 1]):
            _fill_mass(texts, families, mass, (node, level), text)
            column = families.num_children[node] - 1
            for e in range(texts.num_entered):
                for t in range(length - level - 1):
                    here = mass[node, e, t]
                    passed[level, t] += here * texts.all_emitted[column, start + level + t]
                    tokens[t] += here * texts.all_expected[column, start + level + t]
                column += num_families


@uncounted
def _fill_mass(texts, families, mass, where, text):  # type: ignore[no-untyped-def]
    """The mass of a family in the rounds from each place, from that of the one above: what enters
    between two acceptances is shared out to both."""
    (node, level), (start, end) = where, text
    num_places, num_entered = end - start - level, texts.num_entered
    for e in range(num_entered):
        for t in range(num_places):
            mass[node, e, t] = 1.0 if level == 0 and e == num_entered - 1 else 0.0
    if level == 0:
        return
    above, column = families.above[node], families.columns[families.nodes[node]]
    if num_entered == 1:
        for t in range(num_places):
            mass[node, 0, t] = mass[above, 0, t] * texts.emitted[column, start + level - 1 + t]
        return
    for e in range(num_entered):
        for t in range(num_places):
            place = start + level - 1 + t
            handed = mass[above, e, t] * texts.emitted[column, place]
            if handed > 0.0:
                entry = texts.places[column, place]
                lower = int(entry)
                mass[node, lower, t] += handed * (1.0 - (entry - lower))
                if entry > lower:
                    mass[node, lower + 1, t] += handed * (entry - lower)
        column += len(texts.emitted) // num_entered


@uncounted
def _note(texts, families, passage, scratch, text):  # type: ignore[no-untyped-def]
    """Add to `examined` and `visits` what is asked for."""
    (mass, begins), (start, end) = scratch, text
    num_columns = len(texts.expected) // texts.num_entered
    for level in range(len(families.levels) - 1):
        depth = min(level, len(passage.examined) - 1)
        for node in range(families.levels[level], families.levels[level + 1]):
            first = families.first_child[node]
            for e in range(texts.num_entered):
                for place in range(start + level, end):
                    here = mass[node, e, place - start - level] * begins[place - start - level]
                    if depth >= 0:
                        passage.examined[depth, place * texts.num_entered + e] += here
                    if len(passage.visits) > 0 and place + 1 < end:
                        for child in range(first, first + families.num_children[node]):
                            column = families.columns[child] + e * num_columns
                            passage.visits[child] += here * texts.expected[column, place]
