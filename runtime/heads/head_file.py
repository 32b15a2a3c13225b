"""A head's file: weights in safetensors, their provenance in its metadata."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors
from torch import Tensor

from planner.documents.document import PlannerError, json_object, write_atomically
from planner.documents.head_card import HeadCard
from planner.documents.origin import ModelInfo
from planner.documents.sampling import Sampling

from .acceptance_head import AcceptanceHead

KEY = "espalier"  # of the metadata's entry: a `HeadCard` as JSON


def save_head(head: AcceptanceHead, card: HeadCard, path: str | Path) -> None:
    """Write `head` with its `card` to `path`, whole or not at all.

    Raises PlannerError when the path cannot be written; nothing is changed there then.
    """
    metadata = {KEY: json.dumps(card.model_dump(mode="json"))}
    write_atomically(path, dump_tensors(_weights(head), metadata))


def load_head(
    path: str | Path,
    draft: ModelInfo | None = None,
    sampling: Sampling | None = None,
    sha256: str | None = None,
) -> AcceptanceHead:
    """The head in the file at `path`, on the CPU, ready to score.

    draft     the model whose hidden states it is going to read; None: any
    sampling  how decoding samples; None: any
    sha256    of the file, as a plan names it; None: any

    Raises PlannerError for a file that is missing, no head's, damaged, or another one than wanted,
    and for a head that was trained for another draft or other sampling settings.
    """
    path = Path(path)
    data = _read(path)
    found = hashlib.sha256(data).hexdigest()
    if sha256 is not None and found != sha256:
        raise PlannerError(
            f"{path}: got a file of SHA-256 {found[:12]}, expected {sha256[:12]}, which the plan "
            "was made with; restore that file, or profile and plan again"
        )
    card, head = _parsed(path, data)
    if draft is not None and card.draft.fingerprint != draft.fingerprint:
        raise PlannerError(
            f"{path}: got a head trained for {card.draft.name} ({card.draft.fingerprint[:12]}), "
            f"expected one for {draft.name} ({draft.fingerprint[:12]}); train one for this draft "
            "with planner train-head"
        )
    if sampling is not None and card.sampling != sampling:
        raise PlannerError(
            f"{path}: got a head trained for {card.sampling}, expected {sampling}, as decoding "
            "samples; train one for these settings with planner train-head"
        )
    return head


def load_card(path: str | Path) -> HeadCard:
    """The card of the head in the file at `path`.  Raises PlannerError likewise."""
    return _parsed(Path(path), _read(Path(path)))[0]


def file_sha256(path: str | Path) -> str:
    """SHA-256 of the file at `path`.  Raises PlannerError when it cannot be read."""
    return hashlib.sha256(_read(Path(path))).hexdigest()


def weights_sha256(head: AcceptanceHead) -> str:
    """SHA-256 over names, shapes and bytes of all weights."""
    digest = hashlib.sha256()
    for name, weight in sorted(_weights(head).items()):
        digest.update(f"{name}{tuple(weight.shape)}".encode())
        digest.update(weight.numpy().tobytes())
    return digest.hexdigest()


def _weights(head: AcceptanceHead) -> dict[str, Tensor]:
    state = head.state_dict()
    return {name: weight.detach().float().cpu().contiguous() for name, weight in state.items()}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise PlannerError(
            f"{path}: no such file; expected an acceptance head, made by planner train-head"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        reason = getattr(error, "strerror", None) or error
        raise PlannerError(f"{str(path)!r:.200}: cannot be read: {reason}") from None


def _parsed(path: Path, data: bytes) -> tuple[HeadCard, AcceptanceHead]:
    try:
        weights = load_tensors(data)
    except SafetensorError as error:
        raise PlannerError(
            f"{path}: not a valid safetensors file ({error}); the file may be damaged: train the "
            "head again"
        ) from None
    # Eight bytes of length, then a JSON header of that length.
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata = header.get("__metadata__") or {}
    if KEY not in metadata:
        raise PlannerError(
            f"{path}: got a safetensors file of something else, expected an acceptance head, made "
            "by planner train-head"
        )
    card = HeadCard.parse(json_object(metadata[KEY], f"{path}: metadata"), str(path))
    return card, _restored(path, card, weights)


def _restored(path: Path, card: HeadCard, weights: dict[str, Tensor]) -> AcceptanceHead:
    size = card.shape.hidden_size
    expected: dict[str, tuple[int, ...]] = {"output.weight": (1, size), "output.bias": (1,)}
    for block in range(min(card.shape.depth, len(weights))):  # one more than there are is enough
        name = f"blocks.{block}.linear"
        expected |= {f"{name}.weight": (size, size), f"{name}.bias": (size,)}
    got = {name: tuple(weight.shape) for name, weight in weights.items()}
    if got != expected:
        odd = sorted(set(got.items()) ^ set(expected.items()))[0][0]
        raise PlannerError(
            f"{path}: {odd}: got shape {got.get(odd)}, expected {expected.get(odd)} for "
            f"{card.shape.depth} blocks of {card.shape.hidden_size}; train the head again"
        )
    if any(weight.dtype != torch.float32 for weight in weights.values()):
        raise PlannerError(f"{path}: got weights of several precisions, expected float32")
    head = AcceptanceHead(card.shape, reject_weight=card.training.reject_weight)
    head.load_state_dict(weights)
    if weights_sha256(head) != card.weights_sha256:
        raise PlannerError(
            f"{path}: the weights are not those that were saved (their SHA-256 differs); the file "
            "is damaged: train the head again"
        )
    return head.eval()
