"""Sequoia's claims on verifiers and on shapes of trees: Theorems 3.6 and 3.7, Tables 1 and 2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...documents.tree import Tree
from ...estimates.evidence import expected_tokens
from ...trees.frontier import best_tree
from ...verifiers.rates import acceptance_rates

_SEED = 20
_EXACT = 1e-9

DEMO_ACCEPTANCE = np.array([
    423, 72, 38, 15, 13, 10, 3, 2, 8, 3, 5, 3, 4, 2, 1, 2, 1, 2, 0, 2, 2, 2, 0, 1, 0, 1, 0, 0, 0,
    1, 1, 1,
]) / 667  # fmt: skip
"""The acceptance vector that Sequoia's authors published with their code: 667 positions."""


@dataclass(frozen=True)
class Property:
    """The guarantees of one verifier: Sequoia's Theorem 3.7 and appendix C.5."""

    verifier: str
    cover: float
    """Smallest total found where the children can be all tokens that the draft ever says, among
    them all that the target says, or the whole vocabulary; the cover property says 1."""
    cover_example: float
    """The total of two children for the paper's p = [1, 0], q = [.5, .5]."""
    transport: float
    """Largest shortfall found, of one child, from 1 - |p - q| / 2; the property says 0."""
    transport_example: float
    """The rate of one child for the paper's p = q = [.6, .4]; the property says 1."""
    published: tuple[bool, bool] | None
    """(cover, transport) as proven in the paper; None: not discussed there."""

    @property
    def holds(self) -> tuple[bool, bool]:
        return self.cover >= 1 - _EXACT, self.transport <= _EXACT

    @property
    def agrees(self) -> bool:
        return self.published is None or self.published == self.holds


@dataclass(frozen=True)
class ShapeGrowth:
    """Expected tokens of one shape of tree as it grows, beside the bound of Sequoia's Table 1."""

    shape: str
    bound: float
    tokens: list[float]
    """Tokens by number of nodes, as in SIZES."""

    @property
    def agrees(self) -> bool:
        return all(value <= self.bound + _EXACT for value in self.tokens)


SIZES = (4, 16, 64, 256, 1024)


def properties(num_pairs: int = 100) -> list[Property]:
    """Theorem 3.7 put to the test, on random pairs and on the paper's counterexamples.

    Lookahead would cover if its water-filling ran to the end; it stops short by up to some 1e-3.
    """
    published = {
        "rrsw": (True, True), "rrs": (False, True), "kseq": (False, True), "topk": (True, False),
    }  # fmt: skip
    sure, even, uneven = [1.0, 0.0], [0.5, 0.5], [0.6, 0.4]
    return [
        Property(
            verifier=verifier,
            cover=_smallest_cover(verifier, num_pairs),
            cover_example=float(acceptance_rates(sure, even, verifier, 2).sum()),
            transport=_largest_shortfall(verifier, num_pairs),
            transport_example=float(acceptance_rates(uneven, uneven, verifier, 1).sum()),
            published=published.get(verifier),
        )
        for verifier in ("rrsw", "rrs", "kseq", "topk", "naive", "lookahead", "spechub")
    ]


def shapes(acceptance: np.ndarray, sizes: Sequence[int]) -> dict[str, list[Tree]]:
    """Each shape of Sequoia's Table 1 at each size; with fewer than 16 ranks, of as many children.

    acceptance  float64 [k], which the best trees are the best for
    """
    many = min(16, len(acceptance))
    parents: dict[str, Callable[[int], int]] = {
        "sequence": lambda node: node - 1,
        f"{many} sequences": lambda node: max(0, node - many),
        "binary tree": lambda node: (node - 1) // 2,
        f"{many}-ary tree": lambda node: (node - 1) // many,
    }
    grown = {
        shape: [Tree([-1, *map(parent, range(1, size))]) for size in sizes]
        for shape, parent in parents.items()
    }
    return grown | {"best tree": [best_tree(acceptance, size) for size in sizes]}


def growth(acceptance: np.ndarray) -> list[ShapeGrowth]:
    """Sequoia's Table 1: what each shape of tree can reach, and what it has at each of SIZES.

    acceptance  float64 [k], k >= 16

    With P_k = acceptance[:k].sum(), the chance that one of k children is accepted.  The best tree
    has no bound in the paper, since it may try ever more children; with k of them it has that of
    the k-ary tree.
    """
    total = np.concatenate([[0.0], np.cumsum(acceptance)])
    bounds = (
        1 / (1 - total[1]), 1 + total[16] / (1 - total[1]), 1 / (1 - total[2]), 1 / (1 - total[16]),
        1 / (1 - total[-1]),
    )  # fmt: skip
    return [
        ShapeGrowth(shape, float(bound), [expected_tokens(tree, acceptance) for tree in trees])
        for bound, (shape, trees) in zip(bounds, shapes(acceptance, SIZES).items(), strict=True)
    ]


def power_law(exponent: float = 1.0) -> np.ndarray:
    """float64 [max(SIZES)]: k children are all rejected with chance (k + 1)^-exponent."""
    rejected = np.arange(1.0, max(SIZES) + 2) ** -exponent
    return -np.diff(rejected)


def _smallest_cover(verifier: str, num_pairs: int) -> float:
    """Children as many as the draft has tokens, over those alone or among others never said."""
    rng = np.random.default_rng(_SEED)
    most = 2 if verifier == "spechub" else 4
    smallest = 1.0
    for _ in range(num_pairs):
        support = int(rng.integers(2, most + 1))
        p, q = rng.dirichlet(np.ones(support), 2)
        for others in (0, 3):
            target, draft = (np.pad(law, (0, others)) for law in (p, q))
            rates = acceptance_rates(target, draft, verifier, support)
            smallest = min(smallest, float(rates.sum()))
    return smallest


def _largest_shortfall(verifier: str, num_pairs: int) -> float:
    rng = np.random.default_rng(_SEED)
    p, q = rng.dirichlet(np.full(3, 0.5), (2, num_pairs))
    reached = acceptance_rates(p, q, verifier, 1)[:, 0]
    return float((1 - np.abs(p - q).sum(axis=-1) / 2 - reached).max())
