"""The walk that accepts and rejects, interpreted, against the plain loop."""

from __future__ import annotations

from itertools import pairwise, product
from unittest.mock import patch

import numpy as np
import pytest
import torch

import tree_kernels
from tests.kernels.verified_trees import Drafted, drafted, path_of, with_children_from
from tree_kernels import launches, verified

from .guarded import guarded_allocations

SIZES = [(1, 5), (9, 3), (12, 40), (25, 33), (14, 130)]


MANY = pytest.mark.parametrize("chosen", ["some", pytest.param("all", marks=pytest.mark.soak)])
"""`some_of` the trees; all of them in `make soak`."""


def some_of(trees: list[Drafted], method: str) -> list[Drafted]:
    """At least three, and for every length that a walk down one of these has a first one."""
    lengths = [len(plain(given, method)[0]) for given in trees]
    order = sorted(range(len(trees)), key=lambda place: lengths[place] in lengths[:place])
    return [trees[place] for place in order[: max(3, len(set(lengths)))]]


def kernels(given: Drafted, method: str):
    with guarded_allocations():
        return path_of(tree_kernels.verify_walk(*given, method, backend="triton"))


def plain(given: Drafted, method: str):
    return path_of(verified.verify_walk(*given, method))


@MANY
@pytest.mark.parametrize("method", verified.METHODS)
@pytest.mark.parametrize(("num_nodes", "num_tokens"), SIZES)
def test_every_decision_is_the_plain_loops(method, num_nodes, num_tokens, chosen):
    """Blocks of 64 tokens, so that a vocabulary is several; float64, that no coin is near."""
    sizes = (num_nodes, num_tokens)
    trees = [drafted(seed, *sizes, method=method, dtype=torch.float64) for seed in range(6)]
    lengths = set()
    with patch.object(launches, "VERIFYING", dict.fromkeys(verified.METHODS, 64)):
        for given in trees if chosen == "all" else some_of(trees, method):
            found = kernels(given, method)
            assert found == plain(given, method)
            lengths.add(len(found[0]))
    assert num_nodes == 1 or method == "sampled" or len(lengths) > 1


@pytest.mark.parametrize("method", verified.METHODS)
def test_float32_is_served(method):
    given = drafted(3, 20, 50, method=method, dtype=torch.float32)
    assert kernels(given, method) == plain(given, method)


def at_the_edge(seed: int, method: str, draft: str) -> Drafted:
    given = drafted(seed, 9, 12, method=method, dtype=torch.float64)
    p = given.target_probs + 0.05 * (draft == "on one token")
    if draft == "the target's":
        given.draft_probs.copy_(p)
    elif draft == "on one token":
        q = torch.nn.functional.one_hot(given.draft_probs.argmax(-1), 12).double()
        given.draft_probs.copy_(q)
    else:
        p[given.draft_probs > 0] = 0
        p[:, 4] += 1e-3
    given = given._replace(target_probs=p)
    return with_children_from(given.draft_probs, given, method, seed)


@MANY
@pytest.mark.parametrize("method", verified.METHODS)
@pytest.mark.parametrize("draft", ["the target's", "on one token", "off the target"])
def test_distributions_at_the_edge(method, draft, chosen):
    """Equal ones, a draft without a choice, and one that is never right."""
    trees = [at_the_edge(seed, method, draft) for seed in range(12)]
    lengths = set()
    for given in trees if chosen == "all" else some_of(trees, method):
        found = kernels(given, method)
        assert found == plain(given, method)
        lengths.add(len(found[0]))
    assert len(lengths) > 1 or draft == "off the target"


@pytest.mark.parametrize("method", ["distinct", "paired", "paths"])
def test_more_children_than_the_draft_has_tokens(method):
    """Different tokens: the last are drawn evenly, and judged so.  Of the coins that lead to the
    same end, most of which are not looked at, the first and the last are judged by the kernel."""
    p = torch.tensor([[0.1, 0.2, 0.3, 0.4]]).double().expand(5, 4).contiguous()
    q = torch.tensor([[0.5, 0.5, 0.0, 0.0]]).double().expand(5, 4).contiguous()
    starts = torch.tensor([0, 4, 4, 4, 4, 4], dtype=torch.int32)
    family = torch.tensor([1, 2, 3, 4], dtype=torch.int32)
    rows, tokens = torch.zeros(5, dtype=torch.int32), torch.tensor([0, 1, 0, 3, 2])
    tree = tree_kernels.VerifiedTree(rows, starts, family, tokens)
    ends: dict[str, list[Drafted]] = {}
    for coins in product((0.1, 0.9), (0.1, 0.9), (0.1, 0.9), (0.1, 0.9), (0.0, 0.2, 0.6, 0.999)):
        given = Drafted(p, q, tree, torch.tensor(coins).double())
        ends.setdefault(str(plain(given, method)), []).append(given)
    assert len(ends) > 3
    for end, alike in ends.items():
        assert {str(kernels(given, method)) for given in (alike[0], alike[-1])} == {end}


