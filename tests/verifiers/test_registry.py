"""The one table of verifiers: what a row promises, and that it is light to have."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from planner import PlannerError
from planner.documents.sampling import Sampling
from planner.verifiers import GREEDY_VERIFIER, VERIFIERS, verifier_at
from planner.verifiers.verifier import source_of
from runtime import VERIFIERS as OF_RUNTIME
from runtime.randomness import TorchSource
from tests.runtime.exact_source import law
from tests.verifiers.distributions import pairs
from tests.verifiers.whole_trees import Drafted

EXACT = 1e-12
NAMES = list(VERIFIERS)


def test_there_is_one_table():
    assert OF_RUNTIME is VERIFIERS
    assert [verifier.name for verifier in VERIFIERS.values()] == NAMES


def test_the_table_imports_nothing_heavy():
    code = (
        "import sys; from planner.verifiers import VERIFIERS\n"
        "print(sorted({'numba', 'scipy', 'torch', 'cvxpy'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", NAMES)
def test_greedy_decoding_has_one_verifier(name):
    assert verifier_at(name, Sampling(temperature=0)).name == GREEDY_VERIFIER
    assert verifier_at(name, Sampling(temperature=0.6)).name == name
    assert verifier_at(VERIFIERS[name], Sampling(temperature=1)) is VERIFIERS[name]


def test_an_unknown_verifier_is_refused_with_those_there_are():
    with pytest.raises(PlannerError, match="verifier: got 'magic', expected one of chain, naive"):
        verifier_at("magic", Sampling(temperature=1))


@pytest.mark.parametrize("name", NAMES)
def test_plain_with_one_child_means_that_a_chain_is_verified_as_chain_does(name):
    """The law of (path, tokens) of a chain of two: that of `chain`, or for no pair."""

    def outcomes(verifier, p, q):
        def walked(rng):
            tree = Drafted([[1], [2], []], [0], [q, q.flip(0), None])
            for node in (0, 1):
                tree.tokens += verifier.sample(tree.draft_probs(node), 1, rng).tolist()
            walk = verifier.walk(tree, torch.stack([p, p, p]), rng)
            return tuple(walk.path), tuple(walk.tokens)

        return law(walked)

    def distance(p, q) -> float:
        one, other = outcomes(VERIFIERS[name], p, q), outcomes(VERIFIERS["chain"], p, q)
        return max(abs(one.get(key, 0) - other.get(key, 0)) for key in one.keys() | other.keys())

    worst = max(distance(*map(torch.tensor, pair)) for pair in pairs(4)[:4])
    assert (worst < EXACT) == VERIFIERS[name].plain_with_one_child


@pytest.mark.parametrize("name", NAMES)
def test_the_same_text_serves_numpy_and_torch(name):
    """Rank by rank, up to the first that follows from a path of rejections drawn by chance."""
    verifier = VERIFIERS[name]
    # which of equally probable tokens come first is each library's own
    some = pairs(7)[:6] if verifier.deterministic else pairs(7)
    p, q = (np.array(rows) for rows in zip(*some, strict=True))
    num_ranks = min(verifier.max_children or 4, 4)
    by_numpy = list(verifier.masses(p, q, num_ranks, np.random.default_rng(0)))
    tensors = torch.tensor(p), torch.tensor(q)
    by_torch = list(verifier.masses(*tensors, num_ranks, torch.Generator().manual_seed(0)))
    assert len(by_numpy) == len(by_torch)
    certain = {"rrsw": 1, "traversal": 1, "lookahead": 2}.get(name, len(by_numpy))
    for one, other in list(zip(by_numpy, by_torch, strict=True))[:certain]:
        # 2e-6: the water-filling of `lookahead` is in single precision but for its last sweep
        tolerance = 2e-6 if name == "lookahead" else EXACT
        sums = [(rank.survival * rank.mass).sum(-1) for rank in (one, other)]
        np.testing.assert_allclose(sums[0], sums[1].numpy(), rtol=0, atol=tolerance)
        if one.tokens is None:
            np.testing.assert_allclose(one.mass, other.mass.numpy(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ["rrsw", "lookahead"])
def test_paths_drawn_with_numpy_average_to_the_exact_rates(name):
    """4000 paths at one node, within 5 standard errors of the enumeration."""
    p, q = pairs(6, seed=3)[0]
    exact, _ = VERIFIERS[name].rates(p[None], q[None], 4, np.random.default_rng(0))
    rows = np.tile(p, (4000, 1)), np.tile(q, (4000, 1))
    ranks = VERIFIERS[name].masses(*rows, 4, np.random.default_rng(1))
    paths = np.concatenate([rank.survival * rank.mass.sum(-1, keepdims=True) for rank in ranks], -1)
    error = paths.std(axis=0) / np.sqrt(len(paths))
    assert (np.abs(paths.mean(axis=0) - exact[0]) <= 5 * error + 2e-6).all()


@pytest.mark.parametrize("name", [name for name in NAMES if not VERIFIERS[name].grows])
def test_trees_that_are_not_recorded_are_refused(name):
    with pytest.raises(PlannerError, match=f"verifier: got '{name}', whose trees are not recorded"):
        VERIFIERS[name].draw_given(None, None, None, 2, None)


def test_a_bare_generator_is_a_source_and_anything_else_is_refused():
    assert isinstance(source_of(torch.Generator()), TorchSource)
    with pytest.raises(PlannerError, match=r"rng: got Generator, expected a torch\.Generator"):
        source_of(np.random.default_rng())
