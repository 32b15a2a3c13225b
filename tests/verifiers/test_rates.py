"""A verifier's acceptance at one node by enumeration is what the optimizer computes for it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from planner.optimizer import acceptance_rates
from planner.verifiers import VERIFIERS
from tests.runtime.exact_source import law

EXACT = 1e-10


def enumerated(name: str, p: np.ndarray, q: np.ndarray, num_children: int) -> np.ndarray:
    verifier, rows = VERIFIERS[name], (torch.tensor(p), torch.tensor(q))

    def rank(rng) -> int:
        return verifier.verify(*rows, verifier.sample(rows[1], num_children, rng), rng)[0]

    ranks = law(rank)
    return np.array([ranks.get(rank, 0.0) for rank in range(num_children)])


@pytest.mark.parametrize("num_children", [1, 2, 3])
@pytest.mark.parametrize("name", VERIFIERS)
def test_acceptance_by_rank_is_what_the_verifier_does(name, num_children):
    if num_children > (VERIFIERS[name].max_children or 3):
        pytest.skip(f"serves {VERIFIERS[name].max_children} children at most")
    rng = np.random.default_rng(num_children)
    for size in (3, 4, 5):
        for concentration in (0.3, 1.0, 5.0):
            p, q = rng.dirichlet(np.full(size, concentration), 2)
            rates = acceptance_rates(p, q, name, num_children)
            assert enumerated(name, p, q, num_children) == pytest.approx(rates, abs=EXACT)
