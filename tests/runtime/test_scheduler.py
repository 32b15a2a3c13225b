"""Texts that decode together are those that each would be alone, whoever their neighbours are."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import pytest
import torch

from planner import Plan, PlannerError, Tree
from planner.documents.sampling import Sampling
from planner.policies import Drafting, TreeDrafting
from planner.policies.fixed import FixedTree
from runtime import VERIFIERS, Decoder, LookupModel, Scheduler, Session, TableModel, decode
from runtime import passes as passes_module
from runtime.decode import prompt_seed
from runtime.language_model import PassInput, PassOutput
from runtime.passes import together
from tests.policies.settings import chains, trees
from tests.runtime.exact_source import law
from tests.runtime.heads_factory import ShowingTable
from tests.runtime.test_decode_law import (
    EXACT,
    PROMPT,
    SAMPLING,
    autoregressive_law,
    distance,
    table,
)

SHAPES: dict[str, Drafting] = {
    "lone root": TreeDrafting(parents=[-1]),
    "tree": TreeDrafting(parents=[-1, 0, 0, 1, 1, 3]),
    **{name: each for name, each in trees(7, 2).items() if name != "price online"},
    **{name: each for name, each in chains(4).items() if name != "stop by head"},
}
"""All that decide by the text alone: "price online" follows the clock."""
CASES = [
    (name, verifier, temperature)
    for name, drafting in SHAPES.items()
    for verifier in ("rrsw", "topk", "spechub", "traversal")
    for temperature in (0.0, 0.9)
    if VERIFIERS[verifier].grows or not drafting.grows
]


@dataclass(frozen=True)
class Asked:
    """Arguments of `submit`, and in which step it is called, and in which it is cancelled."""

    prompt: list[int]
    max_new_tokens: int
    seed: int
    stop_tokens: list[int] = field(default_factory=list)
    submitted: int = 0
    cancelled: int | None = None


MIX = [
    Asked([1], 17, seed=3),
    Asked([2, 0, 3, 1, 1, 2, 0], 9, seed=4, stop_tokens=[3]),
    Asked([0] * 21, 23, seed=3, submitted=2),
    Asked([3, 1, 2], 1, seed=0, submitted=2),
    Asked([1, 2], 30, seed=5, cancelled=4),
    Asked([1], 12, seed=3, submitted=5),
    Asked([2, 2, 1, 0], 8, seed=9, submitted=6, cancelled=6),
]
"""Five rows and more of different lengths: some come late, end early, or are given up."""


def models(num_tokens: int = 5):
    return table(num_tokens, seed=0), table(num_tokens, seed=1, order=1)


def decoder_of(name: str, verifier: str = "rrsw", temperature: float = 0.9) -> Decoder:
    sampling = Sampling(temperature=temperature)
    return Decoder.from_plan(
        Plan(drafting=SHAPES[name], verifier=verifier, sampling=sampling), *models()
    )


def alone(decoder: Decoder, asked: Asked):
    return decoder.generate(
        asked.prompt, max_new_tokens=asked.max_new_tokens, seed=asked.seed,
        stop_tokens=asked.stop_tokens,
    )  # fmt: skip


def run_together(decoder: Decoder, mix: Sequence[Asked], max_rows: int) -> list:
    """Requests, each over."""
    scheduler = Scheduler(decoder, max_rows=max_rows)
    requests: dict[int, object] = {}
    step, left = 0, True
    while left or step <= max(asked.submitted for asked in mix):
        for number, asked in enumerate(mix):
            if asked.submitted == step:
                requests[number] = scheduler.submit(
                    asked.prompt, max_new_tokens=asked.max_new_tokens, seed=asked.seed,
                    stop_tokens=asked.stop_tokens,
                )  # fmt: skip
            if asked.cancelled == step:
                requests[number].cancel()
        left = scheduler.step()
        assert scheduler.num_rows <= max_rows
        step += 1
    assert all(request.done for request in requests.values())
    return [requests[number] for number in range(len(mix))]


def assert_as_alone(decoder: Decoder, mix: Sequence[Asked], max_rows: int) -> None:
    for request, asked in zip(run_together(decoder, mix, max_rows), mix, strict=True):
        expected = alone(decoder, asked)
        if asked.cancelled is None:
            got = request.generation()
            assert got.tokens == expected.tokens
            assert got.logprobs == expected.logprobs
            assert_same_steps(got.report.measured, expected.report.measured)
        else:
            assert request.tokens == expected.tokens[: len(request.tokens)]
            assert len(request.tokens) < len(expected.tokens)


def assert_same_steps(got, expected) -> None:
    untimed = {"ms_per_token": 0.0, "phases": expected.phases}
    assert got.model_copy(update=untimed) == expected.model_copy(update=untimed)


@pytest.mark.parametrize(("name", "verifier", "temperature"), CASES)
def test_every_row_is_the_text_that_its_seed_gives_alone(name, verifier, temperature):
    """Token by token and tree by tree: table models give the same numbers in any pass, and refuse
    a row that sees what is not of its own text."""
    decoder = replace(decoder_of(name, verifier, temperature), logprobs=True)
    assert_as_alone(decoder, MIX, max_rows=3)


@pytest.mark.parametrize("max_rows", [1, 2, 5, 9])
def test_how_many_rows_there_are_changes_no_text(max_rows):
    assert_as_alone(decoder_of("tree"), MIX, max_rows)


@pytest.mark.parametrize("beside", ["itself", "look-up", "a head"])
def test_other_drafts_do_too(beside):
    target = table(5, seed=0)
    plan = Plan(drafting=SHAPES["tree"], verifier="rrsw", sampling=SAMPLING)
    draft = {"itself": target, "look-up": LookupModel(target), "a head": target}[beside]
    decoder = Decoder.from_plan(plan, target, draft)
    if beside == "a head":
        drafting = chains(4)["stop by head"]
        draft = ShowingTable(torch.randn(5, 5, generator=torch.Generator().manual_seed(3)).double())
        plan = plan.model_copy(update={"drafting": drafting})
        decoder = Decoder(plan, target, draft, score=lambda hidden: 1 - hidden.amax(-1))
    assert_as_alone(decoder, MIX, max_rows=3)


def pair_law(num_new: int, parents: list[int], verifier: str, answer=None) -> dict:
    """The joint law of two texts that decode together, one step of difference between them."""
    target, draft = table(3, seed=0), table(3, seed=1, order=1)
    policy = FixedTree(Tree(parents))

    def experiment(rng):
        rows = [
            Session(target, draft, verifier=VERIFIERS[verifier], sampling=SAMPLING, rng=rng)
            for _ in range(2)
        ]
        together([row.prefilling(PROMPT) for row in rows], last=target)
        while missing := [row for row in rows if len(row.tokens) < len(PROMPT) + num_new]:
            steps = [
                row.stepping(policy, max_tokens=len(PROMPT) + num_new - len(row.tokens))
                for row in missing
            ]
            together(steps, last=target)
        return tuple(tuple(row.tokens[len(PROMPT) :]) for row in rows)

    return law(experiment)


@pytest.mark.parametrize("verifier", ["rrsw", "topk", "traversal"])
def test_two_rows_have_the_product_of_their_own_laws(verifier):
    """Exactly, over all that both may draw: neither knows of the other."""
    expected = autoregressive_law(table(3, seed=0), 2)
    product = {(a, b): p * q for a, p in expected.items() for b, q in expected.items()}
    assert distance(pair_law(2, [-1, 0, 0], verifier), product) < EXACT


def test_answers_of_a_neighbour_are_seen_in_the_law(monkeypatch):
    """A wrong variant: where both rows verify trees of one size, each gets the other's logits."""
    own = passes_module.answers

    def exchanged(inputs):
        found = own(inputs)
        same = len({len(each.logits) for each in found}) == 1
        return found[::-1] if same else found

    monkeypatch.setattr(passes_module, "answers", exchanged)
    expected = autoregressive_law(table(3, seed=0), 2)
    product = {(a, b): p * q for a, p in expected.items() for b, q in expected.items()}
    assert distance(pair_law(2, [-1, 0, 0], "rrsw"), product) > 1e-3


