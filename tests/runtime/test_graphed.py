"""Recorded passes: what transformers' own compute, from any text, place and size; recorded once.

On a CPU a stand-in does a pass's operations again on the same memory, as a CUDA graph does.
"""

from __future__ import annotations

import gc
import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from planner.documents.sampling import Sampling
from planner.plans.plan import Plan
from planner.policies import GreedyDrafting
from profiler.target_texts import sample_continuations
from runtime import Decoder, HuggingFaceModel, attention, graphs, llama_pass
from runtime.graphed import GraphedModel, Store, Stores, capacity_for, graphed
from runtime.graphs import SIZES, PassSize, RowsOfStore, size_for, up_to
from runtime.language_model import LanguageModel, PassInput
from runtime.llama_pass import LlamaLayers
from runtime.llama_shape import FAMILIES as FAMILIES_OF_LLAMA
from runtime.machine import describe_execution
from runtime.models import fingerprint
from tests.runtime.recorded_ops import RecordedOps, attention_on_device
from tests.runtime.small_models import FAMILIES, POSITIONS, VOCABULARY, plan, small_model
from tests.runtime.test_tree_passes import assert_equal, random_tree

SERVED = [family for family in FAMILIES if family != "gemma2"]  # it caps its scores
GROWING = Plan(
    drafting=GreedyDrafting(num_nodes=9, max_depth=4, max_children=3),
    verifier="rrsw",
    sampling=Sampling(temperature=0.6),
)


@pytest.fixture(autouse=True)
def _attention_without_waits(monkeypatch):
    monkeypatch.setattr(attention, "tree_attention", attention_on_device)


def both(family: str = "llama", **shape: int) -> tuple[GraphedModel, HuggingFaceModel, RecordedOps]:
    model, recorder = small_model(family, attention="tree", **shape), RecordedOps()
    quick = graphed(model, recorder=recorder)
    assert isinstance(quick, GraphedModel)
    return quick, HuggingFaceModel(model), recorder


def a_text_and_its_trees(model: LanguageModel) -> list[torch.Tensor]:
    """Logits of a prompt, of pieces behind it, of trees that are kept in part and rewound."""
    rng, cache, found = np.random.default_rng(0), model.new_cache(0), []

    def read(tokens, positions, visible=None, wanted=None):
        found.append(
            model.forward(
                torch.from_numpy(tokens), torch.from_numpy(positions), cache, visible,
                num_logits=wanted,
            )
        )  # fmt: skip

    read(rng.integers(VOCABULARY, size=40), np.arange(40), wanted=0)
    for num_nodes in (1, 13, 8, 24, 5):
        tree, length = random_tree(rng, num_nodes), cache.length
        visible = torch.from_numpy(tree.ancestors)
        read(rng.integers(VOCABULARY, size=num_nodes), length + tree.depths, visible)
        path = np.flatnonzero(tree.ancestors[num_nodes - 1]).tolist()
        cache.keep_rows(length, path)
        read(rng.integers(VOCABULARY, size=2), cache.length + np.arange(2), wanted=1)
        cache.rewind(cache.length - 1)
    return found


@pytest.mark.parametrize("family", SERVED)
def test_recorded_passes_are_those_of_transformers(family):
    quick, plain, _ = both(family)
    words = "fused, graphs" if family in FAMILIES_OF_LLAMA else "graphs"
    assert quick.attention == f"{plain.attention}, {words}"
    for got, expected in zip(a_text_and_its_trees(quick), a_text_and_its_trees(plain), strict=True):
        assert got.shape == expected.shape
        if len(got):
            assert_equal(got, expected)


def test_documents_say_that_passes_are_recorded():
    quick, plain, _ = both()
    assert describe_execution(quick).cuda_graphs
    assert not describe_execution(plain).cuda_graphs


def test_logits_that_were_asked_for_stay_and_those_of_a_step_go():
    """A step's are looked at before the next pass; whoever calls `forward` may keep them."""
    quick, _, _ = both()
    cache = quick.new_cache(8)
    quick.forward(torch.arange(9), torch.arange(9), cache, num_logits=0)
    rows = [(torch.tensor([5 + place]), torch.tensor([9 + place])) for place in range(2)]
    kept = quick.forward(*rows[0], cache)
    expected = kept.clone()
    answered = PassInput(quick, *rows[1], cache).answer()
    assert torch.equal(kept, expected)
    cache.rewind(10)
    assert torch.equal(quick.forward(*rows[1], cache), answered.logits)
    cache.rewind(9)
    quick.forward(*rows[0], cache)
    assert torch.equal(answered.logits, expected)


