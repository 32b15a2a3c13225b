"""`tree_kernels` inside transformers: logits of plain passes, no mask, and who is not served."""

from __future__ import annotations

import copy
import logging
import os

import numpy as np
import pytest
import torch

from planner import PlannerError
from runtime import Decoder, HuggingFaceModel, attention, load_model, loading
from runtime.loading import with_attention
from tests.runtime.small_models import VOCABULARY, plan, small_model
from tests.runtime.test_tree_passes import assert_equal, node_texts, plain_logits, random_tree

NAME = "tree" if os.environ.get("TRITON_INTERPRET") == "1" else "tree (reference)"
"""Under the interpreter, too: `tests/kernels/test_interpreter.py` asks for two of these tests."""
GROUPED = ("llama", "qwen2", "mistral")
"""Each with four query heads over two key-value heads."""


@pytest.mark.parametrize("family", GROUPED)
def test_a_tree_of_24_nodes_equals_24_texts(family):
    """And so do two trees more, each behind the accepted path of the one before; texts are read by
    transformers' own sdpa."""
    model = HuggingFaceModel(small_model(family, attention="tree"))
    plain = HuggingFaceModel(small_model(family))
    assert model.attention == NAME
    rng = np.random.default_rng(sum(map(ord, family)))
    prefix = rng.integers(VOCABULARY, size=11).tolist()
    cache = model.new_cache(16)
    model.forward(torch.tensor(prefix), torch.arange(11), cache, num_logits=0)
    for _ in range(3):
        tree = random_tree(rng, 24)
        tokens = rng.integers(VOCABULARY, size=24)
        positions = torch.from_numpy(len(prefix) + tree.depths.astype(np.int64))
        visible = torch.from_numpy(tree.ancestors)
        logits = model.forward(torch.from_numpy(tokens), positions, cache, visible)
        texts = node_texts(prefix, tree, tokens.tolist())
        for node, text in enumerate(texts):
            assert_equal(logits[node], plain_logits(plain, text))
        leaf = int(rng.choice(np.flatnonzero(tree.num_children == 0)))
        cache.keep_rows(len(prefix), np.flatnonzero(tree.ancestors[leaf]).tolist())
        prefix = texts[leaf]


@pytest.mark.parametrize("family", GROUPED)
def test_passes_over_some_nodes_of_each_depth_equal_their_texts(family):
    """Rows as a draft model reads a tree: only nodes that are expanded have some, in the order of
    their passes, and nodes of different depths may share a pass; 40 rows need two words of bits."""
    model = HuggingFaceModel(small_model(family, attention="tree"))
    plain = HuggingFaceModel(small_model(family))
    rng = np.random.default_rng(7)
    tree = random_tree(rng, 60)
    tokens = rng.integers(VOCABULARY, size=60)
    prefix = [3, 1, 4, 1, 5]
    cache = model.new_cache(1)
    model.forward(torch.tensor(prefix), torch.arange(5), cache, num_logits=0)
    texts = node_texts(prefix, tree, tokens.tolist())
    rows: list[int] = []
    while len(rows) < 40:
        ready = [n for n, p in enumerate(tree.parents) if n not in rows and (p < 0 or p in rows)]
        new = rng.permutation(ready)[:7].tolist()
        rows += new
        logits = model.forward(
            torch.from_numpy(tokens[new]),
            torch.from_numpy(5 + tree.depths[new].astype(np.int64)),
            cache,
            torch.from_numpy(tree.ancestors[np.ix_(new, rows)]),
        )
        for row, node in enumerate(new):
            assert_equal(logits[row], plain_logits(plain, texts[node]))


