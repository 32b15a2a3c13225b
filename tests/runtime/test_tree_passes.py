"""One pass over a tree gives every node the logits of a plain pass over its own text."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from planner import PlannerError, Tree
from runtime import HuggingFaceModel, LanguageModel, TableModel, as_language_model
from tests.runtime.small_models import FAMILIES, POSITIONS, VOCABULARY, small_model

ROUNDING = 2e-6
"""Per unit of the largest logit.  float32 rounds to 6e-8; the order of summation over at most 128
products, in two layers, multiplies that by some ten."""


SERVED = [(family, "eager") for family in FAMILIES]
SERVED += [
    (family, attention)
    for family in FAMILIES
    if family != "gemma2"  # it caps its scores
    for attention in ("sdpa", "tree")
]


def random_tree(rng: np.random.Generator, num_nodes: int) -> Tree:
    parents = np.sort([rng.integers(max(1, node)) for node in range(1, num_nodes)]).tolist()
    return Tree([-1, *map(int, parents)])


def node_texts(prefix: list[int], tree: Tree, tokens: list[int]) -> list[list[int]]:
    texts: list[list[int]] = []
    for node, parent in enumerate(tree.parents):
        texts.append([*(prefix if parent < 0 else texts[parent]), tokens[node]])
    return texts


def plain_logits(model: LanguageModel, text: list[int]) -> torch.Tensor:
    ids, places = torch.tensor(text), torch.arange(len(text))
    return model.forward(ids, places, model.new_cache(0), num_logits=1)[0]


def assert_equal(got: torch.Tensor, expected: torch.Tensor) -> None:
    assert (got - expected).abs().max() <= ROUNDING * expected.abs().max()


@pytest.mark.parametrize(("family", "attention"), SERVED)
def test_a_pass_over_a_tree_equals_a_pass_over_each_branch(family, attention):
    """Three trees one after the other, each behind the accepted path of the one before; the third
    level by level, as a draft model reads it."""
    model = HuggingFaceModel(small_model(family, attention=attention))
    rng = np.random.default_rng(len(family))
    prefix = rng.integers(VOCABULARY, size=7).tolist()
    cache = model.new_cache(10)
    model.forward(torch.tensor(prefix), torch.arange(7), cache, num_logits=0)
    for num_nodes in (1, 13, 8):
        tree = random_tree(rng, num_nodes)
        tokens = rng.integers(VOCABULARY, size=num_nodes).tolist()
        positions = torch.from_numpy(len(prefix) + tree.depths.astype(np.int64))
        visible = torch.from_numpy(tree.ancestors)
        logits = model.forward(torch.tensor(tokens), positions, cache, visible)
        texts = node_texts(prefix, tree, tokens)
        for node, text in enumerate(texts):
            assert_equal(logits[node], plain_logits(model, text))
        last = num_nodes - 1
        path = np.flatnonzero(tree.ancestors[last]).tolist()
        cache.keep_rows(len(prefix), path)
        prefix = texts[last]
        assert cache.length == len(prefix)


@pytest.mark.parametrize("attention", ["sdpa", "tree"])
@pytest.mark.parametrize("family", ["llama", "gemma3_text"])
def test_a_tree_read_level_by_level_equals_a_pass_over_each_branch(family, attention):
    model = HuggingFaceModel(small_model(family, attention=attention))
    rng = np.random.default_rng(1)
    tree = random_tree(rng, 12)
    tokens = rng.integers(VOCABULARY, size=12)
    prefix = [3, 1, 4, 1, 5]
    cache = model.new_cache(1)
    model.forward(torch.tensor(prefix), torch.arange(5), cache)
    texts = node_texts(prefix, tree, tokens.tolist())
    for depth in range(tree.depth + 1):
        level = np.flatnonzero(tree.depths == depth)
        logits = model.forward(
            torch.from_numpy(tokens[level]),
            torch.full((len(level),), 5 + depth),
            cache,
            torch.from_numpy(tree.ancestors[level][:, : level[-1] + 1]),
        )
        for row, node in enumerate(level):
            assert_equal(logits[row], plain_logits(model, texts[node]))


@pytest.mark.parametrize("num_logits", [0, 1, 3, None])
def test_only_the_wanted_logits_come_back(num_logits):
    model = HuggingFaceModel(small_model("llama"))
    ids, places = torch.tensor([5, 6, 7, 8]), torch.arange(4)
    cache = model.new_cache(4)
    some = model.forward(ids, places, cache, num_logits=num_logits)
    all_rows = model.forward(ids, places, model.new_cache(4))
    wanted = 4 if num_logits is None else num_logits
    assert some.shape == (wanted, VOCABULARY)
    assert torch.allclose(some, all_rows[4 - wanted :], atol=1e-5)
    assert cache.length == 4


@pytest.mark.parametrize("attention", ["sdpa", "eager", "tree"])
def test_a_second_causal_pass_continues_the_first(attention):
    model = HuggingFaceModel(small_model("mistral", attention=attention))
    text = [9, 8, 7, 6, 5, 4, 3]
    cache = model.new_cache(2)
    model.forward(torch.tensor(text[:3]), torch.arange(3), cache)
    logits = model.forward(torch.tensor(text[3:]), torch.arange(3, 7), cache)
    for row in range(4):
        assert_equal(logits[row], plain_logits(model, text[: 4 + row]))


LONGROPE = {
    "rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 9,
    "short_factor": [1.0] * 4, "long_factor": [4.0] * 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("family", "change"),
    [
        ("mistral", {"sliding_window": 9}),
        ("phi3", {"rope_parameters": LONGROPE, "original_max_position_embeddings": 9}),
        ("phi3", {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}),
        ("llama", {"keep_window_size": 9}),
    ],
    ids=["window", "longrope", "default", "kept rows"],
)
def test_a_model_is_served_as_far_as_the_rows_of_a_text_stay_what_they_are(family, change):
    served = HuggingFaceModel(changed_model(family, change))
    assert served.max_positions == (POSITIONS if family == "phi3" and len(change) == 1 else 9)


def changed_model(family: str, change: dict):
    known = small_model(family).config.to_dict()
    del known["model_type"]
    config = AutoConfig.for_model(family, **{**known, **change})
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()


def test_info_describes_the_model_and_fingerprints_its_weights():
    info = HuggingFaceModel(small_model("llama"), name="tiny").info
    assert (info.name, info.vocab_size, info.max_positions) == ("tiny", VOCABULARY, POSITIONS)
    assert (info.hidden_size, info.num_layers) == (32, 2)
    assert info.num_parameters == sum(w.numel() for w in small_model("llama").parameters())
    again = HuggingFaceModel(small_model("llama", attention="eager"), name="other name").info
    other = HuggingFaceModel(small_model("llama", seed=1)).info
    assert info.fingerprint == again.fingerprint
    assert info.fingerprint != other.fingerprint


def test_the_fingerprint_sees_the_shape_that_the_weights_do_not_show():
    config = small_model("llama").config
    heads = type(config)(**{**config.to_dict(), "num_attention_heads": 4, "rms_norm_eps": 1e-3})
    twin = type(small_model("llama"))(heads)
    twin.load_state_dict(small_model("llama").state_dict())
    before, after = HuggingFaceModel(small_model("llama")), HuggingFaceModel(twin)
    assert before.info.fingerprint != after.info.fingerprint


def test_where_an_inflated_model_comes_from_is_kept():
    model = small_model("llama", seed=2)
    model.config.inflated_from = {"hidden_size": 16}
    assert HuggingFaceModel(model).info.inflated_from == {"hidden_size": 16}


@pytest.mark.parametrize(
    "family",
    ["mamba", "t5", "gpt2_flash", "both ways", "not causal"],
    ids=["recurrent", "encoder-decoder", "flash", "both ways", "not causal"],
)
def test_what_cannot_be_served_is_refused_in_one_line(family):
    with pytest.raises(PlannerError) as caught:
        HuggingFaceModel(unserved(family))
    assert "\n" not in str(caught.value)
    assert "expected a causal language model with full attention" in str(caught.value)


def unserved(family: str):
    from transformers import (
        LlamaForCausalLM,
        MambaConfig,
        MambaForCausalLM,
        T5Config,
        T5ForConditionalGeneration,
    )

    if family == "both ways":
        return changed_model("gemma3_text", {"use_bidirectional_attention": True})
    if family == "not causal":
        return changed_model("llama", {"is_causal": False})
    if family == "mamba":
        return MambaForCausalLM(MambaConfig(vocab_size=7, hidden_size=8, num_hidden_layers=1))
    if family == "t5":
        return T5ForConditionalGeneration(
            T5Config(vocab_size=7, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
        )
    model = LlamaForCausalLM(
        small_model("llama").config.__class__(
            vocab_size=7,
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
        )
    )
    model.config._attn_implementation = "flash_attention_2"
    return model


@pytest.mark.parametrize("thing", [torch.nn.Linear(2, 2), "a name", None])
def test_something_else_is_no_language_model(thing):
    with pytest.raises(PlannerError, match=r"expected a transformers causal language model"):
        as_language_model(thing)


def test_a_language_model_is_taken_as_it_is():
    model = TableModel(torch.zeros(3, 3))
    assert as_language_model(model) is model


@pytest.mark.parametrize(
    ("positions", "visible", "fault"),
    [
        ([2, 4], None, "positions"),
        ([2, 2], [[1, 0], [1, 1]], "positions"),
        ([2, 3], [[1, 0], [0, 1]], "positions"),
        ([2, 3], [[1, 1], [1, 1]], "itself"),
        ([2, 3], [[1, 0], [1, 0]], "itself"),
    ],
)
def test_the_table_model_catches_wrong_masks_and_positions(positions, visible, fault):
    """Two new rows behind two: right would be positions 2, 3 in a chain, or 2, 2 as siblings."""
    model = TableModel(torch.zeros(3, 3))
    cache = model.new_cache(0)
    model.forward(torch.tensor([0, 1]), torch.tensor([0, 1]), cache)
    mask = None if visible is None else torch.tensor(visible, dtype=torch.bool)
    with pytest.raises(ValueError, match=fault):
        model.forward(torch.tensor([2, 2]), torch.tensor(positions), cache, mask)


def test_the_table_model_catches_a_wrongly_kept_row():
    model = TableModel(torch.zeros(3, 3))
    cache = model.new_cache(0)
    siblings = torch.eye(2, dtype=torch.bool)
    model.forward(torch.tensor([0]), torch.tensor([0]), cache)
    model.forward(torch.tensor([1, 2]), torch.tensor([1, 1]), cache, siblings)
    cache.keep_rows(1, [0, 1])  # two rows of one position
    with pytest.raises(ValueError, match="positions"):
        model.forward(torch.tensor([1]), torch.tensor([2]), cache)
