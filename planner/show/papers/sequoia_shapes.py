"""Sequoia's figures on shapes of trees: the best tree beside chains and full trees."""

from __future__ import annotations

import numpy as np

from ...documents.sampling import Sampling
from ...export.tree_words import chains
from .ground import Ground, matched
from .row import RowNumber, RowResult, Spot
from .sequoia_claims import shapes

_EXACT = 1e-9
_GROWN = (4, 8, 16, 32, 64, 128, 256, 512)
"""Sizes of trees."""


def best_over_shapes(ground: Ground) -> RowResult:
    numbers, against = [], []
    for sampling in ground.samplings:
        tokens = _by_shape(ground, sampling)
        last = {shape: values[-1] for shape, values in tokens.items()}
        numbers += [
            RowNumber(
                shape,
                value,
                None,
                f"{sampling}, 512 nodes",
                spot=Spot(shape, under=f"{sampling}, 512 nodes"),
            )
            for shape, value in last.items()
        ]
        best = tokens.pop("best tree")
        against += [
            f"{sampling}, {_GROWN[place]} nodes ({shape})"
            for shape, other in tokens.items()
            for place in np.flatnonzero(best < other - _EXACT)
        ]
    note = f"not at {', '.join(against)}" if against else ""
    return RowResult.of(ground.source(), numbers, not against, note)


def growth_by_size(ground: Ground) -> RowResult:
    """Tokens that eight times the nodes add, and how straight the best tree's line over log n is.

    The last eightfold, not the last doubling: full trees leap whenever a level is full.
    """
    numbers, holds = [], True
    for sampling in ground.samplings:
        where = f"{sampling}, from 64 nodes to 512"
        found = _by_shape(ground, sampling)
        gains = {shape: each[-1] - each[_GROWN.index(64)] for shape, each in found.items()}
        numbers += [RowNumber(f"{shape} gains", gain, None, where) for shape, gain in gains.items()]
        numbers += [
            RowNumber(
                shape,
                tokens,
                None,
                f"{sampling}, {size} nodes",
                shown=False,
                spot=Spot(shape, size, str(sampling)),
            )
            for shape, each in found.items()
            for size, tokens in zip(_GROWN, each, strict=True)
        ]
        best = found["best tree"]
        straight = float(np.corrcoef(np.log(_GROWN), best)[0, 1] ** 2)
        numbers.append(RowNumber("R2 of the best tree's line over log n", straight, None, where))
        own = gains.pop("best tree")
        holds &= straight >= 0.95 and own > max(gains.values())
    return RowResult.of(ground.source(), numbers, holds)


def best_over_chains(ground: Ground) -> RowResult:
    """The best tree over 16 chains, 32 tokens long, of as many nodes."""
    numbers, holds = [], True
    for sampling in ground.samplings:
        many = min(16, len(ground.acceptance("rrsw", sampling)))
        given = chains(many, 512 // many)
        best = ground.best(given.num_nodes, "rrsw", sampling)
        gain = ground.tokens(best, "rrsw", sampling) / ground.tokens(given, "rrsw", sampling)
        beside = 33.0 if matched(sampling, 0.6) else None
        numbers.append(
            RowNumber(
                "more tokens",
                100 * (gain - 1),
                beside,
                str(sampling),
                unit="%",
                spot=Spot(str(sampling)),
            )
        )
        holds &= gain > 1
    return RowResult.of(ground.source(), numbers, holds, "printed: at most")


def _by_shape(ground: Ground, sampling: Sampling) -> dict[str, np.ndarray]:
    """Tokens per step by shape, at each of `_GROWN`."""
    vector = ground.acceptance("rrsw", sampling)
    return {
        shape: np.array([ground.tokens(tree, "rrsw", sampling) for tree in trees])
        for shape, trees in shapes(vector, _GROWN).items()
    }
