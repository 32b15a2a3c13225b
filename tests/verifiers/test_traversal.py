"""Verification from the leaves: the fast walk is the slow one's, and a chain's is known by name."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from planner import PlannerError, Tree
from planner.verifiers import VERIFIERS
from profiler.acceptance import traced
from tests.runtime.exact_source import law
from tests.verifiers.distributions import FLAVOURS, random_pair
from tests.verifiers.whole_trees import Drafted, FromTheLeaves

EXACT = 1e-12
SIZE = 4
TREES = {
    "lone root": [-1],
    "leaves": [-1, 0, 0],
    "chain": [-1, 0, 1, 2],
    "a branch beside a leaf": [-1, 0, 0, 1, 1],
    "as many children as tokens": [-1, 0, 0, 0, 0, 1],
}


def drawn(parents, rows, rng) -> Drafted:
    """A tree of this shape, whose tokens are drawn from `rows`, float64 [n, V]."""
    tree = Tree(parents)
    tokens = [0] * tree.num_nodes
    for node, family in enumerate(tree.children):
        if family:
            found = VERIFIERS["traversal"].sample(rows[node], len(family), rng).tolist()
            for child, token in zip(family, found, strict=True):
                tokens[child] = token
    return Drafted(tree.children, tokens, rows)


def distributions(num_nodes, flavour):
    """(p, q) of every node, float64 [n, V] each."""
    pairs = [random_pair(np.random.default_rng(node), SIZE, flavour) for node in range(num_nodes)]
    return tuple(torch.tensor(np.array(rows)) for rows in zip(*pairs, strict=True))


def law_of(verifier, parents, flavour) -> dict:
    """P(tokens drafted, path, ranks, tokens emitted)."""
    target_probs, rows = distributions(len(parents), flavour)

    def experiment(rng):
        tree = drawn(parents, rows, rng)
        walk = verifier.walk(tree, target_probs, rng)
        return tuple(tree.tokens), *(tuple(part) for part in walk)

    return law(experiment)


def distance(one: dict, other: dict) -> float:
    return max(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in one.keys() | other.keys())


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("name", TREES)
def test_the_walk_is_that_in_plain_python(name, flavour):
    one, other = (
        law_of(verifier, TREES[name], flavour)
        for verifier in (VERIFIERS["traversal"], FromTheLeaves())
    )
    assert distance(one, other) < EXACT


@pytest.mark.parametrize("where", ["p", "q", "p of a leaf"])
def test_what_is_no_number_is_refused(where):
    p, q = distributions(3, "dense")
    {"p": p[0], "q": q[0], "p of a leaf": p[1]}[where][:] = torch.nan
    tree = Drafted([[1], [], []], [0, 1, 0], q)
    p[0, 1] = 1.0 if where == "p of a leaf" else p[0, 1]  # enters the leaf for certain
    with pytest.raises(PlannerError, match="logits: got NaN or infinity"):
        VERIFIERS["traversal"].walk(tree, p, torch.Generator().manual_seed(0))


class Blocks(FromTheLeaves):
    """Block verification of a chain as it is printed (Sun et al. 2024, Algorithm 2)."""

    def walk(self, tree, target_probs, rng):
        tokens = tree.tokens[1:]
        num = len(tokens)
        p, q = target_probs, torch.stack([*tree.rows])
        weights, last = [1.0], 0
        for place, token in enumerate(tokens):
            ratio = float(p[place, token] / q[place, token])
            weights.append(min(1.0, weights[-1] * ratio))
            owed = float((weights[-1] * p[place + 1] - q[place + 1]).clamp(min=0).sum())
            chance = weights[-1] if place + 1 == num else owed / (owed + 1 - weights[-1])
            if chance > 0 and rng.accept(chance, 1.0):
                last = place + 1
        residual = p[last]
        if last < num:
            residual = (weights[last] * p[last] - q[last]).clamp(min=0)
        return [*range(1, last + 1)], [0] * last, [*tokens[:last], int(rng.categorical(residual))]


def test_a_chain_is_verified_as_a_block():
    parents = TREES["chain"]
    one, other = (law_of(each, parents, "dense") for each in (VERIFIERS["traversal"], Blocks()))
    assert distance(one, other) < EXACT


@pytest.mark.parametrize("flavour", ["dense", "zeros"])
def test_traces_know_the_acceptance_that_a_child_is_entered_with(flavour):
    """P(the second child, y, and below it its only one, z, are the path | y, z are the text) is the
    mean of  emitted min(1, q(z) / (entering p(z))):  within 5 standard errors of enumeration."""
    parents, repeats = [-1, 0, 0, 2], 4000
    p, q = distributions(len(parents), flavour)
    exact: dict = {}
    for (_, path, _, tokens), mass in law_of(VERIFIERS["traversal"], parents, flavour).items():
        if path == (2, 3):
            exact[tokens[:2]] = exact.get(tokens[:2], 0.0) + mass
    assert exact
    for (y, z), mass in exact.items():
        rows = p[0].expand(repeats, -1), q[0].expand(repeats, -1)
        emitted, rng = torch.full((repeats,), y), torch.Generator().manual_seed(y)
        found = traced([VERIFIERS["traversal"]], rows, emitted, 2, rng)["traversal"]
        carried, entering = found.emitted[:, -1].double(), found.entering[:, -1].double()
        carried *= (q[2, z] / (entering * p[2, z]).clamp(min=1e-12)).clamp(max=1)
        error = float(carried.std()) / repeats**0.5
        assert float(carried.mean()) == pytest.approx(
            mass / float(p[0, y] * p[2, z]), abs=5 * error + 1e-6
        )
