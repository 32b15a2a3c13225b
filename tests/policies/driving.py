"""Policies driven without any model: drawn values and features come from a table of texts.

A node is named by its path of ranks from the root, so that what is drawn below it does not depend
on when it is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np

from planner.policies import FEATURES, Policy

Path = tuple[int, ...]
Drawn = Callable[[Path], np.ndarray]
"""Path of a node to float64 [K], the drawn values of its candidates."""


@dataclass
class Grown:
    """One step's tree."""

    paths: list[Path] = field(default_factory=lambda: [()])
    """Paths by node number."""
    passes: list[list[Path]] = field(default_factory=list)
    """Nodes expanded by each draft pass."""

    @property
    def revealed(self) -> list[Path]:
        """Paths in the order of the decisions."""
        return self.paths[1:]

    @property
    def parents(self) -> list[int]:
        number = {path: node for node, path in enumerate(self.paths)}
        return [-1, *(number[path[:-1]] for path in self.revealed)]


def grown(
    policy: Policy,
    drawn: Drawn,
    *,
    max_depth: int = 99,
    features: Callable[[Path], np.ndarray] | None = None,
) -> Grown:
    """The tree that `policy` grows in a step, every promise of the protocol checked on the way."""
    tree = Grown()
    num_children = [0]
    expanded: set[int] = set()
    policy.start(max_depth)
    while requests := list(policy.grow()):
        new = list(dict.fromkeys(node for node, _ in requests if node not in expanded))
        before = set(expanded)
        for node, count in requests:
            most = policy.num_candidates or count + num_children[node]
            assert 0 <= count <= most - num_children[node]
            assert count > 0 or node in new, "a request that asks for nothing"
            if node in new and node > 0:
                assert tree.paths.index(tree.paths[node][:-1]) in before
            for _ in range(count):
                tree.paths.append((*tree.paths[node], num_children[node]))
                num_children[node] += 1
                num_children.append(0)
        expanded |= set(new)
        if new:
            paths = [tree.paths[node] for node in new]
            tree.passes.append(paths)
            values = np.array([drawn(path) for path in paths])
            shown = [np.full(len(FEATURES), np.nan) if features is None else features(path)
                     for path in paths]  # fmt: skip
            policy.expanded(new, values, np.array(shown))
    assert len(tree.paths) <= policy.num_nodes
    assert max(map(len, tree.paths)) <= max_depth
    return tree


def of_text(seed: int, num_children: int, *, sharpness: float = 0.3) -> Drawn:
    """Drawn values of draws without replacement from a random q of its own for every node."""

    def drawn(path: Path) -> np.ndarray:
        digest = sha256(repr((seed, path)).encode()).digest()
        rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
        q = rng.dirichlet(np.full(3 * num_children, sharpness))
        order = rng.choice(
            len(q), size=num_children, replace=False, p=(q + 1e-9) / (q + 1e-9).sum()
        )
        mass = q[order]
        return np.minimum(1.0, mass / (1 - (mass.cumsum() - mass)))

    return drawn


def same_everywhere(*values: float) -> Drawn:
    """A draft that does not look at the text, and draws the same tokens in the same order."""
    return lambda path: np.array(values)
