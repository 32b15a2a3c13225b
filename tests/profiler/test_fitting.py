"""Numbers that nobody named are fitted to the models; named ones are kept or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from planner import PlannerError, load
from planner.cli import main
from planner.documents.sampling import Sampling
from profiler import THOROUGH, Pair, Settings
from profiler.profile_settings import fitted, shortened
from runtime import TableModel

WARM = (Sampling(temperature=1.0),)
SMALLEST = ["--temperature", "1", "--num-prompts", "2", "--repeats", "2", "--num-replayed", "1"]
"""How much of each, so that it is soon done; no number that depends on the models."""


def pair(max_positions: int, vocab_size: int = 30) -> Pair:
    shape = (vocab_size, vocab_size)
    return Pair(*(TableModel(torch.zeros(shape), max_positions=max_positions) for _ in range(2)))


def test_models_that_take_it_all_are_measured_as_wanted():
    for wanted in (Settings(WARM).wanted, THOROUGH):
        assert fitted(Settings(WARM, wanted=wanted), pair(1024), 64) == wanted


@pytest.mark.parametrize(
    ("positions", "contexts", "max_nodes", "num_tokens"),
    [(512, (128, 503), 64, 128), (128, (119,), 64, 64), (64, (55,), 64, 1), (8, (1,), 32, 1)],
)
def test_what_is_not_named_is_fitted_to_the_positions(positions, contexts, max_nodes, num_tokens):
    extent = fitted(Settings(WARM, wanted=THOROUGH), pair(positions), 64)
    assert extent.max_nodes == max_nodes
    assert (extent.contexts, extent.num_tokens) == (contexts, num_tokens)


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"contexts": (128, 512)}, "context: got 512, expected at most 509"),
        ({"contexts": (510,), "max_nodes": 64}, "context: got 510, expected at most 503"),
        ({"num_ranks": 31}, "num_ranks: got 31, expected at most the vocabulary, 30"),
        ({"max_nodes": 1}, "at least 2"),
    ],
)
def test_what_is_named_is_refused(named, words):
    with pytest.raises(PlannerError, match=words) as caught:
        fitted(Settings(WARM, **named), pair(512), 64)
    assert "\n" not in str(caught.value)


def test_a_named_context_is_kept_and_the_trees_are_fitted_to_it():
    assert fitted(Settings(WARM, contexts=(508,)), pair(512), 64).max_nodes == 4
    assert fitted(Settings(WARM), pair(512, vocab_size=3), 64).num_ranks == 3


def test_prompts_that_nobody_named_are_shortened_and_keep_to_the_vocabulary():
    prompts = [[*range(40)], [35, 36], [3] * 200]
    assert shortened(prompts, pair(64), None) == [[*range(30)], [3] * 32]
    assert shortened(prompts, pair(64), 60) == [[0, 1, 2, 3], [3] * 4]


def tiny_llama(folder: Path, max_positions: int, vocab_size: int) -> str:
    """A model of random weights and its tokenizer of single bytes, saved in a folder."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(vocab_size)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
    LlamaForCausalLM(
        LlamaConfig(vocab_size=vocab_size, max_position_embeddings=max_positions,
                    num_attention_heads=2, num_key_value_heads=1, eos_token_id=None, **sizes)
    ).save_pretrained(folder)  # fmt: skip
    letters = " etaoinsrhldcumfpgwybvkxjqz_()\n"[: vocab_size - 1]
    words = {"?": 0} | {letter: place for place, letter in enumerate(letters, start=1)}
    tokenizer = Tokenizer(WordLevel(words, unk_token="?"))
    tokenizer.pre_tokenizer = Split("", "isolated")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="?").save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(("max_positions", "vocab_size"), [(512, 29), (64, 11), (16, 3)])
def test_models_of_few_positions_and_few_tokens_are_profiled_without_options(
    max_positions, vocab_size, tmp_path
):
    model = tiny_llama(tmp_path / "model", max_positions, vocab_size)
    output = tmp_path / "p.json"
    arguments = ["profile", "--target", model, "--draft", model, *SMALLEST, "-o", str(output)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    profile = load(output)
    assert profile.target.max_positions == max_positions
    assert len(profile.costs) == 1
    assert all(entry.num_ranks <= vocab_size for entry in profile.acceptance)
    assert [entry.verifier for entry in profile.replays] == ["rrsw", "traversal"]
    named = CliRunner().invoke(main, [*arguments, "--context", str(max_positions)])
    assert named.exit_code == 1
    assert f"context: got {max_positions}, expected at most" in named.output
    assert json.loads(output.read_text())["written_by"].startswith("espalier ")