def test_a_second_text_records_nothing():
    quick, _, recorder = both()
    first = a_text_and_its_trees(quick)
    gc.collect()
    before = recorder.num_recorded
    second = a_text_and_its_trees(quick)
    assert recorder.num_recorded == before
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)


def test_hidden_states_are_those_before_the_output_layer():
    quick, plain, _ = both()
    found = []
    for model in (quick, plain):
        cache = model.new_cache(8)
        model.forward(torch.arange(9), torch.arange(9), cache, num_logits=0)
        rows = torch.tensor([4, 2, 7]), torch.arange(9, 12), cache
        found.append(model.forward_with_hidden(*rows, num_logits=2))
    for got, expected in zip(*found, strict=True):
        assert got.shape == expected.shape
        assert_equal(got, expected)


def test_a_text_is_left_alone_where_a_pass_is_recorded_behind_it_and_where_rows_are_added():
    """Neither the passes before a record nor rows that only fill a size up write to it."""
    quick, _, recorder = both()
    cache = quick.new_cache(8)
    quick.forward(torch.arange(30), torch.arange(30), cache, num_logits=0)
    rows = cache.taken(0).rows
    before, num_recorded = rows[:, :, :, :30].clone(), recorder.num_recorded
    quick.forward(torch.arange(9), torch.arange(30, 39), cache)
    assert recorder.num_recorded == num_recorded + 1
    assert torch.equal(rows[:, :, :, :30], before)
    nine = rows[:, :, :, :39].clone()
    quick.forward(torch.arange(5), torch.arange(39, 44), cache)
    assert torch.equal(rows[:, :, :, :39], nine)


def test_a_full_store_makes_room():
    quick, plain, _ = both()
    text = torch.arange(POSITIONS - 1) % VOCABULARY
    found = []
    for model in (quick, plain):
        cache = model.new_cache(0)
        model.forward(text[:100], torch.arange(100), cache, num_logits=0)
        if model is quick:
            cache._store = cache._store[:, :, :, :102]  # as if it had been made so small
        logits = [
            model.forward(text[n : n + 9], torch.arange(n, n + 9), cache)
            for n in range(100, 145, 9)
        ]
        found.append(torch.cat(logits))
    assert_equal(*found)


def test_texts_at_a_time_have_their_own_stores():
    quick, plain, _ = both()
    for model in (quick, plain):
        caches = [model.new_cache(8) for _ in range(2)]
        for start, cache in enumerate(caches):
            model.forward(start + torch.arange(9), torch.arange(9), cache, num_logits=0)
        logits = [model.forward(torch.tensor([1]), torch.tensor([9]), cache) for cache in caches]
        if model is quick:
            got = logits
    for one, other in zip(got, logits, strict=True):
        assert_equal(one, other)
    assert not torch.equal(*got)


def test_stores_are_left_to_the_next_text_and_to_a_larger_one_their_memory():
    stores, like = Stores(), torch.zeros(1)
    small, other = (stores.take(like, (2, 1, 1, 1000, 4)) for _ in range(2))
    assert small.capacity == other.capacity == 1024
    other.passes[PassSize(1, 224)] = None
    for first, second in ((small, other), (other, small)):
        stores.give_back(first)
        stores.give_back(second)
        assert stores.take(like, (2, 1, 1, 1024, 4)) is other  # of which something is recorded
    stores.give_back(other)
    large = stores.take(like, (2, 1, 1, 1025, 4))
    assert large.capacity == 1280
    stores.give_back(small)
    stores.give_back(large)
    assert stores.take(like, (2, 1, 1, 10, 4)) is large
    assert isinstance(stores.take(like, (2, 1, 1, 10, 4)), Store)


