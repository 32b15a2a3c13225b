"""Folders whose files are broken are refused in one line, whatever transformers stumbles over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner import PlannerError
from runtime import load_model, load_tokenizer
from tests.runtime.small_models import small_model

WEIGHTS = "model.safetensors"
BROKEN = {
    "weights cut short": (WEIGHTS, b"x" * 7),
    "an index without weights": (f"{WEIGHTS}.index.json", b"[]"),
    "no number of features": ("config.json", {"hidden_size": "many"}),
    "no heads": ("config.json", {"num_attention_heads": 0}),
    "an unknown dtype": ("config.json", {"dtype": "float12"}),
    "generation settings of none": ("generation_config.json", b"[]"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_folder_is_refused_in_one_line(tmp_path, broken):
    name, content = BROKEN[broken]
    small_model("llama").save_pretrained(tmp_path)
    path: Path = tmp_path / name
    if isinstance(content, dict):
        content = json.dumps(json.loads(path.read_text()) | content).encode()
    if "index" in name:
        (tmp_path / WEIGHTS).unlink()
    path.write_bytes(content)
    with pytest.raises(PlannerError, match="cannot be loaded as a causal language") as caught:
        load_model(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_model_without_layers_is_refused_in_one_line(tmp_path):
    small_model("llama").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_hidden_layers": 0}))
    with pytest.raises(PlannerError, match="got a llama model without layers") as caught:
        load_model(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_broken_tokenizer_is_refused_in_one_line(tmp_path):
    small_model("llama").save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text("[]")
    with pytest.raises(PlannerError, match="cannot be loaded as a tokenizer") as caught:
        load_tokenizer(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("family", ["gemma3_text", "qwen3"])
def test_a_model_without_its_tokenizer_gets_none_of_special_tokens_alone(tmp_path, family):
    small_model(family).save_pretrained(tmp_path)
    with pytest.raises(PlannerError, match="got no tokenizer, expected one saved beside"):
        load_tokenizer(tmp_path)
