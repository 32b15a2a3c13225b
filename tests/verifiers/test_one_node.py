"""Every verifier returns the target's law and accepts as often as computed: full enumeration."""

import numpy as np
import pytest

from planner.optimizer import acceptance_rates
from planner.verifiers import VERIFIERS
from planner.verifiers.rates import most_children

from .distributions import pairs
from .one_node import PLANTED, TWINS, one_node

SIZES = [(2, 1), (2, 2), (3, 3), (4, 4), (5, 3), (6, 2), (6, 3), (3, 5)]
CASES = [
    (verifier, vocabulary, num_children)
    for verifier in TWINS
    for vocabulary, num_children in SIZES
    if num_children <= (most_children(verifier, vocabulary) or num_children)
]
LOSSLESS = 1e-12


def distance(twin, p, q, num_children):
    """Total variation between what comes out and p."""
    output, _ = one_node(twin, p, q, num_children)
    return np.abs(output - p).sum() / 2


def test_every_verifier_has_its_twin():
    assert TWINS.keys() == VERIFIERS.keys()


@pytest.mark.parametrize(("verifier", "vocabulary", "num_children"), CASES)
def test_the_output_is_the_targets_and_the_rates_are_exact(verifier, vocabulary, num_children):
    for p, q in pairs(vocabulary):
        output, rates = one_node(TWINS[verifier], p, q, num_children)
        assert output == pytest.approx(p, abs=LOSSLESS)
        computed = acceptance_rates(p, q, verifier, num_children)
        assert computed == pytest.approx(rates, abs=1e-12)


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_caught(bug):
    """Both are wrong on nearly every pair of the sort on which the true ones are right."""
    caught = [distance(PLANTED[bug], p, q, 2) > 1e-3 for p, q in pairs(5, count=50)[:50]]
    assert np.mean(caught) > 0.9


def test_spechubs_algorithm_as_printed_oversamples_two_tokens():
    """The published counterexample's law by hand, and the mended one's."""
    p, q = [0.1, 0.8, 0.1], [0.4, 0.3, 0.3]
    output, _ = one_node(PLANTED["SpecHub's Algorithm 3 as printed"], p, q, 2)
    assert output == pytest.approx([0.225, 0.675, 0.1], abs=1e-15)
    assert one_node(TWINS["spechub"], p, q, 2)[0] == pytest.approx(p, abs=1e-15)


def test_a_normal_coin_accepts_half_of_what_the_target_never_says():
    """p = [1, 0], q = [.5, .5]: Phi(2) = .97725 of the first token, Phi(0) = .5 of the second."""
    _, rates = one_node(PLANTED["DySpec's N(0, 1)"], [1.0, 0.0], [0.5, 0.5], 1)
    assert rates[0] == pytest.approx(0.5 * 0.97725 + 0.5 * 0.5, abs=1e-5)