@pytest.mark.parametrize(
    ("rows", "capacity"), [(1, 1024), (1024, 1024), (1025, 1280), (1281, 1536), (40_000, 40_960)]
)
def test_capacities_are_few_and_little_lies_idle(rows, capacity):
    assert capacity_for(rows) == capacity
    assert capacity < 1.25 * max(rows, 1024)


@pytest.mark.parametrize(("number", "size"), [(1, 1), (3, 4), (9, 16), (256, 256), (257, None)])
def test_a_pass_is_recorded_for_the_next_size(number, size):
    assert size_for(number, SIZES) == size


@pytest.mark.parametrize(
    ("number", "sizes"), [(1, (1,)), (3, (1, 2, 4)), (4, (1, 2, 4)), (600, SIZES)]
)
def test_sizes_that_serve_all_passes_up_to_one(number, sizes):
    assert tuple(up_to(number, SIZES)) == sizes


@pytest.mark.parametrize("wanted", [plan([-1, 0, 0, 1, 1], temperature=0.6), GROWING, plan([-1])])
def test_decoding_is_what_it_was_and_records_nothing_once_it_has_begun(wanted):
    target, plain_target, recorder = both()
    draft, plain_draft, drafts = both(seed=1, layers=1)
    texts, counts = [], []

    def count(_):
        counts.append(recorder.num_recorded + drafts.num_recorded)

    for models in ((target, draft), (plain_target, plain_draft)):
        decoder = Decoder.from_plan(wanted, *models)
        for prompt in ([3, 1, 4], list(range(50))):
            made = decoder.generate(
                prompt, max_new_tokens=40, seed=2, stop_tokens=[], on_tokens=count
            )
            texts.append(made.tokens)
    assert texts[:2] == texts[2:]
    assert len(set(counts)) == 1


def test_texts_together_record_nothing_but_their_last():
    """Passes that texts share are transformers'."""
    target, plain, recorder = both()
    before = recorder.num_recorded
    prompts = [[3, 1, 4], [1, 5, 9, 2], [6]]
    got, expected = (
        [
            each.tokens
            for each in Decoder.from_plan(plan([-1]), model).generate_batch(
                prompts, max_new_tokens=12, stop_tokens=[]
            )
        ]
        for model in (target, plain)
    )
    assert got == expected
    assert recorder.num_recorded == before


def test_a_pass_that_waits_for_the_device_is_not_recorded(monkeypatch, caplog):
    model = small_model("gemma", attention="tree")
    forward = model.model.rotary_emb.forward

    def waits(x, position_ids):
        assert position_ids.max().item() >= 0
        return forward(x, position_ids)

    monkeypatch.setattr(model.model.rotary_emb, "forward", waits)
    with caplog.at_level(logging.WARNING):
        served = graphed(model, recorder=RecordedOps())
    assert type(served) is HuggingFaceModel
    assert "cannot wait for the device" in caplog.text


@pytest.mark.parametrize("fault", ["places", "lengths"])
def test_records_that_compute_something_else_are_found(fault, monkeypatch, caplog):
    """New rows that always go to one place; a number of rows that is looked at once."""
    if fault == "places":
        update = RowsOfStore.update
        monkeypatch.setattr(
            RowsOfStore, "update",
            lambda self, *args, **kwargs: update(
                RowsOfStore(self._rows, torch.arange(len(self._places))), *args, **kwargs
            ),
        )  # fmt: skip
    else:
        tree = graphs.TokenTree
        monkeypatch.setattr(
            graphs, "TokenTree",
            lambda prefix, rows, bits: tree(torch.full_like(prefix, 3), rows, bits),
        )  # fmt: skip
    with caplog.at_level(logging.WARNING):
        served = graphed(small_model("gemma", attention="tree"), recorder=RecordedOps())
    assert type(served) is HuggingFaceModel
    assert "passes 'graphs' not taken" in caplog.text


def test_joined_layers_that_compute_something_else_are_passed_over(monkeypatch, caplog):
    monkeypatch.setattr(llama_pass, "gated", lambda gate_up: gate_up.chunk(2, -1)[0])
    with caplog.at_level(logging.WARNING):
        served = graphed(small_model("llama", attention="tree"), recorder=RecordedOps())
    assert type(served) is GraphedModel
    assert "passes 'fused, graphs' not taken" in caplog.text
    assert "'graphs'" not in caplog.text


