"""A config.json says how large a model is: counted here, and by those who made the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner import PlannerError
from planner.cli.configs import shape_named
from planner.documents.model_shape import FAMILIES, ModelShape

DATA = Path(__file__).parent.parent.parent / "notebooks" / "data"
PLAIN = {
    "model_type": "llama",
    "vocab_size": 11,
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 10,
    "max_position_embeddings": 64,
}
PUBLISHED = {
    6_738_415_616: ("llama", 32000, 4096, 32, 32, 32, 128, 11008, False),  # Llama-2-7b
    7_241_732_096: ("mistral", 32000, 4096, 32, 32, 8, 128, 14336, False),  # Mistral-7B-v0.1
    494_032_768: ("qwen2", 151936, 896, 24, 14, 2, 64, 4864, True),  # Qwen2-0.5B
    596_049_920: ("qwen3", 151936, 1024, 28, 16, 8, 128, 3072, True),  # Qwen3-0.6B
}
"""Parameters as their makers' checkpoints hold them -> the model."""


@pytest.mark.parametrize("num_parameters", PUBLISHED)
def test_parameters_are_as_many_as_published(num_parameters):
    family, vocab, hidden, layers, heads, kv_heads, head_dim, intermediate, tied = PUBLISHED[
        num_parameters
    ]
    config = PLAIN | {
        "model_type": family,
        "vocab_size": vocab,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": intermediate,
        "tie_word_embeddings": tied,
    }
    assert ModelShape.of(config, family).num_parameters == num_parameters


@pytest.mark.parametrize(
    ("family", "others"),
    [*((family, {}) for family in FAMILIES), ("llama", {"attention_bias": True, "mlp_bias": True})],
)
def test_parameters_are_as_many_as_transformers_makes(family, others):
    """The twin: the model itself, without memory for its weights."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = PLAIN | {"num_key_value_heads": 1, "head_dim": 6, **others}
    config |= {"model_type": family, "tie_word_embeddings": family in ("qwen2", "mistral")}
    made = AutoConfig.for_model(family, **{k: v for k, v in config.items() if k != "model_type"})
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(made)
    shape = ModelShape.of(json.loads(made.to_json_string()), family)
    assert shape.num_parameters == sum(each.numel() for each in model.parameters())
    matrices = [each for name, each in model.named_parameters() if name.endswith("proj.weight")]
    assert shape.layers * shape.layer_weights == sum(each.numel() for each in matrices)


@pytest.mark.parametrize("folder", ["as-it-is", "inflated-to-25-M"])
def test_embedded_models_are_as_large_as_they_were_measured_to_be(folder):
    profile = json.loads((DATA / folder / "profile.json").read_text())
    for role in ("target", "draft"):
        told = profile[role]
        shape = shape_named(told["name"])
        assert shape.num_parameters == told["num_parameters"]
        assert (shape.vocab, shape.hidden, shape.layers) == (
            told["vocab_size"], told["hidden_size"], told["num_layers"],
        )  # fmt: skip


def test_a_folder_is_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(PLAIN))
    shape = shape_named(str(tmp_path))
    assert (shape.kv_heads, shape.head_dim) == (2, 4)
    assert shape.kv_entries == 2 * 3 * 2 * 4


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"model_type": "gpt2"}, "model_type: got 'gpt2', expected one of llama"),
        ({"hidden_size": None}, "hidden_size: missing"),
        ({"num_hidden_layers": 0}, "num_hidden_layers: got 0"),
        ({"vocab_size": "many"}, "vocab_size: got 'many'"),
    ],
)
def test_what_does_not_say_how_large_it_is_is_one_line(change, fault):
    with pytest.raises(PlannerError) as caught:
        ModelShape.of(PLAIN | change, "here")
    assert str(caught.value).startswith("here: ")
    assert fault in str(caught.value)


def test_a_name_that_leads_nowhere_is_one_line(monkeypatch, tmp_path):
    def unreachable(*_: object) -> None:
        raise OSError("nobody/nothing is not there\nsecond line")

    monkeypatch.setattr("transformers.utils.cached_file", unreachable)
    for name in ("nobody/nothing", str(tmp_path / "gone"), "./gone", "a/b/c"):
        with pytest.raises(PlannerError, match=r"no folder with a config\.json"):
            shape_named(name)
    with pytest.raises(PlannerError, match="no such file"):
        shape_named(str(tmp_path))
