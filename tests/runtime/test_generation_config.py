"""A `GenerationConfig` becomes the sampling that `generate` itself would do."""

from __future__ import annotations

import pytest
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from planner import PlannerError
from planner.cli.profile import own_sampling
from planner.documents.sampling import Sampling
from planner.plans.plan import Plan
from runtime import Decoder, HuggingFaceModel, LookupModel, distribution, sampling_of
from runtime.generation_config import DEFAULT_TOP_K
from runtime.held_tokens import held_by

SIZES = {
    "vocab_size": 97, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1,
}  # fmt: skip


def model(seed: int) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    made = LlamaForCausalLM(LlamaConfig(**SIZES)).eval()
    for weights in made.parameters():
        weights.data *= 4
    return made


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.3},
        {"min_p": 0.1, "top_k": 0},
    ],
)
def test_the_next_token_has_the_law_of_generate(fields):
    """The scores that `generate` samples from, processed and warped, step by step."""
    target, prompt = model(0), [3, 14, 15, 92, 6, 5]
    config = GenerationConfig(do_sample=True, **fields)
    made = target.generate(
        torch.tensor([prompt]), generation_config=config, max_new_tokens=6, pad_token_id=0,
        eos_token_id=96, return_dict_in_generate=True, output_scores=True, output_logits=True,
    )  # fmt: skip
    sampling, text = sampling_of(config), made.sequences[0].tolist()
    for place, (scores, logits) in enumerate(zip(made.scores, made.logits, strict=True)):
        held = held_by(text[: len(prompt) + place], 97, logits.device)
        assert torch.allclose(distribution(logits[0], sampling, held), scores[0].softmax(-1))


def test_greedy_text_under_a_penalty_is_that_of_generate():
    target, draft = model(0), model(1)
    config = GenerationConfig(do_sample=False, repetition_penalty=1.5)
    plan = Plan(
        drafting={"kind": "tree", "parents": [-1, 0, 0, 1, 1, 3]}, verifier="rrsw",
        sampling=sampling_of(config),
    )  # fmt: skip
    decoder = Decoder.from_plan(plan, target, draft)
    prompt = [3, 14, 15, 92, 6, 5]
    ours = decoder.generate(prompt, max_new_tokens=40, stop_tokens=[]).tokens
    theirs = target.generate(
        torch.tensor([prompt]), generation_config=config, max_new_tokens=40, min_new_tokens=40,
        pad_token_id=0,
    )  # fmt: skip
    assert ours == theirs[0, len(prompt) :].tolist()
    unpenalized = Decoder.from_plan(
        plan.model_copy(update={"sampling": Sampling(temperature=0.0)}), target, draft
    )
    assert unpenalized.generate(prompt, max_new_tokens=40, stop_tokens=[]).tokens != ours


def test_without_sampling_it_is_greedy_and_top_k_is_as_transformers_has_it():
    assert sampling_of(GenerationConfig()).is_greedy
    assert sampling_of(GenerationConfig(do_sample=True)).top_k == DEFAULT_TOP_K
    half = GenerationConfig(do_sample=True, temperature=torch.tensor(0.5))
    assert sampling_of(half).temperature == 0.5


@pytest.mark.parametrize(
    "fields",
    [
        {"num_beams": 4}, {"no_repeat_ngram_size": 3}, {"typical_p": 0.9}, {"guidance_scale": 0.0},
        {"forced_eos_token_id": 0}, {"suppress_tokens": torch.tensor([1, 2])},
        {"forced_bos_token_id": torch.tensor(0)}, {"force_words_ids": [[3]]},
        {"dola_layers": "high"}, {"token_healing": True},
    ],
    ids=str,
)  # fmt: skip
def test_what_no_plan_can_hold_is_refused_by_name(fields):
    (name,) = fields
    with pytest.raises(PlannerError, match=f"generation_config.{name}: got .* unset it"):
        sampling_of(GenerationConfig(do_sample=True, **fields))
    assert not sampling_of(GenerationConfig(typical_p=1.0, num_beams=1, min_length=0)).cuts
    assert not sampling_of(GenerationConfig(suppress_tokens=[], epsilon_cutoff=0.0)).cuts
    assert sampling_of(GenerationConfig(token_healing=False)).is_greedy


@pytest.mark.parametrize("fields", [{"top_p": 0.0}, {"top_k": -1}, {"min_p": 2.0}], ids=str)
def test_what_is_no_distribution_is_one_line(fields):
    (name,) = fields
    config = GenerationConfig(do_sample=True)
    config.update(**fields)
    with pytest.raises(PlannerError, match=f"^generation_config: {name}: got .*, expected"):
        sampling_of(config)


def test_what_the_targets_makers_recommend_is_told_where_it_was_not_measured():
    target = HuggingFaceModel(model(0))
    target.module.generation_config = GenerationConfig(
        do_sample=True, temperature=0.7, top_k=20, top_p=0.8, repetition_penalty=1.05
    )
    own = sampling_of(target.module.generation_config)
    line = own_sampling(target, [Sampling(temperature=0.7)])
    assert line.endswith("--temperature 0.7 --top-k 20 --top-p 0.8 --repetition-penalty 1.05")
    assert own_sampling(target, [own]) == ""
    target.module.generation_config = GenerationConfig(do_sample=True, no_repeat_ngram_size=3)
    assert "no_repeat_ngram_size" in own_sampling(target, [own])
    target.module.generation_config = GenerationConfig()
    assert own_sampling(target, [own]) == own_sampling(LookupModel(target), [own]) == ""
