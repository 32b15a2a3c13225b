"""How often drafted children are accepted: measured along text that the target itself wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from planner.documents.profile import Acceptance, PromptAcceptance
from planner.documents.sampling import Sampling
from planner.verifiers import VERIFIERS, Verifier, verifier_at
from planner.verifiers.namespace import in_chunks
from planner.verifiers.rejection import rows_to_one
from planner.verifiers.traced import Traced
from runtime.held_tokens import held_along
from runtime.pair import Pair
from runtime.token_distribution import distribution
from runtime.written import Written, logits_behind

from .journal import Piece
from .optimum import Optimum, mean_rates
from .target_texts import sample_continuations


@dataclass(frozen=True)
class Tracing:
    """The verifiers to trace, and how.

    num_ranks  children of one node, for verifiers that serve so many
    seed       of the rejections that are drawn where counting them would take too long
    verifiers  by name, of those that decode where the target samples
    """

    num_ranks: int
    seed: int
    verifiers: tuple[str, ...] = tuple(VERIFIERS)


def measure_acceptance(
    pair: Pair,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    tracing: Tracing,
    *,
    num_tokens: int,
) -> Piece:
    """Traces over the target's own continuations of `prompts`, each of up to `num_tokens` tokens.

    One batched generation by the target, then one pass of each model over each text.  Returns what
    `trace_texts` does and, where the target samples, what `Optimum.piece` names.
    """
    texts = sample_continuations(pair.target, prompts, sampling, num_tokens, tracing.seed)
    written = [Written(*each) for each in zip(prompts, texts, strict=True)]
    optimum = Optimum()
    return trace_texts(pair, written, sampling, tracing, optimum) | optimum.piece()


def trace_texts(
    pair: Pair,
    texts: Sequence[Written],
    sampling: Sampling,
    tracing: Tracing,
    optimum: Optimum | None = None,
) -> Piece:
    """Traces along `texts`, which the target itself wrote.

    optimum  collects the best acceptance possible at the same positions, where the target samples

    Returns the arrays "num_positions" int64 [texts], "texts" int64 [their sum], the texts one
    after the other, and, for each verifier traced, "NAME/expected", "NAME/emitted" and what else
    `Traced` has, float32 [sum of num_positions, num_columns], for as many ranks as it serves up to
    `num_ranks`.  At temperature 0 the one verifier is `GREEDY_VERIFIER`.
    """
    decoding = list(dict.fromkeys(verifier_at(name, sampling) for name in tracing.verifiers))
    rng = torch.Generator(pair.target.device).manual_seed(tracing.seed)
    traces: dict[str, list[Traced]] = {verifier.name: [] for verifier in decoding}
    for written in texts:
        p, q = distributions_along(pair, written, sampling)
        emitted = torch.tensor(written.text, device=p.device)
        for name, row in traced(decoding, (p, q), emitted, tracing.num_ranks, rng).items():
            traces[name].append(row)
        # where decoding is greedy, its verifier is itself the best there is
        if optimum is not None and not sampling.is_greedy:
            optimum.add(p, q)
    piece = {
        "num_positions": np.array([len(written.text) for written in texts]),
        "texts": np.array([token for written in texts for token in written.text]),
    }
    for name, rows in traces.items():
        for field, arrays in zip(Traced._fields, zip(*rows, strict=True), strict=True):
            if arrays[0] is not None:
                piece[f"{name}/{field}"] = torch.cat(arrays).cpu().numpy()
    return piece


def traced(
    verifiers: Sequence[Verifier],
    pair: tuple[Tensor, Tensor],
    emitted: Tensor,
    num_ranks: int,
    rng: torch.Generator,
) -> dict[str, Traced]:
    """Traces of each of `verifiers` by its name, some positions at a time.

    pair       p and q, float [N, V]
    emitted    int64 [N]  the tokens of the text
    num_ranks  ranks wanted; no more come than the verifier serves
    """
    chunks: dict[str, list[Traced]] = {verifier.name: [] for verifier in verifiers}
    for p, q, tokens in in_chunks((*pair, emitted)):
        p, q, tokens = rows_to_one(p.double()), rows_to_one(q.double()), tokens[:, None]
        for verifier in verifiers:
            every, one = verifier.entered, len(verifier.entered) == 1
            found = [verifier.traced(each, p, q, tokens, num_ranks, rng) for each in every]
            whole = _joined(found, -1)
            chunks[verifier.name].append(whole._replace(entering=None) if one else whole)
    return {name: _joined(parts, 0) for name, parts in chunks.items()}


def _joined(parts: Sequence[Traced], axis: int) -> Traced:
    """All parts side by side, float32."""
    expected, emitted, entering = zip(*parts, strict=True)
    return Traced(
        torch.cat(expected, axis).float(),
        torch.cat(emitted, axis).float(),
        None if entering[0] is None else torch.cat(entering, axis).float(),
    )


def texts_of(piece: Piece) -> list[list[int]]:
    """The continuations that `measure_acceptance` scored."""
    ends = np.cumsum(piece["num_positions"])[:-1]
    return [text.tolist() for text in np.split(piece["texts"], ends)]


def acceptance_entries(
    piece: Piece, sampling: Sampling
) -> tuple[list[Acceptance], dict[str, np.ndarray]]:
    """The profile's entries for the verifiers that were traced, and the arrays they name."""
    entries: list[Acceptance] = []
    arrays: Piece = {}
    ends = np.cumsum(piece["num_positions"])[:-1]
    for verifier in VERIFIERS:
        decoding = verifier_at(verifier, sampling)
        if f"{decoding.name}/expected" not in piece:
            continue
        prefix = f"{str(sampling).replace(' ', ',')}/{decoding.name}"
        names = {
            field: f"{prefix}/{field}"
            for field in Traced._fields
            if f"{decoding.name}/{field}" in piece
        }
        arrays |= {name: piece[f"{decoding.name}/{field}"] for field, name in names.items()}
        expected = piece[f"{decoding.name}/expected"]
        expected = np.split(expected, len(decoding.entered), axis=1)[-1]
        num_ranks = expected.shape[1]
        if not decoding.by_rank_alone:
            num_ranks = Acceptance.ranks_in(num_ranks)
        entries.append(
            Acceptance(
                sampling=sampling,
                verifier=verifier,
                num_ranks=num_ranks,
                by_rank_alone=decoding.by_rank_alone,
                entered=list(decoding.entered),
                prompts=[
                    PromptAcceptance(num_positions=len(rows), acceptance=mean_rates(rows))
                    for rows in np.split(expected.astype(np.float64), ends)
                ],
                expected=names.get("expected"),
                emitted=names.get("emitted"),
                entering=names.get("entering"),
            )
        )
    return entries, arrays


def distributions_along(
    pair: Pair, written: Written, sampling: Sampling, of_draft: Sampling | None = None
) -> tuple[Tensor, Tensor]:
    """p and q, float [tokens, V], in front of every token of the text, as decoding sees them.

    of_draft  how the draft's logits become q; None: as in decoding here
    """
    held = held_in_front(written, pair.vocab_size, pair.target.device, sampling)
    p, q = (
        distribution(logits_behind(model, written).to(pair.target.device), own, held)
        for model, own in ((pair.target, sampling), (pair.draft, of_draft or sampling.of_draft))
    )
    return p, q


def held_in_front(
    written: Written, vocab_size: int, device: torch.device, sampling: Sampling
) -> Tensor | None:
    """bool [tokens, V]: what the text holds in front of each of its tokens, the prompt's included;
    None where `sampling` does not ask."""
    if not sampling.penalizes:
        return None
    read = [*written.prompt, *written.text[:-1]]
    return held_along(read, vocab_size, device)[len(written.prompt) - 1 :]
