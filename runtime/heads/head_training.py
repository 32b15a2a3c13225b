"""Training a head on a frozen draft: weighted loss, cosine schedule, batches by (seed, step)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from planner.documents.head_card import HeadShape, HeadTraining

from ..language_model import HiddenModel
from ..resumable import Checkpoint, take_steps
from .acceptance_head import AcceptanceHead
from .labelled_texts import LabelledText, training_rows

PAPER_RATE, PAPER_HIDDEN_SIZE, PAPER_STEPS = 5e-5, 4096, 3750
"""The paper's (appendix D.1): 40,000 prompts, 32 a step, 3 epochs, on a draft of 4096 units."""

MOST_FOR_FEW_STEPS = 4.0
"""How much faster a short run may learn; beyond it the embedded pair gained nothing more."""

MAX_LOSSES = 100  # points of a loss curve that are kept


def learning_rate_for(hidden_size: int, num_steps: int) -> float:
    """The learning rate of a head's first step where none is asked for: the paper's, carried over.

    AdamW moves every weight by about the rate, so a unit that sums hidden_size inputs moves by rate
    times hidden_size: narrower drafts take a rate in inverse proportion.  And it gets about
    sqrt(num_steps) such moves away: where there are fewer steps than in the paper, each is larger,
    up to `MOST_FOR_FEW_STEPS` times.
    """
    hurry = max(1.0, min(MOST_FOR_FEW_STEPS, math.sqrt(PAPER_STEPS / num_steps)))
    return PAPER_RATE * PAPER_HIDDEN_SIZE / hidden_size * hurry


def num_steps_of(num_texts: int, epochs: int, batch_size: int) -> int:
    """Steps of a whole training; the last batch of an epoch may be smaller."""
    return epochs * math.ceil(num_texts / batch_size)


def train(
    draft: HiddenModel,
    texts: Sequence[LabelledText],
    shape: HeadShape,
    training: HeadTraining,
    *,
    checkpoint: Checkpoint | None = None,
) -> tuple[AcceptanceHead, list[float]]:
    """A head trained on `texts` with AdamW, and the mean weighted loss of every step, in nats.

    Checkpoints, progress and errors are those of `take_steps`.
    """
    head = AcceptanceHead(shape, reject_weight=training.reject_weight, seed=training.seed)
    head.to(draft.device)
    optimizer = torch.optim.AdamW(head.parameters(), lr=training.learning_rate)
    num_steps = num_steps_of(len(texts), training.epochs, training.batch_size)

    def step(number: int) -> float:
        hidden, labels = _batch(draft, texts, training, number)
        if len(labels) == 0:
            return 0.0  # the mixing left no drafted token
        for group in optimizer.param_groups:
            share = (1 + math.cos(math.pi * number / num_steps)) / 2
            group["lr"] = training.learning_rate * share
        loss = weighted_loss(head(hidden), labels, training.reject_weight)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    return head, take_steps(head, [optimizer], step, num_steps=num_steps, checkpoint=checkpoint)


def weighted_loss(logits: Tensor, labels: Tensor, reject_weight: float) -> Tensor:
    """-P log s - w (1 - P) log(1 - s), nats, mean over tokens (SpecDec++, section 4.4).

    logits  float [m], of s      labels  float [m], P = min(1, p/q)
    """
    accepted, rejected = F.logsigmoid(logits), F.logsigmoid(-logits)
    return -(labels * accepted + reject_weight * (1 - labels) * rejected).mean()


def thinned(losses: Sequence[float]) -> list[float]:
    """Means over at most `MAX_LOSSES` consecutive stretches of nearly equal length."""
    count = min(MAX_LOSSES, len(losses))
    return [round(float(np.mean(part)), 6) for part in np.array_split(np.array(losses), count)]


def _batch(
    draft: HiddenModel, texts: Sequence[LabelledText], training: HeadTraining, step: int
) -> tuple[Tensor, Tensor]:
    """Hidden states, float [m, H], and labels, float32 [m], of one step's texts."""
    epoch, place = divmod(step, math.ceil(len(texts) / training.batch_size))
    order = np.random.default_rng([training.seed, epoch]).permutation(len(texts))
    picks = order[place * training.batch_size : (place + 1) * training.batch_size]
    rows = [
        training_rows(
            draft, texts[i], training.mix, np.random.default_rng([training.seed, epoch, i])
        )
        for i in picks
    ]
    hidden = torch.cat([hidden for hidden, _ in rows])
    return hidden, torch.cat([labels for _, labels in rows]).to(hidden.device)
