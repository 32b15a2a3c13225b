"""How good a head is on prompts that it was not trained on, and what stopping by it saves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from planner.documents.document import PlannerError
from planner.documents.estimate import Estimate
from planner.documents.head_card import (
    STOPPING_SCORES,
    CalibrationBin,
    HeadEvaluation,
    StoppingComparison,
    StoppingCurve,
    StoppingPoint,
)
from planner.documents.sampling import Sampling

from ..language_model import HiddenModel
from ..pair import Pair
from ..randomness import seeded_source
from ..written import Written
from .acceptance_head import AcceptanceHead, unweighted
from .drafted_chains import Chains, chains_along
from .labelled_texts import LabelledText, hidden_behind_text
from .stopping_counts import Counts, fixed_counts, threshold_counts

MAX_DRAFTED = 20
"""Tokens of the longest chain, as in the paper (section 5.1)."""

THRESHOLDS = tuple((-np.expm1(-np.geomspace(0.0025, 30, 33))).tolist())
"""1 - exp(-x) for x from 0.0025 to 30: from hardly any risk taken to chains of every length, also
where a score's factors are far below the truth."""

NEGLIGIBLE = 1e-5
"""Discarded tokens per token that are taken for rounding."""

COMPARED_LENGTHS = (1, 2, 3, 4, 6, 8, 12)
NUM_BINS = 10


def evaluate(
    head: AcceptanceHead,
    pair: Pair,
    texts: Sequence[LabelledText],
    sampling: Sampling,
    *,
    mean_acceptance: float,
    seed: int,
) -> HeadEvaluation:
    """`head` on held-out texts: fit, calibration, and stopping along the texts.

    mean_acceptance  of the texts it was trained on: what it has to be better than; taken to be no
                     closer to 0 and 1 than by half a token of those tried

    Raises PlannerError for a head whose scores are no numbers.
    """
    logits, labels = _predictions(head, pair.hidden_draft, texts)
    if not logits.isfinite().all():
        raise PlannerError(
            "head: got scores that are no numbers, expected finite ones: its training diverged; "
            "lower the learning rate"
        )
    source = seeded_source(seed, pair.draft.device)
    chains = [
        chains_along(
            pair, head, Written(text.prompt, text.response.tolist()), sampling,
            depth=MAX_DRAFTED, source=source,
        )
        for text in texts
    ]  # fmt: skip
    curves = stopping_counts(chains)
    num_tokens = np.array([len(text) for text in texts], dtype=np.float64)
    prompts = np.array([text.prompt_index for text in texts])
    constant = torch.tensor(mean_acceptance).double().logit(eps=0.5 / len(labels))
    return HeadEvaluation(
        kl=binary_kl(labels, logits),
        kl_unweighted=binary_kl(labels, unweighted(logits, head.reject_weight)),
        kl_constant=binary_kl(labels, constant.expand_as(labels)),
        calibration=_calibration(logits, labels, head.reject_weight),
        max_drafted=MAX_DRAFTED,
        stopping=[_curve(score, counts, num_tokens) for score, counts in curves.items()],
        compared=_compared(curves, num_tokens, prompts),
    )


def binary_kl(labels: Tensor, logits: Tensor) -> float:
    """Mean of P log(P/s) + (1-P) log((1-P)/(1-s)), nats (SpecDec++, appendix D.3).

    labels  float64 [m], P      logits  float64 [m], of s
    """
    said = -(
        labels * torch.nn.functional.logsigmoid(logits)
        + (1 - labels) * torch.nn.functional.logsigmoid(-logits)
    )
    known = torch.special.entr(labels) + torch.special.entr(1 - labels)
    return float((said - known).mean().clamp(min=0))


def stopping_counts(chains: Sequence[Chains]) -> dict[str, Counts]:
    """The totals, by way of stopping, of every text at every setting: float64 [texts, settings].

    These are the fixed lengths 1 to `MAX_DRAFTED`, then those of `STOPPING_SCORES` at `THRESHOLDS`.
    """
    found = {"fixed": [fixed_counts(each, range(1, MAX_DRAFTED + 1)) for each in chains]}
    for score in STOPPING_SCORES:
        found[score] = [threshold_counts(each, score, THRESHOLDS, MAX_DRAFTED) for each in chains]
    return {
        score: Counts(*(np.stack(each) for each in zip(*rows, strict=True)))
        for score, rows in found.items()
    }


