"""Texts that decode together and follow the machine: each keeps the target's law, whatever setting
all of them take next, and the report says what was done."""

from __future__ import annotations

import numpy as np
import pytest

from planner import Plan
from planner.plans.plan import BatchSetting
from planner.policies import ConfidentDrafting, TreeDrafting
from planner.show.document_text import render
from runtime import Decoder, Scheduler, decode, decode_prompts
from runtime.closed_loop import ClosedLoop, ClosedLoops
from tests.runtime.exact_source import law
from tests.runtime.small_models import plan as plan_of
from tests.runtime.test_batch_law import MIX, models, run_together
from tests.runtime.test_batch_law import alone as alone_text
from tests.runtime.test_closed_loop import table_of
from tests.runtime.test_decode_law import (
    EXACT,
    PROMPT,
    SAMPLING,
    autoregressive_law,
    distance,
    table,
)

NONE, CHAIN, TREE = (TreeDrafting(parents=parents) for parents in ([-1], [-1, 0, 1], [-1, 0, 0]))
OWN = [(TREE, "rrsw"), (CHAIN, "traversal"), (NONE, "topk")]
FOR_TWO = [(ConfidentDrafting(max_depth=2, confidence=0.4), "topk"), (TREE, "spechub"), OWN[-1]]


def plan(temperature: float = SAMPLING.temperature) -> Plan:
    """A table for one text, and another one for two or more."""
    drafting, verifier = FOR_TWO[0]
    more = BatchSetting(
        batch_size=2, drafting=drafting, verifier=verifier, settings=table_of(FOR_TWO)
    )
    return Plan(
        drafting=TREE,
        verifier="rrsw",
        sampling=SAMPLING.model_copy(update={"temperature": temperature}),
        settings=table_of(OWN),
        by_batch=[more],
    )


def test_texts_whose_setting_an_adversary_picks_by_all_of_them_have_the_product_of_their_laws(
    monkeypatch,
):
    """Exactly: the setting of every step depends on the tokens of both."""
    target, draft = table(2, seed=0), table(2, seed=1, order=1)
    decoder = Decoder.from_plan(plan(), target, draft, follow=True)
    taken = set()

    def experiment(rng):
        monkeypatch.setattr(decode, "seeded_source", lambda seed, device: rng)
        scheduler, requests = Scheduler(decoder), []

        class Adversary:
            """What stands in a loop's place."""

            def choose(self) -> int:
                return sum(sum(each.tokens) + len(each.tokens) for each in requests) % 3

            def note(self, num_tokens: float, ms: float) -> None:
                assert 1 <= num_tokens <= 3
                assert ms > 0

        monkeypatch.setattr(ClosedLoops, "at", lambda loops, num_texts: Adversary())
        requests += [scheduler.submit(PROMPT, max_new_tokens=num) for num in (4, 3)]
        while scheduler.step():
            pass
        taken.update(
            (each.num_rows, each.setting, each.followed) for each in scheduler.shared_steps
        )
        return tuple(tuple(request.tokens) for request in requests)

    four, three = (autoregressive_law(target, num) for num in (4, 3))
    product = {(a, b): p * q for a, p in four.items() for b, q in three.items()}
    assert distance(law(experiment), product) < EXACT
    assert {(2, 1, 0), (2, 1, 1), (2, 1, 2), (1, 0, 0), (1, 0, 1), (1, 0, 2)} == taken


def test_greedy_texts_stay_the_same():
    decoder = Decoder.from_plan(plan(temperature=0.0), *models(), follow=True)
    for request, asked in zip(run_together(decoder, MIX, 3), MIX, strict=True):
        assert request.tokens == alone_text(decoder, asked).tokens[: len(request.tokens)]


def test_a_report_says_what_was_followed():
    report = decode_prompts(
        plan(), *models(), [asked.prompt for asked in MIX], max_new_tokens=30, stop_tokens=[],
        follow=True, batch_size=np.int64(3), baseline=True,
    )  # fmt: skip
    assert report.followed is None
    steps, loops = report.together.steps, report.together.followed
    assert {(each.setting, each.num_rows) for each in loops} == {(0, 1), (1, 2), (1, 4)}
    for loop in loops:
        own = [
            each
            for each in steps
            if each.num_rows in range(loop.num_rows // 2 + 1, loop.num_rows + 1)
        ]
        assert {each.setting for each in own} <= {loop.setting}
        for place, total in enumerate(loop.steps):  # those that warmed up besides
            assert sum(each.num_steps for each in own if each.followed == place) <= total
    said = " ".join(render(report).split())
    assert "Up to 4 requests at a time: in the end a step took" in said
    for each in steps:
        assert report.plan.tables[each.setting][each.followed].words in said


def test_a_text_of_a_batch_says_nothing_of_the_loop_of_one():
    decoder = Decoder.from_plan(plan(), *models(), follow=True)
    for each in decoder.generate_batch([PROMPT, PROMPT], max_new_tokens=9):
        assert each.report.followed is None
    assert decoder.generate(PROMPT, max_new_tokens=9).report.followed is not None


def test_loops_are_kept_for_about_as_many_texts():
    loops = ClosedLoops(plan())
    assert loops.at(3) is loops.at(4)
    assert len({id(loops.at(number)) for number in (1, 2, 3, 5, 8, 9)}) == 5
    assert loops.followed == []
    loops.at(7).note(1.5, 2.0)
    assert [(each.num_rows, each.setting) for each in loops.followed] == [(8, 1)]


def test_times_of_a_table_for_another_number_are_found_first():
    """For two there is a table; for four that one is taken, and for all without it the plan's."""
    loops = ClosedLoops(plan())
    assert [loops.at(number).known for number in (1, 2, 3, 8)] == [True, True, False, False]
    loops = ClosedLoops(plan().model_copy(update={"by_batch": []}))
    assert [loops.at(number).known for number in (1, 2, 3)] == [True, False, False]


def test_a_loop_is_told_how_many_tokens_a_text_got_and_how_long_all_took(monkeypatch):
    told = []
    monkeypatch.setattr(ClosedLoop, "note", lambda loop, tokens, ms: told.append((tokens, ms)))
    decoder = Decoder.from_plan(plan(), *models(), follow=True)
    scheduler = Scheduler(decoder)
    requests = [scheduler.submit(PROMPT, max_new_tokens=30, seed=seed) for seed in range(2)]
    scheduler.step()  # reads the prompts
    assert told == []
    for _ in range(3):
        before = scheduler.total_ms
        scheduler.step()
        tokens = [len(each.run.steps[-1].tokens) for each in requests]
        assert told.pop() == (sum(tokens) / 2, pytest.approx(scheduler.total_ms - before))
    scheduler.submit(PROMPT, max_new_tokens=30)
    scheduler.step()  # its prompt is read beside the others' steps
    assert told == []


def test_a_plan_for_one_text_is_followed_with_several():
    """Its table is where they begin."""
    one = plan().model_copy(update={"by_batch": []})
    decoder = Decoder.from_plan(one, *models(), follow=True)
    decoder.generate_batch([PROMPT] * 3, max_new_tokens=20)
    assert {(each.num_rows, each.setting) for each in decoder.loops.followed} >= {(4, 0)}


def test_plans_by_number_keep_their_tables():
    assert plan().tables == [table_of(OWN), table_of(FOR_TWO)]
    assert plan().at_batch(2).settings == table_of(FOR_TWO)
    assert Plan.parse(plan().model_dump(), "again") == plan()
    assert "likewise for 2 requests at a time" in render(plan())
    bare = plan_of([-1, 0, 0, 1])
    assert bare.tables == [[]]
