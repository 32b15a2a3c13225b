"""The pair that ships with the project decodes what its target decodes alone."""

from __future__ import annotations

import pytest
import torch

from planner import PlannerError
from runtime import Decoder, as_language_model, decode_prompts
from runtime.embedded import PAIRS, load_pair, load_prompts
from tests.runtime.small_models import plan

TREES = {"lone root": [-1], "chain": [-1, 0, 1, 2, 3], "tree": [-1, 0, 0, 0, 1, 1, 2, 4, 4, 7]}
NUM_TOKENS = 24


@pytest.fixture(scope="module", params=PAIRS)
def pair(request):
    try:
        return [as_language_model(model) for model in load_pair(request.param)]
    except (PlannerError, OSError) as error:
        pytest.skip(f"the pair is not there: {error}")


@pytest.mark.parametrize("parents", TREES.values(), ids=TREES)
def test_greedy_decoding_is_the_targets_own(pair, parents):
    target, draft = pair
    decoder = Decoder.from_plan(plan(parents), target, draft)
    for prompt in load_prompts()[:2]:
        ids = torch.tensor([prompt])
        expected = target.module.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=NUM_TOKENS,
            pad_token_id=0,
        )
        got = decoder.generate(prompt, max_new_tokens=NUM_TOKENS)
        assert got.tokens == expected[0, len(prompt) :].tolist()


@pytest.mark.parametrize("temperature", [0.0, 0.6])
def test_drafting_saves_target_passes(pair, temperature):
    """The draft was trained for this target: a chain of four emits more than a token a step."""
    target, draft = pair
    report = decode_prompts(
        plan(TREES["chain"], temperature=temperature),
        target,
        draft,
        load_prompts()[2:5],
        max_new_tokens=NUM_TOKENS,
    )
    assert report.measured.tokens_per_step > 1.2
