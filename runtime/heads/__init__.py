"""Acceptance heads (SpecDec++): data, training, evaluation, and the file that keeps them."""

from ..resumable import Checkpoint
from .acceptance_head import AcceptanceHead
from .head_file import file_sha256, load_card, load_head, save_head, weights_sha256
from .head_training import learning_rate_for, num_steps_of, thinned, train
from .head_trial import evaluate
from .labelled_texts import LabelledText, hidden_size_of, label_texts

__all__ = [
    "AcceptanceHead",
    "Checkpoint",
    "LabelledText",
    "evaluate",
    "file_sha256",
    "hidden_size_of",
    "label_texts",
    "learning_rate_for",
    "load_card",
    "load_head",
    "num_steps_of",
    "save_head",
    "thinned",
    "train",
    "weights_sha256",
]