def test_rows_that_share_a_source_are_seen(monkeypatch):
    """A wrong variant: one generator for all, as if a batch were one text."""
    shared = decode.seeded_source(0, torch.device("cpu"))
    decoder = decoder_of("tree")
    mix = [replace(asked, seed=0) for asked in MIX]
    expected = [alone(decoder, asked).tokens for asked in mix]
    monkeypatch.setattr(decode, "seeded_source", lambda seed, device: shared)
    got = [request.tokens for request in run_together(decoder, mix, 3)]
    assert got[:3] != expected[:3]


def test_a_row_that_reads_its_neighbours_cache_is_seen():
    """A wrong variant: rows' caches change places in the target's passes."""

    class Mixed(TableModel):
        def forward_batch(self, inputs: Sequence[PassInput]) -> list[PassOutput]:
            caches = [asked.cache for asked in inputs]
            moved = zip(inputs, caches[1:] + caches[:1], strict=True)
            return [asked._replace(cache=cache).answer() for asked, cache in moved]

    target = Mixed(table(5, seed=0)._table.view(5, 5, 5))
    decoder = replace(decoder_of("tree"), target=target)
    with pytest.raises(ValueError, match="sees"):
        assert_as_alone(decoder, MIX, max_rows=3)


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


def test_a_decoder_that_follows_the_machine_is_refused():
    decoder = replace(decoder_of("tree"), loop=object())
    with pytest.raises(PlannerError, match="got one that follows the machine"):
        Scheduler(decoder)


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
