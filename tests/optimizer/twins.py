"""Slow, obvious versions of what the optimizer computes: plain Python, straight from the words."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import numpy as np

from planner import Tree


def all_trees(num_nodes: int) -> list[Tree]:
    """Every ordered tree of `num_nodes` nodes (there are Catalan(num_nodes - 1))."""
    return [_from_shape(shape) for shape in _forests(num_nodes - 1)]


def catalan(n: int) -> int:
    numbers = [1]
    for size in range(n):
        numbers.append(sum(numbers[i] * numbers[size - i] for i in range(size + 1)))
    return numbers[n]


def product_sum(tree: Tree, acceptance) -> float:
    """Expected tokens: for each node the product along its path."""
    total = 0.0
    for node in range(len(tree)):
        reach = 1.0
        while node:
            reach *= acceptance[tree.ranks[node]]
            node = int(tree.parents[node])
        total += reach
    return total


def best_by_recursion(acceptance, num_nodes: int, depth: int) -> float:
    """Expected tokens of the best tree of exactly `num_nodes`, at most `depth` levels."""

    @cache
    def best(size: int, levels: int) -> float:
        return forest(size - 1, levels, 0, 1.0)

    @cache
    def forest(size: int, levels: int, rank: int, so_far: float) -> float:
        if size == 0:
            return so_far
        if rank == len(acceptance) or levels == 0:
            return -np.inf
        options = [-np.inf]
        for first in range(1, size + 1):
            child = best(first, levels - 1)
            if child > -np.inf:
                rest = forest(size - first, levels, rank + 1, 0.0)
                options.append(so_far + acceptance[rank] * child + rest)
        return max(options)

    return best(num_nodes, depth)


def rounds_by_dictionary(
    tree: Tree, emitted, examined=None, *, by_node: bool = False
) -> tuple[float, dict[int, float]]:
    """Expected rounds over one text, and visits by node: the renewal recursion in dictionaries.

    emitted  [N, rank], or [N, parent, rank] if `by_node`
    """
    starts: dict[int, float] = defaultdict(float, {0: 1.0})
    visits: dict[int, float] = defaultdict(float)
    rounds = 0.0
    for t in range(len(emitted)):
        rounds += starts[t]
        mass = {0: starts[t]}
        for node in range(len(tree)):
            place = t + int(tree.depths[node])
            if place >= len(emitted):
                continue
            visits[node] += mass[node]
            rest = mass[node]
            rates = emitted[place][node] if by_node else emitted[place]
            for rank, child in enumerate(tree.children[node]):
                mass[child] = mass[node] * float(rates[rank])
                rest -= mass[child]
            starts[place + 1] += rest
            if examined is not None and tree.children[node]:
                examined[place] = examined.get(place, 0.0) + mass[node]
    return rounds, visits


def _forests(size: int):
    if size == 0:
        return [()]
    return [
        (first, *rest)
        for of_first in range(size)
        for first in _forests(of_first)
        for rest in _forests(size - 1 - of_first)
    ]


def _from_shape(shape) -> Tree:
    parents, queue = [-1], [shape]
    for node, children in enumerate(queue):
        for child in children:
            parents.append(node)
            queue.append(child)
    return Tree(parents)