def test_no_mask_is_made_and_the_kernels_are_called(monkeypatch):
    """Once a layer and pass, but for a text from its start, which is no tree."""
    seen = []
    ours = attention.tree_attention

    def counted(query, key, value, prefix_lengths, bits, *, tree_rows, **others):
        seen.append((prefix_lengths.tolist(), tree_rows.tolist(), list(bits.shape)))
        return ours(query, key, value, prefix_lengths, bits, tree_rows=tree_rows, **others)

    def no_mask(*sizes, **kind):
        raise AssertionError("a mask")

    model = HuggingFaceModel(small_model("llama", attention="tree"))
    monkeypatch.setattr(attention, "tree_attention", counted)
    monkeypatch.setattr("transformers.masking_utils.sdpa_mask", no_mask)
    monkeypatch.setattr("transformers.masking_utils.eager_mask", no_mask)
    cache = model.new_cache(8)
    model.forward(torch.arange(5), torch.arange(5), cache)
    assert seen == []
    siblings = torch.tensor([[1, 1, 0], [1, 0, 1]]).bool()
    model.forward(torch.tensor([1]), torch.tensor([5]), cache)
    model.forward(torch.tensor([2, 3]), torch.tensor([6, 6]), cache, siblings)
    model.forward(torch.tensor([1, 2, 3]), torch.tensor([7, 8, 9]), cache)
    assert seen == 2 * [([5], [1], [1, 1, 1])] + 2 * [([5], [3], [1, 2, 1])] + 2 * [
        ([8], [3], [1, 3, 1])
    ]


