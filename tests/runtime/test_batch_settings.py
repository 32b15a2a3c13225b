"""Settings that change with the number of texts in flight leave every text the target's law."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest

from planner import Plan
from planner.documents.sampling import Sampling
from planner.plans.plan import BatchSetting
from planner.policies import TreeDrafting
from runtime import VERIFIERS, Decoder, Scheduler, decode
from runtime.ending import Ending
from runtime.fused import FusedModel
from runtime.passes import alone
from runtime.session import Session
from runtime.writer import Wanted
from tests.runtime.exact_source import law
from tests.runtime.small_models import plan as plan_of
from tests.runtime.small_models import small_model
from tests.runtime.test_batch_law import MIX, models, run_together
from tests.runtime.test_batch_law import alone as alone_text
from tests.runtime.test_decode_law import (
    EXACT,
    PROMPT,
    SAMPLING,
    autoregressive_law,
    distance,
    table,
)


def by_batch(*settings: tuple[int, list[int], str]) -> list[BatchSetting]:
    return [
        BatchSetting(batch_size=size, drafting=TreeDrafting(parents=parents), verifier=verifier)
        for size, parents, verifier in settings
    ]


def switching(num_tokens: int, *settings: tuple[int, list[int], str]) -> Decoder:
    """A tree for one text at a time, other settings for more."""
    plan = Plan(
        drafting=TreeDrafting(parents=[-1, 0, 0]),
        verifier="rrsw",
        sampling=SAMPLING,
        by_batch=by_batch(*settings),
    )
    target, draft = table(num_tokens, seed=0), table(num_tokens, seed=1, order=1)
    return Decoder.from_plan(plan, target, draft)


NONE, CHAIN = [-1], [-1, 0, 1]


def text_law(decoder: Decoder, order: tuple[int, ...], num_new: int) -> dict:
    """The law of a text whose every step has another setting than the one before."""

    def experiment(rng):
        writer = decoder.writer(Wanted(PROMPT, num_new, Ending(frozenset()), 0))
        writer.session.rng = rng
        steps = cycle(order)
        while not writer.ended:
            alone(writer.going_on(next(steps)))
        return tuple(writer.run.tokens)

    return law(experiment)


@pytest.mark.parametrize("verifier", ["rrsw", "topk", "spechub", "traversal"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2, 0)])
def test_a_text_has_the_targets_law_whatever_setting_each_step_has(order, verifier):
    """Exactly: a tree, no draft at all, and a chain of another verifier's, in turns."""
    decoder = switching(2, (2, NONE, "rrsw"), (3, CHAIN, verifier))
    expected = autoregressive_law(decoder.target, 5)
    assert len(expected) == 2**5
    assert distance(text_law(decoder, order, 5), expected) < EXACT


def test_a_setting_that_changes_amid_a_step_is_seen(monkeypatch):
    """A wrong variant: what one verifier drew is judged by another."""
    whole = Session._verification

    def changed(self, tree):
        self.use(VERIFIERS["rrsw"])
        return whole(self, tree)

    monkeypatch.setattr(Session, "_verification", changed)
    decoder = switching(2, (2, CHAIN, "topk"))
    expected = autoregressive_law(decoder.target, 3)
    assert distance(text_law(decoder, (0, 1), 3), expected) > 1e-3


def test_texts_of_a_scheduler_that_changes_settings_have_the_product_of_their_laws(monkeypatch):
    """Exactly: one text is joined by a second, which ends, and then by a third."""
    decoder = switching(2, (2, [-1, 0], "topk"))
    seen = set()

    def experiment(rng):
        monkeypatch.setattr(decode, "seeded_source", lambda seed, device: rng)
        scheduler = Scheduler(decoder)
        requests = [scheduler.submit(PROMPT, max_new_tokens=num) for num in (3, 1)]
        scheduler.step()
        scheduler.step()
        requests.append(scheduler.submit(PROMPT, max_new_tokens=1))
        while scheduler.step():
            pass
        seen.update((step.num_rows, step.setting) for step in scheduler.shared_steps)
        return tuple(tuple(request.tokens) for request in requests)

    three, one = (autoregressive_law(decoder.target, num) for num in (3, 1))
    product = {
        (a, b, c): p * q * r
        for a, p in three.items()
        for b, q in one.items()
        for c, r in one.items()
    }
    assert distance(law(experiment), product) < EXACT
    assert seen == {(1, 0), (2, 1)}


