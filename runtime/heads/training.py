"""Training a head on a frozen draft: weighted loss, cosine schedule, checkpoints that resume.

Every batch is a function of (seed, step), so that a run resumed from a checkpoint sees what the
uninterrupted one would have seen and ends with the same weights, bit for bit.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from planner.documents.document import write_atomically
from planner.documents.head_card import HeadShape, HeadTraining

from ..language_model import HiddenModel
from .data import LabelledText, training_rows
from .head import AcceptanceHead

PAPER_RATE, PAPER_HIDDEN_SIZE, PAPER_STEPS = 5e-5, 4096, 3750
"""Of the paper (appendix D.1): 40,000 prompts, 32 a step, 3 epochs, on a draft of 4096 units."""

MOST_FOR_FEW_STEPS = 4.0
"""How much faster a short run may learn; beyond it the embedded pair gained nothing more."""

MAX_LOSSES = 100
"""Points of a loss curve that are kept."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a run leaves its state, and after how many steps it does so again."""

    path: Path
    every: int = 20


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
    stop_after: int | None = None,
) -> tuple[AcceptanceHead, list[float]]:
    """A head trained on `texts` with AdamW, and the mean weighted loss of every step, in nats.

    checkpoint  resumed from, when there is one
    stop_after  give up after this step, as an interruption would (for the test of resuming)

    Progress goes to stderr.  Raises PlannerError when a checkpoint cannot be written.
    """
    head = AcceptanceHead(shape, reject_weight=training.reject_weight, seed=training.seed)
    head.to(draft.device)
    optimizer = torch.optim.AdamW(head.parameters(), lr=training.learning_rate)
    losses = _resumed(checkpoint, head, optimizer)
    num_steps = num_steps_of(len(texts), training.epochs, training.batch_size)
    head.train()
    with tqdm(total=num_steps, initial=len(losses), unit="step", desc="head") as progress:
        for step in range(len(losses), num_steps):
            if step == stop_after:
                break
            losses.append(_step(draft, head, optimizer, texts, training, step, num_steps))
            progress.set_postfix(loss=f"{np.mean(losses[-10:]):.4f}", refresh=False)
            progress.update()
            if checkpoint is not None and (step + 1) % checkpoint.every == 0:
                _save(checkpoint.path, head, optimizer, losses)
    return head.eval(), losses


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


def _step(
    draft: HiddenModel,
    head: AcceptanceHead,
    optimizer: torch.optim.Optimizer,
    texts: Sequence[LabelledText],
    training: HeadTraining,
    step: int,
    num_steps: int,
) -> float:
    hidden, labels = _batch(draft, texts, training, step)
    if len(labels) == 0:
        return 0.0  # the mixing left no drafted token
    for group in optimizer.param_groups:
        group["lr"] = training.learning_rate * (1 + math.cos(math.pi * step / num_steps)) / 2
    loss = weighted_loss(head(hidden), labels, training.reject_weight)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.item()


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


def _save(
    path: Path, head: AcceptanceHead, optimizer: torch.optim.Optimizer, losses: list[float]
) -> None:
    buffer = io.BytesIO()
    state = {"head": head.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}
    torch.save(state, buffer)
    write_atomically(path, buffer.getvalue())


def _resumed(
    checkpoint: Checkpoint | None, head: AcceptanceHead, optimizer: torch.optim.Optimizer
) -> list[float]:
    """Losses so far; a checkpoint that cannot be read counts as none."""
    if checkpoint is None or not checkpoint.path.exists():
        return []
    try:
        state = torch.load(checkpoint.path, weights_only=True, map_location="cpu")
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError):
        return []
    head.load_state_dict(state["head"])
    optimizer.load_state_dict(state["optimizer"])
    return list(state["losses"])
