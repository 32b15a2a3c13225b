"""Texts that decode together are those that each would be alone, whoever their neighbours are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
import torch

from planner import Plan, Tree
from planner.documents.sampling import Sampling
from planner.policies import Drafting, TreeDrafting
from planner.policies.fixed import FixedTree
from runtime import VERIFIERS, Decoder, LookupModel, Scheduler, Session, TableModel, decode
from runtime import passes as passes_module
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


def run_together(
    decoder: Decoder, mix: Sequence[Asked], max_rows: int, prefill_tokens: int | None = None
) -> list:
    """Requests, each over."""
    scheduler = Scheduler(decoder, max_rows=max_rows, prefill_tokens=prefill_tokens)
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


def pair_law(num_new: int, parents: list[int], verifier: str) -> dict:
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
