"""Texts that the target itself writes: sampled continuations of prompts, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from planner.documents.document import PlannerError
from planner.documents.sampling import Sampling
from runtime.held_tokens import held_by
from runtime.language_model import LanguageModel
from runtime.models import HuggingFaceModel
from runtime.pair import Served
from runtime.randomness import Source, seeded_source
from runtime.token_distribution import distribution

BATCH_SIZE = 64
"""Texts that are written together: one pass over many costs little more than one over few."""


def sample_continuations(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    num_tokens: int,
    seed: int,
) -> list[list[int]]:
    """Texts that `model` writes behind prompts: `num_tokens` tokens, or up to a stop token.

    Prompts of equal length are continued together, without padding.
    """
    source = seeded_source(seed, model.device)
    results: dict[int, list[int]] = {}
    by_length = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    for _, group in groupby(by_length, key=lambda index: len(prompts[index])):
        indices = list(group)
        for start in range(0, len(indices), BATCH_SIZE):
            batch = indices[start : start + BATCH_SIZE]
            texts = [prompts[index] for index in batch]
            if isinstance(model, HuggingFaceModel):
                written = _together(model, texts, sampling, num_tokens, source)
            else:
                written = [one_by_one(model, each, sampling, num_tokens, source) for each in texts]
            results.update(zip(batch, written, strict=True))
    stop = set(model.stop_tokens)
    return [_until_stop(results[index], stop) for index in range(len(prompts))]


def check_prompts(prompts: Sequence[Sequence[int]], pair: Served, num_tokens: int) -> None:
    """Raise PlannerError unless each prompt can be continued by `num_tokens` tokens."""
    for index, prompt in enumerate(prompts):
        if not prompt or min(prompt) < 0 or max(prompt) >= pair.vocab_size:
            raise PlannerError(
                f"prompts.{index}: got no tokens or some outside the vocabulary, expected ids from "
                f"0 to {pair.vocab_size - 1}"
            )
        if len(prompt) + num_tokens > pair.max_positions:
            raise PlannerError(
                f"prompts.{index}: got {len(prompt)} tokens to be continued by {num_tokens}, "
                f"expected at most {pair.max_positions} positions in all; shorten the prompt or "
                "the continuation"
            )


@torch.inference_mode()
def _together(
    model: HuggingFaceModel,
    prompts: list[Sequence[int]],
    sampling: Sampling,
    num_tokens: int,
    source: Source,
) -> list[list[int]]:
    cache = None
    tokens = torch.tensor([list(prompt) for prompt in prompts], device=model.device)
    held: Tensor | None = None
    written: list[Tensor] = []
    for _ in range(num_tokens):
        output = model.module(
            input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        cache, logits = output.past_key_values, output.logits[:, -1]
        if sampling.penalizes:
            held = logits.new_zeros(logits.shape, dtype=torch.bool) if held is None else held
            held.scatter_(1, tokens, True)
        tokens = source.categorical(distribution(logits, sampling, held))[:, None]
        written.append(tokens)
    return torch.cat(written, dim=1).tolist()


def one_by_one(
    model: LanguageModel, prompt: Sequence[int], sampling: Sampling, num_tokens: int, source: Source
) -> list[int]:
    """The same for one prompt through the runtime's own forward pass: slow and obvious."""
    cache = model.new_cache(len(prompt) + num_tokens)
    tokens = torch.tensor(list(prompt), device=model.device)
    written: list[int] = []
    for _ in range(num_tokens):
        positions = torch.arange(cache.length, cache.length + len(tokens), device=model.device)
        logits = model.forward(tokens, positions, cache, num_logits=1)
        held = held_by([*prompt, *written], logits.shape[-1], logits.device)
        tokens = source.categorical(distribution(logits, sampling, held))
        written.append(int(tokens))
    return written


def _until_stop(tokens: list[int], stop: set[int]) -> list[int]:
    for place, token in enumerate(tokens):
        if token in stop:
            return tokens[: place + 1]
    return tokens
