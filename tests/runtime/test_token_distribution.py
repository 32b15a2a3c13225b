"""Logits become the distribution that Hugging Face's warpers make of them."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from planner.documents.sampling import Sampling
from runtime import distribution
from runtime.held_tokens import held_along, held_by

SETTINGS = [
    Sampling(temperature=1.0),
    Sampling(temperature=0.6),
    Sampling(temperature=1.7, top_k=5),
    Sampling(temperature=1.0, top_k=1),
    Sampling(temperature=1.0, top_k=1000),
    Sampling(temperature=1.0, top_p=0.9),
    Sampling(temperature=0.7, top_p=0.01),
    Sampling(temperature=1.3, top_k=20, top_p=0.8),
    Sampling(temperature=1.0, min_p=0.05),
    Sampling(temperature=0.8, min_p=1.0),
    Sampling(temperature=1.3, top_k=20, top_p=0.8, min_p=0.1),
]


@pytest.mark.parametrize("num_tokens", [1, 2, 63, 100])
@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
def test_distribution_is_that_of_the_warpers(sampling, num_tokens):
    logits = 3 * torch.randn(7, num_tokens, generator=torch.Generator().manual_seed(num_tokens))
    warped = TemperatureLogitsWarper(sampling.temperature)(None, logits)
    if sampling.top_k:
        warped = TopKLogitsWarper(sampling.top_k)(None, warped)
    if sampling.top_p < 1:
        warped = TopPLogitsWarper(sampling.top_p)(None, warped)
    if sampling.min_p > 0:
        warped = MinPLogitsWarper(sampling.min_p)(None, warped)
    assert torch.equal(distribution(logits, sampling), warped.softmax(-1))


@pytest.mark.parametrize("penalty", [0.8, 1.3])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_the_penalty_is_that_of_the_processor(penalty, temperature):
    logits = 3 * torch.randn(4, 63, generator=torch.Generator().manual_seed(0))
    texts = torch.randint(63, (4, 30), generator=torch.Generator().manual_seed(1))
    held = torch.stack([held_by(text.tolist(), 63, logits.device) for text in texts])
    processed = RepetitionPenaltyLogitsProcessor(penalty)(texts, logits)
    found = distribution(
        logits, Sampling(temperature=temperature, repetition_penalty=penalty), held
    )
    assert torch.equal(found, distribution(processed, Sampling(temperature=temperature)))


def test_beginnings_of_a_text_hold_what_they_have_so_far():
    text = [3, 1, 3, 0]
    rows = held_along(text, 5, torch.device("cpu"))
    expected = [[token in text[: place + 1] for token in range(5)] for place in range(4)]
    assert rows.tolist() == expected


def test_top_p_keeps_the_token_that_crosses():
    logits = torch.tensor([0.5, 0.3, 0.2]).log()
    kept = distribution(logits, Sampling(temperature=1.0, top_p=0.6))
    assert kept.tolist() == pytest.approx([0.625, 0.375, 0.0])


def test_top_k_keeps_ties():
    logits = torch.tensor([1.0, 1.0, 0.0, 1.0])
    kept = distribution(logits, Sampling(temperature=1.0, top_k=2))
    assert kept.tolist() == pytest.approx([1 / 3, 1 / 3, 0.0, 1 / 3])


@pytest.mark.parametrize("extra", [{}, {"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.5}])
def test_temperature_zero_is_the_most_probable_token(extra):
    logits = torch.randn(2, 3, 17)
    one_hot = distribution(logits, Sampling(temperature=0.0, **extra))
    assert torch.equal(one_hot.argmax(-1), logits.argmax(-1))
    assert torch.equal(one_hot.sum(-1), torch.ones(2, 3))
    assert torch.equal(one_hot.max(-1).values, torch.ones(2, 3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_processed_in_single_precision(dtype):
    logits = torch.randn(3, 50).to(dtype)
    sampling = Sampling(temperature=0.8, top_k=10, top_p=0.9)
    probs = distribution(logits, sampling)
    assert probs.dtype == torch.float32
    assert torch.equal(probs, distribution(logits.float(), sampling))


def test_rows_do_not_influence_one_another():
    logits = torch.randn(5, 31)
    sampling = Sampling(temperature=0.8, top_k=10, top_p=0.9)
    rows = torch.stack([distribution(row, sampling) for row in logits])
    assert torch.equal(distribution(logits, sampling), rows)


@pytest.mark.parametrize("temperature", [1e-29, 1e-38, 5e-324])
def test_a_temperature_below_all_bounds_leaves_the_most_probable_tokens(temperature):
    logits = torch.tensor([[3.0, 40.0, -7.0], [2.0, 2.0, 1.0]])
    probs = distribution(logits, Sampling(temperature=temperature))
    assert probs.tolist() == [[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]


def test_the_draft_may_have_a_temperature_of_its_own():
    own = {"draft_temperature": 0.9}
    warm = Sampling(temperature=0.6, top_k=5, **own)
    assert warm.of_draft == Sampling(temperature=0.9, top_k=5)
    assert Sampling(temperature=0.0, **own).of_draft == Sampling(temperature=0.9)
    assert str(warm) == "T=0.6 top-k=5 draft T=0.9"
    assert Sampling.model_validate(warm.model_dump()) == warm
    penal = Sampling(temperature=0.0, repetition_penalty=1.1)
    assert penal.of_draft == Sampling(temperature=1.0, repetition_penalty=1.1)
    assert str(penal) == "T=0 penalty=1.1"
    assert penal.flags == "--temperature 0 --repetition-penalty 1.1"
    assert warm.flags == "--temperature 0.6 --top-k 5 --draft-temperature 0.9"


def test_what_cuts_nothing_is_not_written_down():
    """Documents keep the fingerprints that they had before."""
    written = {"temperature": 0.6, "top_k": 0, "top_p": 1.0}
    assert Sampling(temperature=0.6).model_dump() == written
    assert not Sampling(temperature=0.6).cuts
    assert all(Sampling(temperature=0.6, **cut).cuts for cut in ({"top_p": 0.9}, {"min_p": 0.1}))
