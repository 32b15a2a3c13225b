"""OpenVINO GenAI itself: its steps as they are counted here, and what it writes where it samples.

ESPALIER_OPENVINO names a folder with `target25M.ov` and `draft.ov`, as optimum-cli writes them, and
`target25M` and `draft`, which they were made from.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from engines import Files, OpenVinoPipeline
from planner.documents.sampling import Sampling
from planner.policies import ConfidentDrafting
from runtime.embedded import load_prompts
from runtime.loading import load_model
from runtime.models import HuggingFaceModel
from runtime.written import Written, logits_behind

MODELS = Path(os.environ.get("ESPALIER_OPENVINO", ""))
NUM_TEXTS = 600
"""Texts that are sampled, of which the second token is looked at."""
CERTAIN = 1e-6

pytestmark = [
    pytest.mark.skipif(find_spec("openvino_genai") is None, reason="openvino-genai is missing"),
    pytest.mark.skipif(
        not (MODELS / "target25M.ov").is_dir(), reason="ESPALIER_OPENVINO names no such models"
    ),
]


@pytest.fixture(scope="module")
def engine() -> OpenVinoPipeline:
    return OpenVinoPipeline(
        Files(str(MODELS / "target25M.ov"), str(MODELS / "draft.ov"), threads=1), 512
    )


def original(name: str) -> HuggingFaceModel:
    return load_model(str(MODELS / name), device="cpu", dtype="float32", attention="sdpa")


@pytest.mark.parametrize("length", [1, 5, 16])
def test_steps_are_those_that_follow_from_both_models(engine, length) -> None:
    prompt = load_prompts("evaluation")[4]
    with engine.running(ConfidentDrafting(max_depth=length, confidence=0.0)) as pipeline:
        found = pipeline.decode(prompt, Sampling(temperature=0.0), num_tokens=48, seed=0)
        longer = pipeline.decode(prompt, Sampling(temperature=0.0), num_tokens=80, seed=0).tokens
    assert longer[:48] == found.tokens
    drafted = logits_behind(original("draft"), Written(prompt, longer)).argmax(-1).tolist()
    place, steps = 1, 0  # the first token comes with the prompt
    while place < 48:
        kept = 0
        while kept < length and drafted[place + kept] == longer[place + kept]:
            kept += 1
        place, steps = place + kept + 1, steps + 1
    assert (found.num_timed, found.num_steps) == (47, steps)
    assert (found.num_drafted, found.num_accepted) == (steps * length, place - 1 - steps)


def second_tokens(engine: OpenVinoPipeline, drafting: ConfidentDrafting | None) -> np.ndarray:
    """int64 [NUM_TEXTS]: of texts sampled at temperature 1, by the package itself."""
    import openvino
    import openvino_genai

    config = openvino_genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.do_sample = 4, True, True
    config.temperature, config.top_p = 1.0, 1.0
    if drafting is not None:
        config.num_assistant_tokens = drafting.max_depth
    ids = openvino.Tensor(np.array([load_prompts("evaluation")[0][:12]], np.int64))
    tokens = np.zeros(NUM_TEXTS, np.int64)
    with engine.running(drafting) as running:
        for seed in range(NUM_TEXTS):
            config.rng_seed = seed
            tokens[seed] = running.pipeline.generate(ids, config).tokens[0][1]
    return tokens


@pytest.fixture(scope="module")
def second_probs() -> np.ndarray:
    """float64 [V]: the target's own distribution of the second token."""
    target, prompt = original("target25M").module, load_prompts("evaluation")[0][:12]
    with torch.inference_mode():
        first = target(torch.tensor([prompt])).logits[0, -1].double().softmax(-1)
        behind = torch.cat(
            [
                target(torch.tensor([[*prompt, token] for token in some.tolist()])).logits[:, -1]
                for some in torch.arange(len(first)).split(256)
            ]
        )
    return (first @ behind.double().softmax(-1)).numpy()


@pytest.mark.parametrize("drafts", [False, True])
def test_sampled_texts_follow_the_target_unless_a_draft_helps(engine, second_probs, drafts) -> None:
    """OpenVINO GenAI has been mended, and plans may sample, once this fails with a draft."""
    drafting = ConfidentDrafting(max_depth=2, confidence=0.0) if drafts else None
    seen = np.bincount(second_tokens(engine, drafting), minlength=len(second_probs))
    expected = NUM_TEXTS * second_probs
    often = expected >= 5
    seen, expected = (np.array([*each[often], each[~often].sum()]) for each in (seen, expected))
    p_value = chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1)
    assert p_value < CERTAIN if drafts else p_value > 1e-3