def _predictions(
    head: AcceptanceHead, draft: HiddenModel, texts: Sequence[LabelledText]
) -> tuple[Tensor, Tensor]:
    """Logits and labels, float64 [m], of every drafted token behind the target's own text."""
    with torch.inference_mode():
        logits = torch.cat([head(hidden_behind_text(draft, text)) for text in texts])
    labels = np.concatenate([text.labels for text in texts])
    return logits.double().cpu(), torch.from_numpy(labels).double()


def _calibration(logits: Tensor, labels: Tensor, reject_weight: float) -> list[CalibrationBin]:
    order = logits.argsort(stable=True)
    return [
        CalibrationBin(
            num_tokens=len(part),
            score=float(logits[part].sigmoid().mean()),
            predicted=float(unweighted(logits[part], reject_weight).sigmoid().mean()),
            accepted=float(labels[part].mean()),
        )
        for part in order.tensor_split(NUM_BINS)
        if len(part)
    ]


def _settings(score: str) -> Sequence[float]:
    return range(1, MAX_DRAFTED + 1) if score == "fixed" else THRESHOLDS


def _curve(score: str, counts: Counts, num_tokens: np.ndarray) -> StoppingCurve:
    discarded, verified = _rates(counts, num_tokens, np.ones(len(num_tokens)))
    return StoppingCurve(
        rule=score,
        points=[
            StoppingPoint(
                setting=round(float(setting), 6),
                discard_rate=float(discarded[place]),
                verification_rate=min(float(verified[place]), 1.0),
            )
            for place, setting in enumerate(_settings(score))
        ],
    )


def _rates(
    counts: Counts, num_tokens: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(N_discarded / N, N_target / N) by setting, float64 [settings], texts weighed."""
    total = weights @ num_tokens
    return weights @ counts.discarded / total, weights @ counts.verified / total


def _compared(
    curves: dict[str, Counts], num_tokens: np.ndarray, prompts: np.ndarray
) -> list[StoppingComparison]:
    """Intervals by the jackknife over prompts, two standard errors to either side; of one prompt
    nothing can be said."""
    left_out = set(prompts.tolist()) if len(set(prompts.tolist())) > 1 else ()
    weights = [np.ones(len(prompts)), *((prompts != one).astype(float) for one in left_out)]
    by_weights = [
        {score: _rates(counts, num_tokens, each) for score, counts in curves.items()}
        for each in weights
    ]
    compared = []
    for length in COMPARED_LENGTHS:
        changes = {
            score: [_change(rates, score, length) for rates in by_weights]
            for score in STOPPING_SCORES
        }
        discarded, verified = by_weights[0]["fixed"]
        compared.append(
            StoppingComparison(
                num_drafted=length,
                verification_rate=min(float(verified[length - 1]), 1.0),
                discard_rate=float(discarded[length - 1]),
                change={
                    score: _jackknifed(np.array(values))
                    for score, values in changes.items()
                    if len(values) > 2 and np.isfinite(values).all()
                },
            )
        )
    return compared


def _change(rates: dict[str, tuple[np.ndarray, np.ndarray]], score: str, length: int) -> float:
    """Relative change of the discard rate at the verification rate of a fixed length; NaN where
    the score's settings reach no such rate, and where the fixed length discards nothing."""
    discarded, verified = rates[score]
    fixed_discarded, fixed_verified = (rate[length - 1] for rate in rates["fixed"])
    order = np.argsort(verified, kind="stable")
    if (
        not verified[order[0]] <= fixed_verified <= verified[order[-1]]
        or fixed_discarded < NEGLIGIBLE
    ):
        return float("nan")
    return float(np.interp(fixed_verified, verified[order], discarded[order]) / fixed_discarded - 1)


def _jackknifed(values: np.ndarray) -> Estimate:
    """values  float64 [1 + prompts]: of all texts, then without each prompt's."""
    left_out = values[1:]
    count = len(left_out)
    error = np.sqrt((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum())
    value = float(values[0])
    return Estimate(value=value, low=value - 2 * float(error), high=value + 2 * float(error))
