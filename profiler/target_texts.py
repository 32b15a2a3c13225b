"""Texts that the target itself writes: sampled continuations of prompts, many at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from planner.documents.document import PlannerError
from planner.documents.sampling import Sampling
from runtime.held_tokens import held_by
from runtime.language_model import LanguageModel, PassInput, answers, text_input
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
    """Texts that `model` writes behind prompts: `num_tokens` tokens, or up to a stop token."""
    source = seeded_source(seed, model.device)
    written: list[list[int]] = []
    for start in range(0, len(prompts), BATCH_SIZE):
        written += _together(
            model, prompts[start : start + BATCH_SIZE], sampling, num_tokens, source
        )
    return written


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
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    num_tokens: int,
    source: Source,
) -> list[list[int]]:
    """All texts a token longer in each pass, those that have not ended."""
    texts = [list(prompt) for prompt in prompts]
    # Stores of a graph's size for each of so many texts would fill a GPU's memory.
    new_cache = getattr(model, "unrecorded_cache", model.new_cache)
    caches = [new_cache(len(text) + num_tokens) for text in texts]
    for text, cache in zip(texts, caches, strict=True):
        if len(text) > 1:
            text_input(model, text[:-1], cache, num_logits=0).answer()
    going, stop = list(range(len(texts))), set(model.stop_tokens)
    for _ in range(num_tokens):
        if not going:
            break
        last = torch.tensor([[texts[index][-1]] for index in going], device=model.device)
        asked = [
            PassInput(model, token, torch.tensor([caches[index].length]), caches[index])
            for index, token in zip(going, last, strict=True)
        ]
        logits = torch.cat([answer.logits for answer in answers(asked)])
        held = _held([texts[index] for index in going], logits) if sampling.penalizes else None
        drawn = source.categorical(distribution(logits, sampling, held)).tolist()
        for index, token in zip(going, drawn, strict=True):
            texts[index].append(token)
        going = [index for index, token in zip(going, drawn, strict=True) if token not in stop]
    return [text[len(prompt) :] for text, prompt in zip(texts, prompts, strict=True)]


def _held(texts: Sequence[Sequence[int]], logits: Tensor) -> Tensor:
    return torch.stack([held_by(text, logits.shape[-1], logits.device) for text in texts])


def one_by_one(
    model: LanguageModel, prompt: Sequence[int], sampling: Sampling, num_tokens: int, source: Source
) -> list[int]:
    """The same for one prompt, with no look at stop tokens: slow and obvious."""
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
