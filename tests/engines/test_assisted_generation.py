"""transformers' own assisted generation: its texts are the target's, and its steps are counted."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from engines import AssistedGeneration, Files
from planner.documents.sampling import Sampling
from planner.policies import ConfidentDrafting
from runtime import load_model
from runtime.written import Written, logits_behind

GREEDY = Sampling(temperature=0.0)
PROMPT = [1, 2, 3, 4]
NUM_TOKENS = 24


def saved(folder: Path, seed: int, num_layers: int) -> str:
    """A small model whose own settings ask for a penalty, which no profile here is made with."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=num_layers,
        num_attention_heads=2, max_position_embeddings=128, initializer_range=0.5,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.generation_config.repetition_penalty = 1.9
    model.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> AssistedGeneration:
    folder = tmp_path_factory.mktemp("models")
    target, draft = (saved(folder / name, 3, size) for name, size in (("target", 2), ("draft", 1)))
    return AssistedGeneration(Files(target, draft, threads=1, most_tokens=4), 128)


@pytest.mark.parametrize("length", [None, 1, 4])
def test_greedy_texts_are_the_targets_whatever_its_own_settings_say(engine, length) -> None:
    drafting = length and ConfidentDrafting(max_depth=length, confidence=0.0)
    with engine.running(drafting) as running:
        answer = running.decode(PROMPT, GREEDY, num_tokens=NUM_TOKENS, seed=0)
    written = Written(PROMPT, answer.tokens)
    target = load_model(engine.files.target, dtype="float32", attention="sdpa")
    assert answer.tokens == logits_behind(target, written).argmax(-1).tolist()
    assert len(answer.tokens) == NUM_TOKENS
    assert answer.num_steps + answer.num_accepted == answer.num_timed
    assert 0 <= answer.num_accepted <= (length or 0) * answer.num_steps
    assert NUM_TOKENS - 1 - (length or 0) <= answer.num_timed <= NUM_TOKENS - 1


def test_a_seed_gives_the_same_sampled_text(engine) -> None:
    drafting = ConfidentDrafting(max_depth=3, confidence=0.0)
    with engine.running(drafting) as running:
        texts = [
            running.decode(PROMPT, Sampling(temperature=1.0), num_tokens=NUM_TOKENS, seed=seed)
            for seed in (0, 0, 1)
        ]
    assert texts[0].tokens == texts[1].tokens != texts[2].tokens


def test_passes_of_both_models_are_timed(engine) -> None:
    found = engine.passes([1, 3], context=8, repeats=2)
    for times in found:
        assert sorted(times) == [1, 3]
        assert all(len(each) == 2 and min(each) > 0 for each in times.values())
