"""A plan for several numbers of requests at a time: what it holds, what serves each number."""

from __future__ import annotations

import math

import pytest

from planner import Plan, PlannerError
from planner.show.document_text import render

PLAN = {
    "format": "plan",
    "version": 1,
    "drafting": {"kind": "tree", "parents": [-1, 0, 0, 1]},
    "verifier": "rrsw",
    "sampling": {"temperature": 0.6},
}
CHAIN = {"kind": "tree", "parents": [-1, 0, 1]}
ALONE = {"kind": "tree", "parents": [-1]}


def plan(*settings: tuple[int, dict, str]) -> Plan:
    by_batch = [
        {"batch_size": size, "drafting": drafting, "verifier": verifier}
        for size, drafting, verifier in settings
    ]
    return Plan.parse(PLAN | {"by_batch": by_batch}, "plan.json")


MANY = plan((2, CHAIN, "topk"), (4, CHAIN, "rrsw"), (8, ALONE, "rrsw"))


def test_a_number_is_served_as_planned_for_it_or_for_the_next_larger_one():
    assert [MANY.place_at(n) for n in range(1, 11)] == [0, 1, 2, 2, 3, 3, 3, 3, 3, 3]
    assert plan().place_at(7) == 0


def test_the_plan_for_a_number_stands_alone():
    assert MANY.at_batch(1).drafting == MANY.drafting
    three = MANY.at_batch(3)
    assert (three.words, three.verifier, three.by_batch) == ("chain of 2 tokens", "rrsw", [])
    assert not MANY.at_batch(9).speculates


def test_plans_join_to_one():
    single = [plan().model_copy(update={"drafting": way.drafting}) for way in MANY.by_batch]
    with pytest.raises(PlannerError, match=r"plan: by_batch.*batch_size: got 1"):
        plan().with_batches(single)  # none says for how many it was made
    assert Plan.parse(MANY.model_dump(), "again") == MANY
    assert plan().with_batches([]) == plan()


def test_another_temperature_keeps_the_settings_and_drops_the_promises():
    assert [way.drafting for way in MANY.at(0.0).ways] == [way.drafting for way in MANY.ways]


@pytest.mark.parametrize("temperature", [-1.0, math.nan, math.inf, 2**1024, "1", True], ids=repr)
def test_what_is_no_temperature_is_refused_in_one_line(temperature):
    with pytest.raises(PlannerError, match=r"^temperature: got .*, expected 0 or more$"):
        MANY.at(temperature)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ([(4, CHAIN, "rrsw"), (2, ALONE, "rrsw")], "rising batch_size"),
        ([(2, CHAIN, "rrsw"), (2, ALONE, "rrsw")], "rising batch_size"),
        ([(1, CHAIN, "rrsw")], r"by_batch.*batch_size: got 1"),
        ([(2, CHAIN, "guess")], "verifier one of"),
        ([(2, {"kind": "tree", "parents": [-1, 0, 0, 0]}, "spechub")], "at most 2 children"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(settings, fault):
    with pytest.raises(PlannerError, match=fault) as said:
        plan(*settings)
    assert "\n" not in str(said.value)


def test_a_plan_shows_what_it_does_for_each_number():
    shown = render(MANY)
    for words in ("2         chain of 2 tokens, topk", "8         do not speculate"):
        assert words in " ".join(shown.split("\n")), shown
