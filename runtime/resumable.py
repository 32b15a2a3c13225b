"""Training that may be interrupted: steps, checkpoints, and the same weights in the end.

Where every batch is a function of (seed, step), a run that is resumed from a checkpoint sees what
the uninterrupted one would have seen and ends with the same weights, bit for bit.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from tqdm import tqdm

from planner.documents.document import write_atomically

SHOWN = 10  # last steps whose mean loss is shown beside the progress


@dataclass(frozen=True)
class Checkpoint:
    """The file that a run leaves its state in, and after how many steps it does so again."""

    path: Path
    every: int = 20


def take_steps(
    model: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    step: Callable[[int], float],
    *,
    num_steps: int,
    checkpoint: Checkpoint | None = None,
) -> list[float]:
    """Train `model` in place, by `num_steps` steps, and leave it ready for evaluation.

    step        does the step of that number with the optimizers, and returns its loss
    checkpoint  resumed from, when there is one; written again and again, and at the end

    Returns the loss of every step.  Progress goes to stderr.  Raises PlannerError when a checkpoint
    cannot be written.
    """
    losses = _resumed(checkpoint, model, optimizers)
    what = "training" if checkpoint is None else checkpoint.path.stem
    model.train()
    with tqdm(total=num_steps, initial=len(losses), unit="step", desc=what) as progress:
        for number in range(len(losses), num_steps):
            losses.append(step(number))
            recent = losses[-SHOWN:]
            progress.set_postfix(loss=f"{sum(recent) / len(recent):.4f}", refresh=False)
            progress.update()
            due = checkpoint is not None and (number + 1) % checkpoint.every == 0
            if checkpoint is not None and (due or number + 1 == num_steps):
                _save(checkpoint.path, model, optimizers, losses)
    model.eval()
    return losses


def _save(
    path: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], losses: list[float]
) -> None:
    buffer = io.BytesIO()
    states = [optimizer.state_dict() for optimizer in optimizers]
    torch.save({"model": model.state_dict(), "optimizers": states, "losses": losses}, buffer)
    write_atomically(path, buffer.getvalue())


def _resumed(
    checkpoint: Checkpoint | None, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> list[float]:
    """Losses so far; a checkpoint that cannot be read counts as none."""
    if checkpoint is None or not checkpoint.path.exists():
        return []
    try:
        state = torch.load(checkpoint.path, weights_only=True, map_location="cpu")
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError):
        return []
    model.load_state_dict(state["model"])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    return list(state["losses"])