@pytest.mark.parametrize("method", ["distinct", "paired", "paths"])
def test_a_draft_whose_rest_is_below_the_normal_numbers(method):
    """The share that the second child takes is no float32, and is taken whole."""
    p = torch.tensor([[0.0, 0.4, 0.3, 0.3]]).expand(4, 4).contiguous()
    q = torch.tensor([[1.0, 1e-42, 2e-43, 0.0]]).expand(4, 4).contiguous()
    starts = torch.tensor([0, 3, 3, 3, 3], dtype=torch.int32)
    rows, family = torch.zeros(4, dtype=torch.int32), torch.tensor([1, 2, 3], dtype=torch.int32)
    ends = set()
    for second, tokens in product((1, 2), ((0.3, 0.5), (0.3, 0.9), (0.9, 0.2), (0.9, 0.9))):
        drawn = torch.tensor([0, 0, second, 3 - second])
        tree = tree_kernels.VerifiedTree(rows, starts, family, drawn)
        given = Drafted(p, q, tree, torch.tensor([0.95, 0.95, *tokens]).double())
        assert kernels(given, method) == plain(given, method)
        ends.add(str(plain(given, method)))
    assert len(ends) > 1


@pytest.mark.parametrize("method", [each for each in verified.METHODS if each != "hub"])
def test_a_token_without_a_chance_never_comes(method):
    """The target and the draft are equal up to rounding, and the draft's other tokens were drawn:
    two at once, so not for pairs with its likeliest."""
    p = torch.tensor([[1.0, 0.0, 0.0]]).expand(3, 3).contiguous()
    q = torch.tensor([[1.0, 1e-8, 1e-9]]).expand(3, 3).contiguous()
    starts = torch.tensor([0, 2, 2, 2], dtype=torch.int32)
    rows, family = torch.zeros(3, dtype=torch.int32), torch.tensor([1, 2], dtype=torch.int32)
    tree = tree_kernels.VerifiedTree(rows, starts, family, torch.tensor([0, 1, 2]))
    given = Drafted(p, q, tree, torch.tensor([0.5, 0.5, 0.5]).double())
    assert kernels(given, method) == plain(given, method)
    assert plain(given, method)[:2] == ([], [0])


ROWS = {
    "on one token": ([0.3, 0.1, 0.4, 0.2], [1.0, 0.0, 0.0, 0.0]),
    "on two": ([0.1, 0.2, 0.5, 0.2], [0.7, 0.3, 0.0, 0.0]),
}


@pytest.mark.parametrize("method", verified.METHODS)
@pytest.mark.parametrize("row", ROWS)
def test_ends_change_at_the_plain_loops_coins(method, row):
    """Two children of the root: wherever the end changes as one coin rises, and close to there."""
    p, q = (torch.tensor([each] * 3).double() for each in ROWS[row])
    starts = torch.tensor([0, 2, 2, 2], dtype=torch.int32)
    rows, family = torch.arange(3, dtype=torch.int32), torch.tensor([1, 2], dtype=torch.int32)
    changes = 0
    tree = tree_kernels.VerifiedTree(rows, starts, family, torch.tensor([0, 0, 1]))
    for coin, others in product(range(3), (0.05, 0.6)):

        def end(value, coin=coin, others=others, judged=plain):
            uniforms = torch.full((3,), others).double()
            uniforms[coin] = value
            return judged(Drafted(p, q, tree, uniforms), method)

        ticks = np.linspace(0.001, 0.999, 20)
        for low, high in pairwise(ticks):
            if end(low) != end(high):
                while high - low > 1e-3:
                    middle = (low + high) / 2
                    low, high = (middle, high) if end(middle) == end(low) else (low, middle)
                assert [end(each, judged=kernels) for each in (low, high)] == [end(low), end(high)]
                changes += 1
    assert changes > 2


@pytest.mark.parametrize("side", [-1, 0, 1])
def test_coins_beside_the_threshold(side):
    """One child: accepted below R / D, and neither at it nor above."""
    for seed in range(20):
        given = drafted(seed, 2, 6, method="independent", dtype=torch.float64)
        token = int(given.tree.tokens[1])
        masses = given.target_probs[0].sum(), given.draft_probs[0].sum()
        ratio = given.target_probs[0, token] * masses[1] / (given.draft_probs[0, token] * masses[0])
        if ratio < 1:
            uniforms = torch.stack([ratio + side * 1e-12, ratio * 0])
            found = kernels(given._replace(uniforms=uniforms), "independent")
            assert side == 0 or found[0] == ([1] if side < 0 else [])


@pytest.mark.parametrize("method", verified.METHODS)
def test_what_is_no_number_is_said(method):
    given = drafted(1, 6, 7, method=method, dtype=torch.float32)
    given.target_probs[0, 2] = torch.nan
    assert kernels(given, method) == plain(given, method)
    assert kernels(given, method)[2] == verified.NO_NUMBERS


def test_a_token_that_the_target_cannot_say_is_never_drawn():
    """By the largest coin there is, with zeros at the vocabulary's end."""
    p = torch.tensor([[0.3, 0.0, 0.7, 0.0, 0.0]])
    tree = tree_kernels.VerifiedTree(
        torch.zeros(1, dtype=torch.int32),
        torch.zeros(2, dtype=torch.int32),
        torch.zeros(0, dtype=torch.int32),
        torch.zeros(1, dtype=torch.int64),
    )
    for coin, token in ((0.0, 0), (0.299, 0), (0.301, 2), (1 - 2**-53, 2)):
        given = Drafted(p, p, tree, torch.tensor([coin]).double())
        assert kernels(given, "sampled") == ([], [token], verified.ENDS)
