"""Losses, and the texts that the target writes for its draft to learn from."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

TEMPERATURES = (0.0, 0.6, 1.0)  # a third of the written texts at each
OPENING = 24  # tokens of corpus that a written text begins with


def next_token_loss(model: nn.Module, ids: Tensor) -> Tensor:
    """Cross-entropy of each next token, nats per token; ids int64 [rows, length + 1]."""
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())


def distillation_loss(target: nn.Module) -> Callable[[nn.Module, Tensor], Tensor]:
    """The loss KL(target || model) per position, nats, over ids int64 [rows, length + 1]."""

    def loss(model: nn.Module, ids: Tensor) -> Tensor:
        with torch.no_grad():
            wanted = target(input_ids=ids[:, :-1], use_cache=False).logits.float()
        got = model(input_ids=ids[:, :-1], use_cache=False).logits.float()
        return F.kl_div(
            got.flatten(0, 1).log_softmax(-1),
            wanted.flatten(0, 1).log_softmax(-1),
            log_target=True,
            reduction="batchmean",
        )

    return loss


@torch.no_grad()
def write_texts(
    target: nn.Module,
    openings: Tensor,
    *,
    length: int,
    temperatures: tuple[float, ...],
    generator: torch.Generator,
) -> Tensor:
    """`openings` continued by the target to `length` tokens: int64 [rows, length].

    openings      int64 [rows, opening length]
    temperatures  row i is sampled at temperatures[i % len(temperatures)]; 0 takes the likeliest
    """
    rows, opening = openings.shape
    heat = torch.tensor([temperatures[i % len(temperatures)] for i in range(rows)])[:, None]
    ids = torch.empty(rows, length, dtype=torch.int64)
    ids[:, :opening] = openings
    past, fresh = None, openings
    for position in range(opening, length):
        with torch.autocast("cpu", torch.bfloat16):
            out = target(input_ids=fresh, past_key_values=past, use_cache=True, logits_to_keep=1)
        past = out.past_key_values
        noise = -torch.empty(rows, out.logits.shape[-1]).exponential_(generator=generator).log()
        fresh = (out.logits[:, -1].float() + heat * noise).argmax(-1, keepdim=True)
        ids[:, position : position + 1] = fresh
    return ids