def test_where_joined_layers_have_no_room_passes_are_those_of_transformers(monkeypatch, caplog):
    def full(modules):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(llama_pass, "together", full)
    with caplog.at_level(logging.WARNING):
        served = graphed(small_model("llama", attention="tree"), recorder=RecordedOps())
    assert type(served) is GraphedModel
    assert "passes 'fused, graphs' not taken: CUDA out of memory" in caplog.text


@pytest.mark.parametrize("family", FAMILIES_OF_LLAMA)
def test_joined_layers_hold_the_modules_own_weights(family):
    """Nothing is kept twice, and the module computes what it did."""
    model = small_model(family, seed=3, attention="tree")
    expected, name = model(torch.arange(9)[None]).logits, fingerprint(model, model.config)
    quick = graphed(model, recorder=RecordedOps())
    layer = LlamaLayers(model).layers[0]
    attention, mlp = layer.module.self_attn, layer.module.mlp
    assert attention.q_proj.weight.data_ptr() == layer.qkv.data_ptr()
    assert mlp.up_proj.weight.untyped_storage().data_ptr() == layer.gate_up.data_ptr()
    assert torch.equal(model(torch.arange(9)[None]).logits, expected)
    assert fingerprint(model, model.config) == name
    assert isinstance(quick, GraphedModel)


def test_other_attention_is_not_recorded():
    served = graphed(small_model("llama"), recorder=RecordedOps())
    assert type(served) is HuggingFaceModel


def test_sizes_that_are_made_ready_for():
    quick, _, recorder = both()
    cache, before = quick.new_cache(8), recorder.num_recorded
    quick.prepare(cache, 30)
    made = cache.taken(0).passes
    assert {PassSize(rows, 224) for rows in (1, 2, 4, 8, 16, 24, 32)} <= set(made)
    assert recorder.num_recorded > before
    quick.prepare(cache, 225)
    assert {PassSize(rows, tree) for rows in SIZES for tree in (224, 1024)} == set(made)


def test_texts_that_are_written_together_are_not_recorded():
    """So that none of so many needs a store of a record's size; nor does the last one, alone."""
    quick, plain, recorder = both()
    before, greedy = recorder.num_recorded, Sampling(temperature=0.0)
    prompts = [[1, 2, 3], [7], [9, 10, 11, 4, 5]]
    together = [sample_continuations(each, prompts, greedy, 12, seed=0) for each in (quick, plain)]
    assert together[0] == together[1]
    quick.stop_tokens = (together[0][1][5], together[0][2][3])
    shorter = sample_continuations(quick, prompts, greedy, 12, seed=0)
    assert [text[: len(short)] for text, short in zip(together[0], shorter, strict=True)] == shorter
    assert len(set(map(len, shorter))) > 1
    assert recorder.num_recorded == before


def test_what_a_step_is_answered_stays_once_another_thread_makes_passes_too():
    quick, _, _ = both()
    cache = quick.new_cache(8)
    quick.forward(torch.arange(9), torch.arange(9), cache, num_logits=0)
    answers = []
    with ThreadPoolExecutor(1) as other:
        other.submit(quick.new_cache, 8).result()
        for do in (lambda ask: ask(), lambda ask: other.submit(ask).result()):
            place = torch.tensor([cache.length])
            answers.append(do(PassInput(quick, place, place, cache).answer))
            if len(answers) == 1:
                expected = [each.clone() for each in answers[0]]
    for got, kept in zip(answers[0], expected, strict=True):
        assert torch.equal(got, kept)


def test_a_store_that_is_taken_meanwhile_is_not_given_twice():
    stores, taken = Stores(), []

    class Meanwhile(Store):
        """Another thread takes a store while this one is given back."""

        @property
        def capacity(self) -> int:
            taken.append(stores.take(torch.empty(0), (2, 1, 1, 1, 4)))
            return self.rows.shape[3]

    first = stores.take(torch.empty(0), (2, 1, 1, 1, 4))
    stores.give_back(first)
    stores.give_back(Meanwhile(torch.empty(2, 1, 1, 2, 4)))
    taken.append(stores.take(torch.empty(0), (2, 1, 1, 1, 4)))
    assert len({id(each) for each in taken}) == len(taken)
