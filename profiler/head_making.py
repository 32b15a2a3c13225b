"""A trained acceptance head, made from prompts: texts, labels, training, trial; resumable."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from math import inf
from pathlib import Path

import numpy as np
from tqdm import tqdm

from planner.documents.arguments import count
from planner.documents.document import PlannerError
from planner.documents.head_card import HeadCard, HeadData, HeadShape, HeadTraining
from planner.documents.sampling import Sampling
from planner.documents.version import WRITTEN_BY
from runtime.decode import prompt_seed
from runtime.heads import (
    AcceptanceHead,
    Checkpoint,
    LabelledText,
    evaluate,
    hidden_size_of,
    label_texts,
    learning_rate_for,
    num_steps_of,
    thinned,
    train,
    weights_sha256,
)
from runtime.machine import describe_execution, describe_machine
from runtime.pair import Pair

from .journal import Journal, Piece, identity_of, measured_by
from .target_texts import check_prompts, sample_continuations

TEXTS_AT_ONCE = 64
"""Texts that are written, labelled and kept together: what an interruption can cost."""
LEARNT = ("response", "drafts", "labels")
"""Fields of a `LabelledText`, which say something of each of its tokens."""


@dataclass(frozen=True)
class HeadSettings:
    """The head to train: on how much, and how."""

    sampling: Sampling
    num_texts: int = 512
    num_tokens: int = 128
    held_out: float = 0.25
    """Share of the prompts that the head is not trained on but tried."""
    depth: int = 3
    reject_weight: float = 6.0
    mix: float | None = 0.15
    """See `planner.documents.head_card.HeadTraining`."""
    epochs: int = 3
    batch_size: int = 32
    learning_rate: float | None = None
    """None: the paper's, carried over to the draft's hidden size and the number of steps."""
    seed: int = 0


def make_head(
    pair: Pair,
    prompts: Sequence[Sequence[int]],
    settings: HeadSettings,
    *,
    output: str | Path | None = None,
    report_line: Callable[[str], None] = lambda line: None,
) -> tuple[AcceptanceHead, HeadCard]:
    """Train a head for the pair's draft and try it on prompts that it has not seen.

    prompts  token ids; the target continues them in turn until there are `num_texts` texts, at
             temperature 0 once each
    output   where the head is going to be written: finished pieces are kept beside it, and an
             interrupted run with the same settings continues there and ends with the same head;
             once that is safely written, call `discard_pieces(output)`

    Progress goes to stderr.  Raises PlannerError for settings outside their ranges, a draft that
    does not show its hidden states, fewer than two prompts, prompts that are empty, too long or
    outside the vocabulary, and for training that diverges.
    """
    _check_settings(settings)
    draft = pair.hidden_draft
    if len(prompts) < 2:
        raise PlannerError(
            f"prompts: got {len(prompts)}, expected at least 2: one to train on and one to try"
        )
    check_prompts(prompts, pair, settings.num_tokens)
    identity = identity_of(pair, prompts) | {
        "what": "texts for a head",
        "sampling": settings.sampling.model_dump(),
        "num_texts": settings.num_texts,
        "num_tokens": settings.num_tokens,
        "held_out": settings.held_out,
        "seed": settings.seed,
    }
    journal = Journal(output, identity, measured_by(), report_line)
    texts = _texts(pair, prompts, settings, journal)
    held_out = _held_out(len(prompts), settings)
    seen = [text for text in texts if text.prompt_index not in held_out]
    unseen = [text for text in texts if text.prompt_index in held_out]
    if not seen or not unseen:
        raise PlannerError(
            f"num_texts: got {settings.num_texts} texts behind {len(prompts)} prompts, expected "
            "some on either side of the split; raise it to the number of prompts"
        )
    size = hidden_size_of(draft, seen[0].prompt)
    shape = HeadShape(hidden_size=size, depth=settings.depth)
    training = _training(size, len(seen), settings)
    learning = {"training": training.model_dump()} | shape.model_dump()
    kept = Journal(output, identity | learning, measured_by()).place("training.checkpoint")
    head, losses = train(
        draft, seen, shape, training, checkpoint=None if kept is None else Checkpoint(kept)
    )
    data = _data_of(identity["prompts"], seen, unseen)
    report_line(f"trying the head on {len(unseen)} texts behind {len(held_out)} prompts")
    card = HeadCard(
        written_by=WRITTEN_BY,
        target=pair.target.info,
        draft=pair.draft.info,
        sampling=settings.sampling,
        shape=shape,
        training=training,
        data=data,
        losses=thinned(losses),
        evaluation=evaluate(
            head, pair, unseen, settings.sampling,
            mean_acceptance=data.mean_acceptance, seed=settings.seed,
        ),
        machine=describe_machine(pair.target.device),
        execution=describe_execution(pair.draft),
        weights_sha256=weights_sha256(head),
    )  # fmt: skip
    return head, card


def _check_settings(settings: HeadSettings) -> None:
    """Raise PlannerError before texts are written, which is most of the work."""
    for name, high in (("held_out", 1), ("reject_weight", inf), ("learning_rate", inf)):
        value = getattr(settings, name)
        if value is not None and not 0 < value < high:
            raise PlannerError(f"{name}: got {value}, expected more than 0, less than {high}")
    if settings.sampling.penalizes:
        raise PlannerError(
            f"repetition_penalty: got {settings.sampling.repetition_penalty:g}, expected 1: heads "
            "are trained and read without one"
        )
    if settings.mix is not None and not 0 <= settings.mix < 1:
        raise PlannerError(f"mix: got {settings.mix}, expected at least 0, less than 1, or None")
    least = {"num_texts": 2, "num_tokens": 1, "depth": 0, "epochs": 1, "batch_size": 1}
    for name, number in least.items():
        count(getattr(settings, name), name, number)
    count(settings.seed, "seed", 0, 2**63 - 1)


def _texts(
    pair: Pair, prompts: Sequence[Sequence[int]], settings: HeadSettings, journal: Journal
) -> list[LabelledText]:
    """Written and labelled in pieces; the seed of each piece is its own."""
    num_texts = settings.num_texts
    if settings.sampling.is_greedy:  # a second text would be the first again
        num_texts = min(num_texts, len(prompts))
    texts: list[LabelledText] = []
    firsts = range(0, num_texts, TEXTS_AT_ONCE)
    for number, first in enumerate(tqdm(firsts, unit="piece", desc="texts")):
        indices = [i % len(prompts) for i in range(first, min(first + TEXTS_AT_ONCE, num_texts))]
        seeds = [prompt_seed(settings.seed, 2 * number + which) for which in (1, 2)]
        measure = partial(_piece, pair, prompts, indices, settings, seeds)
        piece = journal.piece(f"texts-{number}", measure)
        ends = np.cumsum(piece["num_tokens"])[:-1]
        rows = [np.split(piece[name], ends) for name in LEARNT]
        texts += [
            LabelledText(tuple(prompts[index]), index, *arrays)
            for index, *arrays in zip(piece["prompt_index"].tolist(), *rows, strict=True)
        ]
    return texts


def _piece(
    pair: Pair,
    prompts: Sequence[Sequence[int]],
    indices: list[int],
    settings: HeadSettings,
    seeds: list[int],
) -> Piece:
    """Texts behind the prompts at `indices`, written with the first seed, labelled with the other,
    one after the other."""
    chosen = [prompts[index] for index in indices]
    responses = sample_continuations(
        pair.target, chosen, settings.sampling, settings.num_tokens, seeds[0]
    )
    texts = label_texts(
        pair, chosen, responses, settings.sampling, seed=seeds[1], prompt_indices=indices
    )
    return {
        "prompt_index": np.array([text.prompt_index for text in texts]),
        "num_tokens": np.array([len(text) for text in texts]),
        **{name: np.concatenate([getattr(text, name) for text in texts]) for name in LEARNT},
    }


def _held_out(num_prompts: int, settings: HeadSettings) -> set[int]:
    """Numbers of the prompts that the head is tried on."""
    order = np.random.default_rng(settings.seed).permutation(num_prompts).tolist()
    return set(order[: min(max(1, round(settings.held_out * num_prompts)), num_prompts - 1)])


def _training(hidden_size: int, num_texts: int, settings: HeadSettings) -> HeadTraining:
    steps = num_steps_of(num_texts, settings.epochs, settings.batch_size)
    return HeadTraining(
        reject_weight=settings.reject_weight,
        mix=settings.mix,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate or learning_rate_for(hidden_size, steps),
        seed=settings.seed,
    )


def _data_of(
    prompts: list[list[int]], seen: list[LabelledText], unseen: list[LabelledText]
) -> HeadData:
    labels = np.concatenate([text.labels for text in seen])
    return HeadData(
        prompts_sha256=sha256(json.dumps(prompts).encode()).hexdigest(),
        num_prompts=len({text.prompt_index for text in seen}),
        num_texts=len(seen),
        num_tokens=len(labels),
        mean_acceptance=float(labels.mean(dtype=np.float64)),
        held_out_prompts=len({text.prompt_index for text in unseen}),
        held_out_texts=len(unseen),
        held_out_tokens=sum(map(len, unseen)),
    )