def test_each_number_of_texts_has_its_setting():
    """Three rows, then fewer: trees of 2 nodes, none, and 3; prompts that are read do not count."""
    decoder = switching(4, (2, NONE, "rrsw"), (3, [-1, 0], "rrsw"))
    scheduler = Scheduler(decoder)
    long, *_ = (scheduler.submit(PROMPT, max_new_tokens=num, seed=num) for num in (40, 25, 10))
    while scheduler.step():
        pass
    steps = scheduler.shared_steps
    assert [(step.num_rows, step.setting) for step in steps] == [(1, 0), (2, 1), (3, 2)]
    assert sum(step.num_tokens for step in steps) == 40 + 25 + 10
    sizes = [step.num_nodes for step in long.run.steps]
    assert sizes[: steps[2].num_steps] == [2] * steps[2].num_steps
    assert set(sizes[steps[2].num_steps :][: steps[1].num_steps]) == {1}
    assert set(sizes[steps[2].num_steps + steps[1].num_steps :]) <= {1, 3}
    assert scheduler.total_ms >= sum(step.total_ms for step in steps) > 0


def test_greedy_texts_stay_the_same():
    greedy = Plan(
        drafting=TreeDrafting(parents=[-1, 0, 0, 1]),
        verifier="topk",
        sampling=Sampling(temperature=0.0),
        by_batch=by_batch((2, CHAIN, "rrsw"), (3, NONE, "rrsw")),
    )
    decoder = Decoder.from_plan(greedy, *models())
    for request, asked in zip(run_together(decoder, MIX, 3), MIX, strict=True):
        assert request.tokens == alone_text(decoder, asked).tokens[: len(request.tokens)]


def test_a_plan_that_drafts_for_one_text_alone_or_for_many_alone_needs_its_draft():
    only_many = switching(3, (2, CHAIN, "rrsw")).plan.model_copy(
        update={"drafting": TreeDrafting(parents=NONE)}
    )
    decoder = Decoder.from_plan(only_many, table(3, seed=0), table(3, seed=1, order=1))
    assert decoder.draft is not None
    assert decoder.generate(PROMPT, max_new_tokens=9).report.measured.num_drafted == 0
    both = decoder.generate_batch([PROMPT, PROMPT], max_new_tokens=9)
    assert all(each.report.measured.num_drafted > 0 for each in both)


class Rows(FusedModel):
    """A model that notes how many rows each of its passes has."""

    def __init__(self, model) -> None:
        super().__init__(model)
        self.rows: list[int] = []

    def forward(self, tokens, *others, num_logits=None):
        self.rows.append(len(tokens))
        return super().forward(tokens, *others, num_logits=num_logits)

    def forward_batch(self, inputs):
        self.rows.append(sum(len(asked.tokens) for asked in inputs))
        return super().forward_batch(inputs)


@pytest.mark.parametrize("prefill_tokens", [1, 3, 8, 50])
def test_prompts_read_in_chunks_change_no_text(prefill_tokens):
    decoder = replace(switching(5), logprobs=True)
    expected = [request.tokens for request in run_together(decoder, MIX, 3)]
    chunks = run_together(decoder, MIX, 3, prefill_tokens=prefill_tokens)
    assert all(
        request.tokens == tokens or asked.cancelled is not None
        for request, tokens, asked in zip(chunks, expected, MIX, strict=True)
    )


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_models_prompts_do_not_either(temperature):
    target, draft = (Rows(small_model("llama", seed=seed)) for seed in (0, 1))
    decoder = Decoder.from_plan(plan_of([-1, 0, 0, 1], temperature=temperature), target, draft)
    prompts = [[7] * 2, [5, 6, 7, 8] * 12, [1, 2, 3] * 9]
    whole = decoder.generate_batch(prompts, max_new_tokens=12)
    target.rows.clear()
    scheduler = Scheduler(decoder, prefill_tokens=10)
    requests = [
        scheduler.submit(prompt, max_new_tokens=12, seed=decode.prompt_seed(0, place))
        for place, prompt in enumerate(prompts)
    ]
    for _ in range(4):  # the first has emitted in three of them, while the second is read
        scheduler.step()
    assert len(requests[0].run.steps) == 3
    assert requests[1].tokens == requests[2].tokens == []
    while scheduler.step():
        pass
    assert [request.tokens for request in requests] == [each.tokens for each in whole]
    assert max(target.rows) <= 10 + 2 * 4  # what is read, and the trees of two texts
    assert requests[1].run.prefill_ms > 0