@pytest.mark.parametrize(
    ("num_rows", "size"), [(1, 1), (3, 3), (2, 31), (2, 32), (5, 33), (64, 64), (3, 100)]
)
def test_packed_bits_are_the_mask(num_rows, size):
    """Against bits set one by one."""
    visible = torch.rand(num_rows, size, generator=torch.Generator().manual_seed(size)) < 0.5
    bits = attention.PackedBits(torch.device("cpu"), torch.float32, 8)
    tree = bits.arguments(num_rows, 1000, visible)["token_tree"]
    assert (tree.prefix_lengths.tolist(), tree.num_rows.tolist()) == (
        [1000 + num_rows - size],
        [size],
    )
    assert tree.bits.dtype == torch.int32
    assert tree.bits.shape == (1, num_rows, -(-size // 32))
    for row in range(num_rows):
        for word, value in enumerate(tree.bits[0, row].tolist()):
            seen = visible[row, 32 * word : 32 * word + 32].tolist()
            assert value & 0xFFFFFFFF == sum(1 << bit for bit, sees in enumerate(seen) if sees)


FORKED = [-1, 0, 0, 0, 1, 1, 2, 4, 4, 7]


@pytest.mark.parametrize(
    ("family", "parents"),
    [("llama", [-1]), ("llama", [-1, 0, 1, 2])]
    + [(family, FORKED) for family in (*GROUPED, "qwen3", "gemma3_text")],
)
def test_greedy_decoding_is_that_of_sdpa(family, parents):
    """One of them for as many tokens as are decoded unasked."""
    most = 128 if (family, parents) == ("llama", FORKED) else 40
    target, draft = small_model(family), small_model("llama", seed=1, layers=1, hidden=16)
    trees = [with_attention(copy.deepcopy(model), "tree") for model in (target, draft)]
    expected, got = (
        Decoder.from_plan(plan(parents), *pair).generate([11, 42, 7], max_new_tokens=most)
        for pair in ((target, draft), trees)
    )
    assert got.tokens == expected.tokens
    assert got.report.execution.attention == NAME
    assert expected.report.execution.attention.startswith("sdpa")


@pytest.mark.parametrize("wanted", ["tree", "sdpa", "eager", "auto"])
def test_a_loaded_model_is_served_as_asked_for(tmp_path, wanted):
    small_model("qwen2").save_pretrained(tmp_path)
    model = load_model(tmp_path, attention=wanted)
    names = {"tree": NAME, "auto": "sdpa, fused", "sdpa": "sdpa, fused"}
    assert model.attention == names.get(wanted, wanted)
    text = [1, 2, 3, 4]
    plain = HuggingFaceModel(small_model("qwen2"))
    assert_equal(plain_logits(model, text), plain_logits(plain, text))


def test_auto_takes_the_kernel_where_there_is_one(monkeypatch):
    monkeypatch.setattr(loading, "available", lambda device, dtype, head_dim: None)
    model = with_attention(copy.deepcopy(small_model("llama")))
    assert model.module.config._attn_implementation == attention.TREE


@pytest.mark.parametrize("family", ["gemma2", "llama"])
def test_auto_says_in_one_line_why_not_the_kernel(monkeypatch, caplog, family):
    """Gemma 2 caps its scores; the Llama's kernel is made to fail."""

    def failing(*tensors, **settings):
        raise ValueError("no such kernel")

    monkeypatch.setattr(loading, "available", lambda device, dtype, head_dim: None)
    monkeypatch.setattr(attention, "tree_attention", failing)
    with caplog.at_level(logging.WARNING):
        own = "eager" if family == "gemma2" else "sdpa"
        model = with_attention(copy.deepcopy(small_model(family, attention=own)), name="mine")
    expected = {
        "gemma2": "mine: attention eager, not the tree kernel: attention scores that are capped",
        "llama": "mine: attention sdpa, not the tree kernel: mine: got a model that does not comp",
    }
    assert [line[: len(expected[family])] for line in caplog.messages] == [expected[family]]
    assert "\n" not in caplog.messages[0]
    assert model.attention in (own, f"{own}, fused")
    text = [1, 2, 3, 4]
    plain = HuggingFaceModel(small_model(family, attention="eager"))
    assert_equal(plain_logits(model, text), plain_logits(plain, text))


@pytest.mark.parametrize("wanted", ["tree", "sdpa"])
def test_capped_scores_are_refused_in_one_line(wanted):
    """We refuse, or transformers, whose later versions have no sdpa for this family."""
    words = "got attention scores that are capped|attention: got 'sdpa', which transformers has not"
    with pytest.raises(PlannerError, match=words) as caught:
        with_attention(copy.deepcopy(small_model("gemma2", attention="eager")), wanted)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("argument", ["softcap", "s_aux", "position_bias", "attention_mask"])
def test_what_a_layer_asks_beyond_scaled_scores_is_refused(argument):
    state = torch.zeros(1, 2, 1, 8)
    arguments = {"attention_mask": None, argument: torch.ones(2)}
    with pytest.raises(PlannerError, match="which tree attention does not know"):
        attention._attend(torch.nn.Identity(), state, state, state, **arguments)


def test_what_comes_back_can_be_viewed_as_transformers_own_can():
    """Models go on with `view`, with the rows of one text and with those of several."""
    query, key = torch.ones(1, 4, 3, 8), torch.ones(1, 2, 3, 8)
    one, _ = attention._attend(None, query, key, key, None)
    both, _ = attention._attend(None, query, [key], [key], None, token_tree=[(3, None)])
    assert torch.equal(one.view(1, 3, 32), both.view(1, 3, 32))


@pytest.mark.parametrize("family", GROUPED)
def test_texts_that_transformers_continues_by_itself_are_those_of_sdpa(family):
    """Passes as when acceptance is measured: two prompts at once, in transformers' own cache."""
    prompts, following = torch.tensor([[3, 1, 4, 1], [2, 7, 1, 8]]), torch.tensor([[5], [2]])
    logits = []
    for wanted in ("tree", "sdpa"):
        module = with_attention(copy.deepcopy(small_model(family)), wanted).module
        with torch.inference_mode():
            begun = module(input_ids=prompts, use_cache=True)
            further = module(input_ids=following, past_key_values=begun.past_key_values)
        logits.append(torch.cat((begun.logits, further.logits), 1))
    assert_equal(*logits)


def test_a_model_that_keeps_the_tree_from_its_layers_is_refused():
    query, key = torch.zeros(1, 2, 2, 8), torch.zeros(1, 2, 3, 8)
    with pytest.raises(PlannerError, match="does not hand the tree down"):
        attention._attend(torch.nn.Identity(), query, key, key, None)


def test_an_unknown_attention_is_refused_in_one_line():
    for question in (with_attention, load_model):
        with pytest.raises(PlannerError, match="got 'fast', expected one of auto, tree, sdpa"):
            question(small_model("llama") if question is with_attention else ".", attention="fast")
