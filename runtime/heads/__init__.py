"""Acceptance heads (SpecDec++): data, training, evaluation, and the file that keeps them."""

from .chains import score_text
from .data import (
    LabelledText,
    checked_pair,
    hidden_size_of,
    label_texts,
)
from .evaluation import evaluate
from .head import AcceptanceHead
from .storage import (
    file_sha256,
    load_card,
    load_head,
    save_head,
    weights_sha256,
)
from .training import (
    Checkpoint,
    learning_rate_for,
    num_steps_of,
    thinned,
    train,
)

__all__ = [
    "AcceptanceHead",
    "Checkpoint",
    "LabelledText",
    "checked_pair",
    "evaluate",
    "file_sha256",
    "hidden_size_of",
    "label_texts",
    "learning_rate_for",
    "load_card",
    "load_head",
    "num_steps_of",
    "save_head",
    "score_text",
    "thinned",
    "train",
    "weights_sha256",
]
