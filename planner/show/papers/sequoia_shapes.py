"""Sequoia's figures on shapes of trees, on a profile: the best tree beside chains and full trees."""

from __future__ import annotations

import numpy as np

from ...documents.sampling import Sampling
from ...export.tree_words import chains
from .ground import Ground, matched
from .row import Number, Result
from .sequoia_claims import shapes

_EXACT = 1e-9
_GROWN = (4, 8, 16, 32, 64, 128, 256, 512)
"""Sizes of trees."""


def best_over_shapes(ground: Ground) -> Result:
    numbers, holds = [], True
    for sampling in ground.samplings:
        tokens = _by_shape(ground, sampling)
        last = {shape: values[-1] for shape, values in tokens.items()}
        numbers += [
            Number(shape, value, None, f"{sampling}, 512 nodes") for shape, value in last.items()
        ]
        best = tokens.pop("best tree")
        holds &= all((best >= other - _EXACT).all() for other in tokens.values())
    return Result.of(ground.source(), numbers, holds)


def growth_by_size(ground: Ground) -> Result:
    """Tokens that the last doubling of the nodes adds, and how straight the line over log n is."""
    numbers, holds = [], True
    for sampling in ground.samplings:
        where = str(sampling)
        tokens = _by_shape(ground, sampling)
        best = tokens.pop("best tree")
        steps = np.diff(best)
        straight = np.corrcoef(np.log(_GROWN), best)[0, 1] ** 2
        others = max(np.diff(other)[-1] for other in tokens.values())
        numbers += [
            Number("a doubling of the best tree adds on average", steps.mean(), None, where),
            Number("the last one", steps[-1], None, where),
            Number("that of another shape at most", others, None, where),
            Number("R2 over log n", straight, None, where),
        ]
        holds &= straight >= 0.95 and steps[-1] >= steps.mean() / 2 and steps[-1] > 2 * others
    return Result.of(ground.source(), numbers, holds)


def best_over_chains(ground: Ground) -> Result:
    """The best tree over 16 chains, 32 tokens long, of as many nodes."""
    numbers, holds = [], True
    for sampling in ground.samplings:
        many = min(16, len(ground.acceptance("rrsw", sampling)))
        given = chains(many, 512 // many)
        best = ground.best(given.num_nodes, "rrsw", sampling)
        gain = ground.tokens(best, "rrsw", sampling) / ground.tokens(given, "rrsw", sampling)
        beside = 33.0 if matched(sampling, 0.6) else None
        numbers.append(Number("more tokens, %", 100 * (gain - 1), beside, str(sampling)))
        holds &= gain > 1
    return Result.of(ground.source(), numbers, holds, "printed: at most")


def _by_shape(ground: Ground, sampling: Sampling) -> dict[str, np.ndarray]:
    """Tokens per step by shape, at each of `_GROWN`."""
    vector = ground.acceptance("rrsw", sampling)
    return {
        shape: np.array([ground.tokens(tree, "rrsw", sampling) for tree in trees])
        for shape, trees in shapes(vector, _GROWN).items()
    }
