"""One training run of a language model: batches by (seed, step), schedule, two optimizers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from ...resumable import Checkpoint, take_steps
from .recipe import Phase, Training

WARMUP_STEPS = 40
DECAY_SHARE = 0.3  # of the steps: the learning rate falls to zero over the last ones
Loss = Callable[[nn.Module, Tensor], Tensor]  # (model, ids int64 [rows, length + 1]) -> scalar
Batch = Callable[[Phase, int, int], Tensor]  # (phase, first row, step) -> ids, as above


@dataclass(frozen=True)
class Batches:
    """Stretches of one token stream, in shuffled order, none met twice in an epoch."""

    tokens: np.ndarray  # uint16 [num_tokens]
    seed: int

    def rows(self, first: int, count: int, length: int) -> Tensor:
        """`count` stretches of `length` tokens from number `first` on: int64 [count, length]."""
        per_epoch = (len(self.tokens) - length) // length
        found = []
        for number in range(first, first + count):
            epoch, index = divmod(number, per_epoch)
            start = _starts(self.seed, epoch, length, len(self.tokens))[index]
            found.append(self.tokens[start : start + length])
        return torch.from_numpy(np.stack(found).astype(np.int64))


def fit(
    model: nn.Module, loss: Loss, training: Training, *, batch: Batch, checkpoint: Checkpoint
) -> list[float]:
    """Train `model` in place; resumes from `checkpoint` when there is one.

    batch  makes a step's ids; first row counts the rows of that length used before

    Returns the loss of every step, in nats per token.
    """
    optimizers = _optimizers(model)
    plan = list(_steps(training.phases))

    def step(number: int) -> float:
        phase, first_row = plan[number]
        with torch.autocast("cpu", torch.bfloat16):
            value = loss(model, batch(phase, first_row, number))
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = training.learning_rate * _rate(number, training.num_steps)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return value.item()

    checkpoint.path.parent.mkdir(parents=True, exist_ok=True)
    return take_steps(model, optimizers, step, num_steps=training.num_steps, checkpoint=checkpoint)


def _steps(phases: tuple[Phase, ...]) -> Iterator[tuple[Phase, int]]:
    """(phase, rows of that length used before) for every step."""
    used = Counter[int]()
    for phase in phases:
        for _ in range(phase.num_steps):
            yield phase, used[phase.length]
            used[phase.length] += phase.rows


def _rate(step: int, num_steps: int) -> float:
    """The learning rate as a share of its peak: linear warm-up, plateau, linear fall to zero.

    Unlike a cosine, the plateau does not depend on `num_steps`: a run that must end early is given
    fewer steps and goes on from its checkpoint, and is then the run of a recipe with that many.
    """
    rising = (step + 1) / min(WARMUP_STEPS, num_steps // 5 + 1)
    falling = (num_steps - step) / (DECAY_SHARE * num_steps)
    return min(1.0, rising, falling)


def _optimizers(model: nn.Module) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers, AdamW for embeddings and norms.

    Muon's steps are scaled to AdamW's size (`match_rms_adamw`), so one learning rate serves both.
    """
    matrices: list[Tensor] = []
    others: list[Tensor] = []
    for name, weight in model.named_parameters():
        (matrices if weight.ndim == 2 and ".layers." in name else others).append(weight)
    return [
        torch.optim.Muon(
            matrices, lr=0.0, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(others, lr=0.0, betas=(0.9, 0.95), weight_decay=0.0),
    ]


@lru_cache(maxsize=4)
def _starts(seed: int, epoch: int, length: int, num_tokens: int) -> np.ndarray:
    """The places where stretches of an epoch begin: a shuffled grid, shifted anew each epoch."""
    rng = np.random.default_rng([seed, epoch, length])
    shift = rng.integers(length)
    return rng.permutation((num_tokens - length) // length) * length + shift
