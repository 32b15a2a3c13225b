"""How often drafted children are accepted: measured along text that the target itself wrote."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from planner.documents.profile import Acceptance, PromptAcceptance
from planner.documents.sampling import Sampling
from planner.verifiers import VERIFIERS, verifier_at
from runtime.language_model import LanguageModel
from runtime.sampling import distribution

from .journal import Piece
from .optimum import Optimum
from .texts import sample_continuations
from .traces import Traces, traced


def measure_acceptance(
    target: LanguageModel,
    draft: LanguageModel,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    *,
    num_tokens: int,
    num_ranks: int,
    seed: int,
) -> Piece:
    """Traces of every verifier over the target's own continuations of `prompts`.

    One batched generation by the target, then one pass of each model over each text.  Returns what
    `trace_texts` does and, where the target samples, what `Optimum.piece` names.
    """
    texts = sample_continuations(target, prompts, sampling, num_tokens, seed)
    optimum = Optimum()
    piece = trace_texts(
        target, draft, prompts, texts, sampling,
        verifiers=list(VERIFIERS), num_ranks=num_ranks, seed=seed, optimum=optimum,
    )  # fmt: skip
    return piece | optimum.piece()


def trace_texts(
    target: LanguageModel,
    draft: LanguageModel,
    prompts: Sequence[Sequence[int]],
    texts: Sequence[Sequence[int]],
    sampling: Sampling,
    *,
    verifiers: Sequence[str],
    num_ranks: int,
    seed: int,
    optimum: Optimum | None = None,
) -> Piece:
    """Traces of `verifiers` along `texts`, each the target's own continuation of its prompt.

    optimum  collects the best acceptance possible at the same positions, where the target samples

    Returns the arrays "num_positions" int64 [prompts], "texts" int64 [their sum], the texts one
    after the other, and, for each verifier traced, "NAME/expected" and "NAME/emitted", float32
    [sum of num_positions, num_columns], for as many ranks as it serves up to `num_ranks`.  At
    temperature 0 the one verifier is `GREEDY_VERIFIER`.
    """
    decoding = list(dict.fromkeys(verifier_at(name, sampling) for name in verifiers))
    rng = torch.Generator(target.device).manual_seed(seed)
    traces: dict[str, list[Traces]] = {verifier.name: [] for verifier in decoding}
    for prompt, text in zip(prompts, texts, strict=True):
        p, q = distributions_along(target, draft, prompt, text, sampling)
        emitted = torch.tensor(text, device=p.device)
        for verifier in decoding:
            traces[verifier.name].append(traced(verifier, (p, q), emitted, num_ranks, rng))
        # where decoding is greedy, its verifier is itself the best there is
        if optimum is not None and not sampling.is_greedy:
            optimum.add(p, q)
    piece = {
        "num_positions": np.array([len(text) for text in texts]),
        "texts": np.array([token for text in texts for token in text]),
    }
    for name, rows in traces.items():
        for field in Traces._fields:
            stacked = torch.cat([getattr(row, field) for row in rows])
            piece[f"{name}/{field}"] = stacked.cpu().numpy()
    return piece


def texts_of(piece: Piece) -> list[list[int]]:
    """The continuations that `measure_acceptance` scored."""
    ends = np.cumsum(piece["num_positions"])[:-1]
    return [text.tolist() for text in np.split(piece["texts"], ends)]


def acceptance_entries(
    piece: Piece, sampling: Sampling
) -> tuple[list[Acceptance], dict[str, np.ndarray]]:
    """The profile's entries for the verifiers that were traced, and the arrays they name."""
    entries, arrays = [], {}
    for verifier in VERIFIERS:
        decoding = verifier_at(verifier, sampling)
        expected = piece.get(f"{decoding.name}/expected")
        if expected is None:
            continue
        prefix = f"{str(sampling).replace(' ', ',')}/{decoding.name}"
        names = {field: f"{prefix}/{field}" for field in Traces._fields}
        for field, name in names.items():
            arrays[name] = piece[f"{decoding.name}/{field}"]
        by_prompt = np.split(expected.astype(np.float64), np.cumsum(piece["num_positions"])[:-1])
        by_rank_alone = decoding.by_rank_alone
        num_columns = expected.shape[1]
        num_ranks = num_columns if by_rank_alone else Acceptance.ranks_in(num_columns)
        entries.append(
            Acceptance(
                sampling=sampling,
                verifier=verifier,
                num_ranks=num_ranks,
                by_rank_alone=by_rank_alone,
                prompts=[
                    PromptAcceptance(
                        num_positions=len(rows),
                        acceptance=[round(float(rate), 7) for rate in rows.mean(axis=0)],
                    )
                    for rows in by_prompt
                ],
                **names,
            )
        )
    return entries, arrays


def distributions_along(
    target: LanguageModel,
    draft: LanguageModel,
    prompt: Sequence[int],
    text: Sequence[int],
    sampling: Sampling,
) -> tuple[torch.Tensor, torch.Tensor]:
    """p and q, float [len(text), V], in front of every token of `text`, as decoding sees them."""
    tokens = torch.tensor([*prompt, *text[:-1]])
    distributions = []
    for model in (target, draft):
        cache = model.new_cache(len(tokens))
        positions = torch.arange(len(tokens), device=model.device)
        logits = model.forward(tokens.to(model.device), positions, cache, num_logits=len(text)).to(
            target.device
        )
        own = sampling.of_draft if model is draft else sampling
        distributions.append(distribution(logits, own))
    return distributions[0], distributions[1]
