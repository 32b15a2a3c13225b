"""SpecHub's toys: random pairs of distributions, and the acceptance of two drafts on them.

Its Table 4, its worked example, and the two theorems on when it accepts more than others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...documents.arguments import count
from ...verifiers.rates import acceptance_rates, optimal_acceptance

_SEED = 20
_VOCABULARY = 50

METHODS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "RRS": lambda p, q: acceptance_rates(p, q, "rrs", 2).sum(axis=-1),
    "RRSw": lambda p, q: acceptance_rates(p, q, "rrsw", 2).sum(axis=-1),
    "OTM": lambda p, q: optimal_acceptance(p, q, 2, True),
    "OTMw": lambda p, q: optimal_acceptance(p, q, 2, False),
    "SpecHub": lambda p, q: acceptance_rates(p, q, "spechub", 2).sum(axis=-1),
}
"""SpecHub's names: (p, q) [..., V] -> acceptance with two drafts [...]."""

TOYS = ((0.10, 0.7), (0.10, 0.5), (0.25, 0.7), (0.25, 0.5), (0.50, 0.7), (0.50, 0.5))
"""The rows of SpecHub's Table 4: (T, lambda), lambda of the draft's logits being the target's."""

REFERENCE = np.array([
    [0.6465, 0.7546, 0.6564, 0.7755, 0.7732],
    [0.3369, 0.4352, 0.3395, 0.4420, 0.4395],
    [0.7287, 0.7646, 0.7769, 0.8284, 0.8109],
    [0.4537, 0.4957, 0.4716, 0.5223, 0.5013],
    [0.8056, 0.8116, 0.9000, 0.9115, 0.8451],
    [0.6331, 0.6423, 0.6901, 0.7040, 0.6266],
])  # fmt: skip
"""Acceptance by row and method: the mean over 10,000 other pairs than ours."""

PRINTED = np.array([
    [0.6273, 0.7120, 0.6380, 0.7345, 0.7402],
    [0.3323, 0.4057, 0.3346, 0.4125, 0.4123],
    [0.7354, 0.7653, 0.7846, 0.8321, 0.8113],
    [0.4564, 0.4978, 0.4743, 0.5245, 0.4968],
    [0.8090, 0.8122, 0.9037, 0.9150, 0.8500],
    [0.6456, 0.6593, 0.7052, 0.7206, 0.6403],
])  # fmt: skip
"""The same as printed in the paper: the mean over 100."""


@dataclass(frozen=True)
class Table4:
    """SpecHub's Table 4, computed: float64 [6, 5], by row of TOYS and by method."""

    num_pairs: int
    mean: np.ndarray
    standard_error: np.ndarray

    @property
    def from_reference(self) -> np.ndarray:
        """Off the reference mean, in standard errors of `mean`.

        The reference is a sample of 10,000 pairs as well: even at 10,000 of ours, the standard
        deviation of this number is the square root of 2.
        """
        return (self.mean - REFERENCE) / self.standard_error

    @property
    def from_printed(self) -> np.ndarray:
        """The distance of the printed mean over 100 pairs, in standard errors of such a mean."""
        return (PRINTED - self.mean) / (self.standard_error * np.sqrt(self.num_pairs / 100))

    @property
    def agrees(self) -> np.ndarray:
        """Within 3 standard errors of ours, or of a mean over 10,000 pairs if ours are more."""
        return np.abs(self.from_reference) <= 3 * np.sqrt(max(1, self.num_pairs / 10_000))


def toy_pairs(row: int, num_pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """(p, q), float64 [num_pairs, 50] each: the random pairs of one of TOYS.

    p = softmax(u / T), q = softmax((lambda u + (1 - lambda) w) / T), u and w standard normal (the
    paper says uniform, with which 29 of the 30 entries of its table are far off).
    """
    temperature, similarity = TOYS[row]
    rng = np.random.default_rng([_SEED, row])
    target, noise = rng.normal(size=(2, num_pairs, _VOCABULARY)) / temperature
    return _softmax(target), _softmax(similarity * target + (1 - similarity) * noise)


def table_4(num_pairs: int = 10_000) -> Table4:
    """SpecHub's Table 4: mean acceptance of two drafts over `toy_pairs`, all methods exact."""
    num_pairs = count(num_pairs, "num_pairs", 2)
    values = np.empty((len(TOYS), len(METHODS), num_pairs))
    for row in range(len(TOYS)):
        p, q = toy_pairs(row, num_pairs)
        values[row] = [rates(p, q) for rates in METHODS.values()]
    errors = values.std(axis=-1, ddof=1) / np.sqrt(num_pairs)
    return Table4(num_pairs, values.mean(axis=-1), errors)


def worked_example() -> dict[str, float]:
    """SpecHub's worked example: P(both drafts rejected) by method; q = [.5, .3, .2]."""
    p, q = np.array([0.1, 0.6, 0.3]), np.array([0.5, 0.3, 0.2])
    return {method: 1 - float(rates(p, q)) for method, rates in METHODS.items()}


@dataclass(frozen=True)
class Guarantee:
    """A theorem that says on which pairs SpecHub accepts at least as much as another method."""

    share: float
    """The part of all pairs that meets its condition."""
    least: float
    """The least that SpecHub accepts more on these."""


def over_rrs(num_pairs: int) -> Guarantee:
    """SpecHub's Theorem 3: at least RRS where q(a) / (1 - q(a)) > 1 - sum min(p, q), a being the
    draft's most probable token."""

    def condition(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        top = q.max(axis=-1)
        return top / (1 - top) > 1 - np.minimum(p, q).sum(axis=-1)

    return _guarantee("RRS", condition, num_pairs)


def over_transport(num_pairs: int) -> Guarantee:
    """SpecHub's Theorem 4: at least what is best for independent drafts where q(a) > 1/2."""
    return _guarantee("OTM", lambda p, q: q.max(axis=-1) > 0.5, num_pairs)


def _guarantee(
    other: str, condition: Callable[[np.ndarray, np.ndarray], np.ndarray], num_pairs: int
) -> Guarantee:
    met, more = [], []
    for row in range(len(TOYS)):
        p, q = toy_pairs(row, num_pairs)
        met.append(condition(p, q))
        if met[-1].any():
            p, q = p[met[-1]], q[met[-1]]
            more.append(METHODS["SpecHub"](p, q) - METHODS[other](p, q))
    return Guarantee(float(np.mean(met)), float(np.concatenate(more).min()))


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
