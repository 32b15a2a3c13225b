"""The trees that are timed: what verification costs by n, what a draft pass costs by width."""

from __future__ import annotations

import heapq

from planner.documents.tree import Tree

TYPICAL_ACCEPTANCE = [0.6 * 0.45**rank for rank in range(8)]
"""A power-law-like shape; only used to time trees that look like those that will be chosen."""


def grid(largest: int, every: int = 1) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, ... up to `largest`, which is always included: half steps of two.

    every  up to here no count is left out
    """
    counts = {largest, *range(1, min(every, largest) + 1)}
    power = 2
    while power <= largest:
        counts |= {power, min(power + power // 2, largest)}
        power *= 2
    return sorted(counts)


def typical_tree(num_nodes: int, max_children: int = len(TYPICAL_ACCEPTANCE)) -> Tree:
    """The best tree of `num_nodes` nodes for a typical acceptance vector, by best-first search."""
    most = min(max_children, len(TYPICAL_ACCEPTANCE))
    paths: list[tuple[int, ...]] = [()]
    slots: list[tuple[float, tuple[int, ...]]] = [(-TYPICAL_ACCEPTANCE[0], (0,))]
    while len(paths) < num_nodes:
        value, path = heapq.heappop(slots)
        paths.append(path)
        heapq.heappush(slots, (value * TYPICAL_ACCEPTANCE[0], (*path, 0)))
        if path[-1] + 1 < most:
            ratio = TYPICAL_ACCEPTANCE[path[-1] + 1] / TYPICAL_ACCEPTANCE[path[-1]]
            heapq.heappush(slots, (value * ratio, (*path[:-1], path[-1] + 1)))
    paths.sort(key=lambda path: (len(path), path))
    index = {path: node for node, path in enumerate(paths)}
    return Tree([-1, *(index[path[:-1]] for path in paths[1:])])


def broom(width: int) -> Tree:
    """`width` chains of three below the root: its second and third draft pass have that width."""
    return Tree([-1] + [0] * width + list(range(1, 2 * width + 1)))


def bush(width: int, max_children: int) -> Tree:
    """The same where a node has at most so many children: levels as wide as that allows, up to
    `width`, and two more draft passes of that width."""
    parents, level = [-1], [0]
    for wide in (*_widening(width, max_children), width, width):
        first = len(parents)
        parents += [level[place * len(level) // wide] for place in range(wide)]
        level = list(range(first, first + wide))
    return Tree(parents)


def _widening(width: int, max_children: int) -> list[int]:
    """Widths of the levels below the root, each the largest possible, up to `width`."""
    widths = [min(max_children, width)]
    while widths[-1] < width:
        widths.append(min(widths[-1] * max_children, width))
    return widths
