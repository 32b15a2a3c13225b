"""A scheduler's rows: given out, taken along, freed; and what is said where something is wrong."""

from __future__ import annotations

import gc
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from time import sleep

import pytest
import torch

from planner import Plan, PlannerError
from planner.policies import TreeDrafting
from runtime import Decoder, Scheduler, Session, TableModel
from runtime import passes as passes_module
from runtime.decode import prompt_seed
from runtime.language_model import PassOutput
from runtime.reports import Run, speedup
from tests.runtime.test_batch_law import MIX, SHAPES, assert_same_steps, decoder_of
from tests.runtime.test_decode_law import PROMPT, SAMPLING


def test_a_free_row_of_a_cancelled_text_holds_nothing_of_it():
    """Given up after a step, its caches, drawn tokens and policy's memory serve another text."""
    decoder = decoder_of("greedy")
    scheduler = Scheduler(decoder, max_rows=1)
    first = scheduler.submit([0] * 30, max_new_tokens=40, seed=1)
    for _ in range(3):
        scheduler.step()
    first.cancel()
    second = scheduler.submit([1, 2], max_new_tokens=20, seed=2)
    expected = decoder.generate([1, 2], max_new_tokens=20, seed=2).tokens
    assert second.generation().tokens == expected


class Counting(TableModel):
    """A table that notes for how many texts each of its passes is."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__(logits)
        self.passes: list[int] = []

    def forward_batch(self, inputs):
        self.passes.append(len(inputs))
        return [PassOutput(TableModel.forward(self, *asked[1:5], num_logits=asked.num_logits))
                for asked in inputs]  # fmt: skip

    def forward(self, *arguments, num_logits=None):
        self.passes.append(1)
        return super().forward(*arguments, num_logits=num_logits)


def test_a_step_has_one_pass_of_the_target_and_one_of_the_draft_for_each_level():
    """Two rows draft three levels, and a third, which comes later, reads its prompt meanwhile."""
    target, draft = (Counting(torch.zeros(4, 4, 4)) for _ in range(2))
    plan = Plan(drafting=TreeDrafting(parents=[-1, 0, 1, 2]), verifier="rrsw", sampling=SAMPLING)
    scheduler = Scheduler(Decoder.from_plan(plan, target, draft))
    for prompt in ([1, 2], [3, 2, 1]):
        scheduler.submit(prompt, max_new_tokens=40)
    seen = []
    for step in range(3):
        if step == 1:
            scheduler.submit([1, 1, 1, 1], max_new_tokens=40)
        for model in (target, draft):
            model.passes.clear()
        scheduler.step()
        seen.append((list(target.passes), list(draft.passes)))
    assert seen == [([2], [2]), ([3], [3, 2, 2]), ([3], [3, 3, 3])]


def test_a_thousand_short_texts_in_four_rows_take_no_more_memory_than_a_few():
    decoder = decoder_of("tree")
    scheduler = Scheduler(decoder, max_rows=4)

    def decode_some(count: int) -> None:
        for number in range(count):
            scheduler.submit([1] * (1 + number % 7), max_new_tokens=2, seed=number)
        while scheduler.step():
            pass

    decode_some(200)
    gc.collect()
    tracemalloc.start()
    decode_some(800)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100_000
    sessions = [each for each in gc.get_objects() if type(each) is Session]
    assert len([each for each in sessions if each.target is decoder.target]) == 4


def test_iterating_gives_tokens_as_they_come_and_takes_the_others_along():
    decoder = decoder_of("tree")
    scheduler = Scheduler(decoder, max_rows=2)
    first, second = (scheduler.submit(PROMPT, max_new_tokens=9, seed=seed) for seed in (1, 2))
    parts = list(first)
    assert [*chain.from_iterable(parts)] == decoder.generate(
        PROMPT, max_new_tokens=9, seed=1
    ).tokens
    assert len(parts) == first.generation().report.measured.num_steps
    assert len(second.tokens) > 0
    assert [*chain.from_iterable(second)] == decoder.generate(
        PROMPT, max_new_tokens=9, seed=2
    ).tokens
    assert list(first) == [first.tokens]  # from the first on, all at once
    assert not scheduler.step()


@pytest.mark.parametrize("max_rows", [None, 2])
def test_a_batch_of_prompts_has_the_seeds_of_decode_prompts(max_rows):
    decoder = decoder_of("tree")
    prompts, limits = [asked.prompt for asked in MIX], [asked.max_new_tokens for asked in MIX]
    together = decoder.generate_batch(prompts, max_new_tokens=limits, seed=8, max_rows=max_rows)
    for index, (prompt, limit) in enumerate(zip(prompts, limits, strict=True)):
        seed = prompt_seed(8, index)
        expected = decoder.generate(prompt, max_new_tokens=limit, seed=seed)
        assert together[index].tokens == expected.tokens
        assert together[index].report.seed == seed
        assert_same_steps(together[index].report.measured, expected.report.measured)


def test_a_row_that_cannot_go_on_fails_alone():
    """The draft overflows behind token 4, which only one text has."""
    four = torch.tensor([4])
    logits = torch.zeros(5, 5, dtype=torch.float64).index_fill(1, four, -torch.inf)
    target, draft = TableModel(logits), TableModel(logits.index_fill(0, four, torch.nan))
    plan = Plan(drafting=SHAPES["tree"], verifier="rrsw", sampling=SAMPLING)
    decoder = Decoder.from_plan(plan, target, draft)
    scheduler = Scheduler(decoder)
    good, bad = (scheduler.submit([1, token], max_new_tokens=12, seed=1) for token in (2, 4))
    assert good.generation().tokens == decoder.generate([1, 2], max_new_tokens=12, seed=1).tokens
    for ask in (bad.generation, lambda: list(bad)):
        with pytest.raises(PlannerError, match="draft: got probabilities that are no numbers"):
            ask()
    with pytest.raises(PlannerError, match=r"prompts\[1\]: draft: got probabilities"):
        decoder.generate_batch([[1, 2], [1, 4]])


def test_a_row_whose_text_cannot_be_read_fails_alone():
    decoder = replace(decoder_of("tree"), to_text=lambda tokens: [][1])
    scheduler = Scheduler(decoder)
    good = scheduler.submit(PROMPT, max_new_tokens=9, seed=1)
    bad = scheduler.submit(PROMPT, max_new_tokens=9, seed=1, stop_strings=["a"])
    assert good.generation().tokens == decoder.generate(PROMPT, max_new_tokens=9, seed=1).tokens
    with pytest.raises(PlannerError, match=r"to_text: failed for tokens .* IndexError"):
        bad.generation()


def test_a_pass_that_fails_ends_its_rows_and_no_others(monkeypatch):
    decoder = decoder_of("tree")
    scheduler = Scheduler(decoder, max_rows=2)
    first, second, third = (scheduler.submit(PROMPT, max_new_tokens=9, seed=s) for s in range(3))
    for _ in range(2):
        scheduler.step()
    with monkeypatch.context() as patched:
        patched.setattr(passes_module, "answers", lambda inputs: [][1])
        with pytest.raises(IndexError):
            scheduler.step()
    for request in (first, second):
        with pytest.raises(PlannerError, match=r"request: the step .* failed \(IndexError") as said:
            request.generation()
        assert "\n" not in str(said.value)
    assert third.generation().tokens == decoder.generate(PROMPT, max_new_tokens=9, seed=2).tokens


def test_a_request_that_there_is_no_room_for_fails_alone(monkeypatch):
    decoder = decoder_of("tree")
    scheduler = Scheduler(decoder)
    first = scheduler.submit(PROMPT, max_new_tokens=9, seed=0)
    scheduler.step()
    second = scheduler.submit(PROMPT, max_new_tokens=9, seed=1)
    with monkeypatch.context() as patched:
        patched.setattr(TableModel, "new_cache", lambda model, capacity: [][1])
        with pytest.raises(IndexError):
            scheduler.step()
    with pytest.raises(PlannerError, match=r"request: it was given no row \(IndexError"):
        list(second)
    assert first.generation().tokens == decoder.generate(PROMPT, max_new_tokens=9, seed=0).tokens
    assert scheduler.num_rows == scheduler.num_waiting == 0


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"max_rows": 0}, "max_rows: got 0, expected an integer >= 1"),
        ({"prompts": []}, "prompts: got none"),
        ({"prompts": [[1], []]}, r"prompts\[1\]: input_ids: got an empty prompt"),
        ({"prompts": [[1], [7]]}, r"prompts\[1\]: input_ids\[0\]: got token 7"),
        ({"max_new_tokens": [1, 2, 3]}, "max_new_tokens: got 3 numbers for 2 prompts"),
        ({"max_new_tokens": [1, 0]}, r"prompts\[1\]: max_new_tokens: got 0"),
        ({"max_new_tokens": 2.5}, r"prompts\[0\]: max_new_tokens: got 2.5"),
        ({"seed": -1}, "^seed: got -1"),
        ({"stop_strings": ["a"]}, "stop_strings: got some without to_text"),
        ({"prompts": 3}, "prompts: got a int, expected a list of prompts"),
    ],
)
def test_wrong_input_is_said_in_one_line(settings, fault):
    decoder = decoder_of("tree")
    with pytest.raises(PlannerError, match=fault) as caught:
        decoder.generate_batch(**{"prompts": [[1], [2]]} | settings)
    assert "\n" not in str(caught.value)


def test_what_is_no_decoder_schedules_nothing():
    with pytest.raises(PlannerError, match=r"decoder: got a Plan, .* Decoder\.from_plan makes one"):
        Scheduler(decoder_of("tree").plan)


def test_a_step_reads_something_of_a_prompt():
    with pytest.raises(PlannerError, match="prefill_tokens: got 0, expected an integer >= 1"):
        Scheduler(decoder_of("tree"), prefill_tokens=0)


def test_it_is_noted_in_which_steps_another_texts_prompt_was_read():
    scheduler = Scheduler(decoder_of("lone root"))
    first = scheduler.submit(PROMPT, max_new_tokens=5)
    scheduler.step()
    scheduler.step()
    second = scheduler.submit(PROMPT, max_new_tokens=5)
    while scheduler.step():
        pass
    assert len(first.run.steps) == len(second.run.steps) == 5
    assert first.run.beside_prompts == {1}
    assert second.run.beside_prompts == set()


def run_of(step_ms: list[float], beside_prompts: set[int]) -> Run:
    """A token a step."""
    num = len(step_ms)
    return Run(
        1, tokens=[0] * num, step_ms=step_ms, tokens_by_step=[1] * num,
        beside_prompts=beside_prompts,
    )  # fmt: skip


def test_speed_is_of_steps_in_which_no_prompt_is_read():
    alone = [run_of([10.0, 10.0], set()), run_of([90.0, 10.0, 10.0], {0})]
    own = [run_of([5.0, 70.0, 5.0], {1}), run_of([5.0, 5.0, 90.0], {2})]
    assert speedup(own, alone).value == pytest.approx(2)
    assert speedup(own, alone).low == pytest.approx(2)
    one = [own[0], run_of([70.0], {0})]  # the second has no other step
    assert speedup(one, alone).value == pytest.approx(2)
    none = [run_of([20.0], {0}), run_of([20.0], {0})]
    assert speedup(none, alone).value == pytest.approx((130 / 5) / 20)


def test_a_cancelled_text_is_not_whole():
    scheduler = Scheduler(decoder_of("tree"))
    request = scheduler.submit(PROMPT)
    for _ in range(3):
        scheduler.step()
    request.cancel()
    request.cancel()
    assert [*chain.from_iterable(request)] == request.tokens != []
    with pytest.raises(PlannerError, match=r"cancelled after \d+ tokens"):
        request.generation()


def test_threads_take_turns_at_a_schedulers_steps(monkeypatch):
    """Each iterates over its own request, and so takes steps of both."""
    decoder, answers, seeds = decoder_of("tree"), passes_module.answers, range(2)
    scheduler = Scheduler(decoder)
    requests = [scheduler.submit(PROMPT, max_new_tokens=9, seed=seed) for seed in seeds]
    with monkeypatch.context() as patched, ThreadPoolExecutor(2) as threads:
        patched.setattr(passes_module, "answers", lambda asked: sleep(0.001) or answers(asked))
        found = list(threads.map(lambda each: [*chain.from_iterable(each)], requests))
    alone = [decoder.generate(PROMPT, max_new_tokens=9, seed=seed).tokens for seed in seeds]
    assert found == alone
