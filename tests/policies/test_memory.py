"""The arrays of a step: no two things in one place, and room for all."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest

from planner.policies import FEATURES
from planner.policies.compiled import greedy_kernel, price_kernel, threshold_kernel
from planner.policies.compiled.memory import Memory, new_memory
from planner.policies.compiled.slots import Heap, Requests, requests_in
from tests.policies.driving import grown, of_text
from tests.policies.settings import trees

NUM_NODES, MAX_CHILDREN = 5, 3


def price_state(memory: Memory):
    return price_kernel.growth_in(memory), requests_in(memory)


STATES = {
    "greedy": greedy_kernel.state_in,
    "threshold": threshold_kernel.state_in,
    "price": price_state,
}


def arrays(state) -> Iterator[np.ndarray]:
    for part in state:
        if isinstance(part, np.ndarray):
            yield part
        else:
            yield from arrays(part)


@pytest.mark.parametrize("name", STATES)
def test_no_two_parts_of_a_step_share_a_place(name):
    found = list(arrays(STATES[name](new_memory(NUM_NODES, MAX_CHILDREN))))
    assert len(found) > 10
    assert not any(np.shares_memory(one, other) for one, other in combinations(found, 2))


@pytest.mark.parametrize("name", STATES)
def test_there_is_room_for_every_node(name):
    """Twice in an answer, for a child and for a draft pass; a slot each and one more in a heap."""

    def parts(state) -> Iterator[object]:
        for part in state:
            yield part
            if isinstance(part, tuple):
                yield from parts(part)

    for part in parts(STATES[name](new_memory(NUM_NODES, MAX_CHILDREN))):
        if isinstance(part, Requests):
            assert len(part.nodes) >= 2 * NUM_NODES
        if isinstance(part, Heap):
            assert len(part.values) == len(part.nodes) == len(part.room) >= NUM_NODES + 1


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("kind", trees(14, 4))
def test_a_policy_grows_what_it_would_grow_if_it_had_never_grown_before(kind, deterministic):
    """Its first answers are known by heart: for every depth, and at every price, the right one."""
    settings = trees(14, 4)[kind]
    policy = settings.policy(deterministic=deterministic)
    twin = settings.policy(deterministic=deterministic)
    rng = np.random.default_rng(0)

    def features(path):
        return np.random.default_rng([len(path), *path]).uniform(0.1, 0.95, size=len(FEATURES))

    for text in range(30):
        max_depth = int(rng.choice([99, 0, 3, 1]))
        one, other = (
            grown(each, of_text(text, 4), max_depth=max_depth, features=features)
            for each in (policy, forgetful(twin))
        )
        assert (one.paths, one.passes) == (other.paths, other.passes)
        accepted, step_ms = list(range(rng.integers(0, 3))), float(rng.choice([0.01, 1.0, 1e3]))
        for each in (policy, twin):
            each.verified(accepted, step_ms)


def forgetful(policy):
    """It has to think about its first answer, too."""
    policy._first_answers.clear()
    return policy
