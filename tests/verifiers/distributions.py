"""Pairs of target and draft distributions of every awkward kind, and what follows by hand."""

from __future__ import annotations

import itertools

import numpy as np


def rrsw_by_enumeration(p, q, num_children: int) -> np.ndarray:
    """Acceptance by rank of recursive rejection without replacement: every draw, every outcome."""
    rates = np.zeros(num_children)

    def follow(rank: int, weight: float, target, draft, tried: frozenset[int]) -> None:
        if rank == num_children or weight == 0:
            return
        for x in range(len(target)):
            if x in tried or draft[x] == 0:
                continue
            accept = min(1.0, target[x] / draft[x])
            rates[rank] += weight * draft[x] * accept
            rejected = weight * draft[x] * (1 - accept)
            if rejected == 0:
                continue
            left = [max(a - b, 0.0) for a, b in zip(target, draft, strict=True)]
            rest = [0.0 if y == x else draft[y] for y in range(len(draft))]
            gone = tried | {x}
            if sum(rest) == 0:
                rest = [0.0 if y in gone else 1.0 for y in range(len(draft))]
            if sum(left) == 0 or sum(rest) == 0:
                continue
            follow(
                rank + 1,
                rejected,
                [y / sum(left) for y in left],
                [y / sum(rest) for y in rest],
                gone,
            )

    follow(0, 1.0, list(p), list(q), frozenset())
    return rates


def pairs(vocabulary=5, count=6, seed=0):
    """Random (p, q), and all that is special: equal, one-hot, even, disjoint, with zeros."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(vocabulary, 0.6), size=count)
    q = rng.dirichlet(np.full(vocabulary, 0.6), size=count)
    hot = np.eye(vocabulary)
    even = np.full(vocabulary, 1 / vocabulary)
    half = np.zeros(vocabulary)
    half[:2] = 0.5
    special = [
        (p[0], p[0]),
        (hot[0], hot[0]),
        (hot[0], hot[1]),
        (p[0], hot[-1]),
        (hot[-1], q[0]),
        (even, half),
        (half, even),
        (half[::-1], half),
        (even, even),
    ]
    return [*zip(p, q, strict=True), *special]


def family(name: str, vocabulary: int, rng: np.random.Generator):
    """One (p, q) of a kind."""
    flat = rng.dirichlet(np.full(vocabulary, 10.0), 2)
    some = rng.dirichlet(np.full(vocabulary, 0.6), 2)
    if name == "peaked":
        return tuple(rng.dirichlet(np.full(vocabulary, 0.1), 2))
    if name == "flat":
        return tuple(flat)
    if name == "alike":
        logits, noise = rng.normal(size=(2, vocabulary)) / rng.choice([0.1, 0.5, 1.0])
        weights = np.exp([logits, 0.7 * logits + 0.3 * noise])
        return tuple(weights / weights.sum(axis=1, keepdims=True))
    if name == "disjoint":
        cut = int(rng.integers(1, vocabulary))
        here = np.arange(vocabulary) < cut
        return norm(some[0] * here), norm(some[1] * ~here)
    if name == "zeros":
        return tuple(norm(row * (rng.random(vocabulary) < 0.6)) for row in some)
    if name == "equal":
        return some[0], some[0]
    if name == "levels":  # many tokens of exactly the same ratio, with and without the same p
        return tuple(norm(row) for row in rng.choice([0.0, 1.0, 2.0, 4.0], (2, vocabulary)))
    hot = np.eye(vocabulary)[rng.integers(vocabulary, size=2)]
    return [(some[0], hot[1]), (hot[0], some[1]), (hot[0], hot[1])][rng.integers(3)]


FAMILIES = ["peaked", "flat", "alike", "disjoint", "zeros", "equal", "one-hot", "levels"]


def norm(weights):
    """`weights` as a distribution; all on the last token if there are none."""
    last = np.arange(len(weights)) == len(weights) - 1
    return weights / weights.sum() if weights.sum() > 0 else last.astype(float)


def law_of_children(q, num_children: int, replacement: bool) -> dict[tuple[int, ...], float]:
    """P(children drawn in this order); evenly over what is left where q runs out of tokens."""
    law = {}
    for drawn in itertools.product(range(len(q)), repeat=num_children):
        weight = 1.0
        for place, x in enumerate(drawn):
            if replacement:
                weight *= q[x]
                continue
            left = [0.0 if y in drawn[:place] else q[y] for y in range(len(q))]
            if sum(left) == 0:
                left = [0.0 if y in drawn[:place] else 1.0 for y in range(len(q))]
            weight *= left[x] / sum(left)
        if weight > 0:
            law[drawn] = weight
    return law


def random_pair(rng: np.random.Generator, size: int, flavour: str) -> tuple[np.ndarray, np.ndarray]:
    p, q = rng.dirichlet(np.full(size, 0.7), size=2)
    if flavour == "zeros":
        p[rng.integers(size)] = 0
        q[rng.integers(size)] = 0
    elif flavour == "one-hot draft":
        q = np.eye(size)[rng.integers(size)]
    elif flavour == "equal":
        q = p
    elif flavour == "disjoint":
        half = np.arange(size) < size // 2
        p, q = np.where(half, p, 0), np.where(half, 0, q)
    return p / p.sum(), q / q.sum()


FLAVOURS = ("dense", "zeros", "one-hot draft", "equal", "disjoint")
