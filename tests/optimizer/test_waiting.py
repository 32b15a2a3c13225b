"""Requests that decode together wait for the one that drafts longest, and that is predicted."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from planner.estimates.step_costs import CHAINS, StepCosts, step_costs
from planner.replay.recorded import Tally
from planner.replay.replays import Played

from . import factory

PASS_MS, ROW_MS = 2.0, 0.3
"""Any draft pass, and each of its rows."""


def costs_at(batch_size: int) -> StepCosts:
    """Chains' times at that many requests, from a profile of one and of so many."""
    entries = []
    for size in dict.fromkeys((1, batch_size)):
        entry = factory.costs(batch_size=size)
        growing = factory.growing_times(
            root=1.0,
            draft=lambda width, b=size: PASS_MS + ROW_MS * b * width,
            overhead=lambda n: 0.1,
        )
        entries.append(entry.model_copy(update={"chains": growing, "growing": growing}))
    made = factory.profile([factory.positional([[0.6]])], entries)
    return step_costs(made, batch_size=batch_size).growing(CHAINS)


def tally_of(shares: np.ndarray) -> Tally:
    """A text of 1000 rounds, `shares` of which draft chains of 1, 2, ... tokens."""
    rounds = 1000.0
    lengths = np.arange(1, len(shares) + 1)
    later = rounds * shares @ (lengths - 1)
    counts = rounds * np.concatenate(([0.0], shares))
    return Tally(
        tokens=np.array([2 * rounds]),
        rounds=np.array([rounds]),
        root_passes=np.array([rounds]),
        widths=np.array([[0.0, later]]),
        sizes=np.concatenate(([0.0], counts))[None],
        depths=counts[None],
        accepted=np.array([rounds]),
        unknown=np.array([0.0]),
    )


def later_passes_ms(shares: np.ndarray, batch_size: int) -> float:
    """The expected time of a step's draft passes behind the first, by enumeration of all lengths:
    each has those requests in it that still draft."""
    expected = 0.0
    for lengths in product(range(1, len(shares) + 1), repeat=batch_size):
        chance = np.prod([shares[length - 1] for length in lengths])
        for level in range(2, max(lengths) + 1):
            drafting = sum(length >= level for length in lengths)
            expected += chance * (PASS_MS + ROW_MS * drafting)
    return expected


@pytest.mark.parametrize("batch_size", [1, 2, 5])
@pytest.mark.parametrize("shares", [(1.0,), (0.2, 0.5, 0.3), (0.7, 0.0, 0.0, 0.3)])
def test_later_draft_passes_take_what_enumeration_says(batch_size, shares):
    played = Played(tally_of(np.array(shares)), costs_at(batch_size))
    drafts = [
        each
        for each in played.spent
        if each.curve == "waiting" or (each.curve == played.costs.draft.what and 1 in each.counts)
    ]
    drafted = sum(float((each.often @ each.ms).sum()) for each in drafts)
    assert drafted / 1000 == pytest.approx(later_passes_ms(np.array(shares), batch_size), rel=1e-9)


def test_settings_are_compared_by_the_same_time():
    for batch_size in (1, 4):
        played = Played(tally_of(np.array([0.2, 0.5, 0.3])), costs_at(batch_size))
        assert played.rate == pytest.approx(played.tokens_per_ms, rel=1e-12)


def test_where_one_request_was_not_timed_nobody_is_known_to_wait():
    growing = factory.growing_times(root=1.0, draft=lambda width: 2.0, overhead=lambda n: 0.1)
    many = factory.costs(batch_size=4, context=512).model_copy(update={"growing": growing})
    one = factory.costs(context=128).model_copy(update={"growing": growing})
    for entries in ([many], [one, many]):  # none, and one at another context
        made = factory.profile([factory.positional([[0.6]])], entries)
        assert step_costs(made, batch_size=4).growing().lone_draft is None
