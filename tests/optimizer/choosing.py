"""Small profiles to choose from."""

import numpy as np

from . import factory

VECTOR = [0.55, 0.05, 0.15, 0.0, 0.1]


def made(*all_costs, entries=None):
    return factory.profile(entries or [factory.positional([VECTOR, VECTOR])], all_costs)


def random_traces(seed, verifier, *, scale=1.0, temperature=0.6):
    rng = np.random.default_rng(seed)
    rows = [rng.dirichlet([1.5, 0.5, 0.2, 0.8], size=60)[:, :3] * scale for _ in range(6)]
    return factory.traced(rows, verifier=verifier, temperature=temperature)
