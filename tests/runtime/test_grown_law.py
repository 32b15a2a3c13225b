"""Trees that grow while they are drafted: the whole loop still emits the target's own law.

Every way of growing with every verifier that a plan may name with it, exactly, by enumerating all
random decisions; a few with the real source of randomness; and verifiers and policies that are
known to be biased, which both checks must see.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

import numpy as np
import pytest
import torch
from scipy.stats import chi2, ncx2

from planner import Plan
from planner.policies import POLICIES, Drafting, Policy
from runtime import VERIFIERS, TableModel, Verifier
from tests.policies.broken import DropsUnlikely, LooksAhead
from tests.policies.settings import chains, trees
from tests.runtime.exact_source import law, law_by_steps, to_the_end
from tests.runtime.test_decode_law import (
    EXACT,
    LEVEL,
    MANY_TOKENS,
    SAMPLING,
    autoregressive_law,
    chi_square,
    decoding,
    distance,
    session_of,
    table,
)
from tests.verifiers.broken_verifiers import Reranked

SEQUENCES = 1_000
MANY_STEPS = trees(5, 2, 9) | chains(9)


class ShownTable(TableModel):
    """A table whose hidden states are its logits."""

    def forward_with_hidden(self, tokens, positions, cache, visible=None, *, num_logits=None):
        logits = self.forward(tokens, positions, cache, visible, num_logits=num_logits)
        return logits, logits


def score(hidden: torch.Tensor) -> torch.Tensor:
    """A made-up head: any function of what was read will do."""
    return hidden.softmax(-1)[:, 0]


def loop_law(
    num_tokens: int,
    verifier: Verifier,
    policy: Callable[[], Policy],
    num_new: int,
    *,
    whole: bool = False,
) -> tuple[dict, dict, set]:
    """(law of the loop, law of the target, shapes of the trees) for texts of `num_new` tokens.

    policy  a new one for every text, as it has seen none yet
    whole   draft trees to the last, though not all tokens are used
    """
    decode, target, shapes = grown_decoding(num_tokens, verifier, policy, num_new, whole=whole)
    return law_by_steps(decode), autoregressive_law(target, num_new), shapes


def grown_decoding(num_tokens, verifier, policy, num_new, *, whole=False) -> tuple:
    """(`decoding` with small tables, the target, shapes of the trees, a set that it fills)."""
    target, draft = table(num_tokens, seed=0), table(num_tokens, seed=1, order=1)
    draft = ShownTable(draft._table.reshape([num_tokens] * 2))
    shapes: set = set()
    session = session_of(target, draft, verifier, score)
    session.now = ticking()
    return decoding(session, policy, num_new, whole=whole, shapes=shapes), target, shapes


def ticking() -> Callable[[], float]:
    """A clock on which 2 ms go by between two looks, so that what is measured repeats itself."""
    return partial(next, count(0.0, 2e-3))


def made(settings: Drafting, verifier: Verifier) -> Callable[[], Policy]:
    return lambda: settings.policy(deterministic=verifier.deterministic)


def cases(num_nodes: int, max_depth: int, *, repeating: bool) -> list:
    """Every kind of drafting with every verifier that a plan may name with it.

    repeating  those whose siblings may be the same token, of which there are many more ways to go;
               or all others
    """
    found = []
    for name, verifier in VERIFIERS.items():
        most = 1 if verifier.max_children == 1 else 2
        ways = trees(num_nodes + most - 2, most, max_depth) if verifier.grows else {}
        for way, settings in (ways | chains(max_depth)).items():
            Plan(drafting=settings, verifier=name, sampling=SAMPLING)  # a plan that is valid
            repeats = settings.most_children > 1 and not verifier.distinct
            if repeats == repeating:
                found.append(pytest.param(verifier, settings, id=f"{name}-{way}"))
    return found


def test_every_kind_meets_every_verifier_that_it_may():
    every = cases(4, 3, repeating=False) + cases(4, 3, repeating=True)
    pairs = {(case.values[1].kind, case.values[0].name) for case in every}
    growing = {name for name, each in VERIFIERS.items() if each.grows}
    for kind, policy in POLICIES.items():
        if not policy.grows:
            continue
        assert {verifier for way, verifier in pairs if way == kind} == (
            set(VERIFIERS) if policy.grows_chains else growing
        )


@pytest.mark.parametrize(("verifier", "settings"), cases(4, 9, repeating=False))
def test_law_of_three_tokens_is_the_targets(verifier, settings):
    """One to three steps over a vocabulary of three, trees cut to the tokens still wanted."""
    got, expected, _ = loop_law(3, verifier, made(settings, verifier), 3)
    assert distance(got, expected) < EXACT


@pytest.mark.parametrize(("verifier", "settings"), cases(4, 3, repeating=False))
def test_law_of_two_tokens_is_the_targets_with_trees_drafted_whole(verifier, settings):
    """Trees of up to three levels, deeper than the text that is wanted."""
    got, expected, _ = loop_law(2, verifier, made(settings, verifier), 2, whole=True)
    assert distance(got, expected) < EXACT


@pytest.mark.parametrize("way", ["price online", "heuristic"])
def test_the_law_by_steps_is_that_of_all_ways_to_the_end(way):
    """Of policies that remember, behind which states meet again only where that is the same."""
    verifier = VERIFIERS["rrsw"]
    decode, *_ = grown_decoding(2, verifier, made(MANY_STEPS[way], verifier), 4)
    assert distance(law_by_steps(decode), law(to_the_end(decode))) < EXACT


@MANY_TOKENS
@pytest.mark.parametrize("way", MANY_STEPS)
def test_law_of_many_tokens_is_the_targets(way, num_new):
    """Up to as many steps, over a vocabulary of two: caches are kept and used again, policies
    remember, and the trees differ from step to step."""
    verifier = VERIFIERS["rrsw"]
    got, expected, shapes = loop_law(2, verifier, made(MANY_STEPS[way], verifier), num_new)
    assert distance(got, expected) < EXACT
    assert len(shapes) > 2


@pytest.mark.parametrize(("num_tokens", "num_new"), [(3, 2), (2, 3)])
@pytest.mark.parametrize(("verifier", "settings"), cases(4, 9, repeating=True))
def test_law_is_the_targets_where_siblings_repeat(verifier, settings, num_tokens, num_new):
    got, expected, _ = loop_law(num_tokens, verifier, made(settings, verifier), num_new)
    assert distance(got, expected) < EXACT


def broken() -> dict[str, tuple[Verifier, Callable[[], Policy]]]:
    """(verifier, policy), each with one mistake."""
    honest, few = VERIFIERS["rrsw"], {"num_nodes": 4, "max_children": 2}
    return {
        "drops unlikely tokens": (honest, lambda: DropsUnlikely(**few)),
        "drops unlikely tokens of chains": (VERIFIERS["chain"], lambda: DropsUnlikely(4, 1)),
        "looks at the next token": (honest, lambda: LooksAhead(**few)),
        "re-ranked, greedy": (Reranked(), made(trees(4, 2)["greedy"], honest)),
        "re-ranked, price": (Reranked(), made(trees(4, 2)["price"], honest)),
    }


@pytest.mark.parametrize("name", broken())
def test_the_exact_check_sees_what_is_biased(name):
    verifier, policy = broken()[name]
    got, expected, _ = loop_law(3, verifier, policy, 3)
    assert distance(got, expected) > 1e-3


def power(verifier: Verifier, policy: Callable[[], Policy], num_sequences: int) -> float:
    """P(the statistical check sees the bias), from the exact law: the statistic is noncentral
    chi-square, N sum (got - expected)^2 / expected being its noncentrality."""
    got, expected, _ = loop_law(3, verifier, policy, 3)
    cells = np.array([[got.get(key, 0.0), share] for key, share in expected.items()])
    noncentrality = num_sequences * ((cells[:, 0] - cells[:, 1]) ** 2 / cells[:, 1]).sum()
    degrees = len(cells) - 1
    return float(ncx2.sf(chi2.isf(LEVEL, degrees), degrees, noncentrality))


STATISTICAL = {
    "greedy-rrsw": ("rrsw", trees(6, 3)["greedy"]),
    "threshold-naive": ("naive", trees(6, 3)["threshold"]),
    "price-rrs": ("rrs", trees(6, 3)["price online"]),
    "heuristic-chain": ("chain", chains(4)["heuristic"]),
}


@pytest.mark.parametrize("name", STATISTICAL)
def test_sequences_follow_the_targets_law(name):
    """Five tokens, three children, the real source of randomness, and policies that remember."""
    verifier, settings = STATISTICAL[name]
    verifier = VERIFIERS[verifier]
    assert chi_square(verifier, made(settings, verifier)(), SEQUENCES) > LEVEL


@pytest.mark.parametrize("name", ["drops unlikely tokens", "re-ranked, greedy"])
def test_the_statistical_check_sees_what_is_biased(name):
    """The power is above 99.9 % at this number of texts."""
    verifier, policy = broken()[name]
    assert power(verifier, policy, SEQUENCES) > 0.999
    assert chi_square(verifier, policy(), SEQUENCES, num_tokens=3, seed=0) < LEVEL
