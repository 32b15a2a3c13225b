"""Small profiles for tests of what is printed."""

from __future__ import annotations

import numpy as np

from tests.optimizer import factory

SMALL = {"counts": (1, 2, 3, 4, 6, 8)}


def vectors(seed, mean, num_prompts=6):
    rng = np.random.default_rng(seed)
    return [np.clip(rng.normal(mean, 0.03), 0, 1).tolist() for _ in range(num_prompts)]


def two_verifiers(**costs):
    """rrsw a little better than naive on the same prompts; no traces."""
    entries = [
        factory.positional(vectors(0, [0.6, 0.15, 0.05])),
        factory.positional(vectors(0, [0.5, 0.15, 0.05]), verifier="naive"),
    ]
    return factory.profile(entries, [factory.costs(**(SMALL | {"spread": 0.1} | costs))])
