"""How good a head is on prompts that it was not trained on, and what stopping by it saves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

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

from ..pair import Pair
from ..randomness import seeded_source
from ..written import Written
from .acceptance_head import AcceptanceHead, unweighted
from .drafted_chains import Chains, chains_along
from .labelled_texts import LabelledText, hidden_behind_text
from .stopping_counts import Counts, fixed_counts, threshold_counts

MAX_DRAFTED = 20  # tokens of the longest chain, as in the paper (section 5.1)
COMPARED_LENGTHS = (1, 2, 3, 4, 6, 8, 12)
NUM_BINS = 10
NEGLIGIBLE = 1e-5  # discarded tokens per token that are taken for rounding

THRESHOLDS = tuple((-np.expm1(-np.geomspace(0.0025, 30, 33))).tolist())
"""1 - exp(-x) for x from 0.0025 to 30: from hardly any risk taken to chains of every length, also
where a score's factors are far below the truth."""


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
    with torch.inference_mode():
        behind = (hidden_behind_text(pair.hidden_draft, text) for text in texts)
        logits = torch.cat([head(hidden) for hidden in behind]).double().cpu()
    if not logits.isfinite().all():
        raise PlannerError(
            "head: got scores that are no numbers, expected finite ones: its training diverged; "
            "lower the learning rate"
        )
    labels = torch.from_numpy(np.concatenate([text.labels for text in texts])).double()
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
    said = -(labels * logsigmoid(logits) + (1 - labels) * logsigmoid(-logits))
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


def _curve(score: str, counts: Counts, num_tokens: np.ndarray) -> StoppingCurve:
    settings = range(1, MAX_DRAFTED + 1) if score == "fixed" else THRESHOLDS
    discarded, verified = _rates(counts, num_tokens, np.ones(len(num_tokens)))
    points = [
        StoppingPoint(
            setting=round(float(setting), 6), discard_rate=d, verification_rate=min(v, 1.0)
        )
        for setting, d, v in zip(settings, discarded.tolist(), verified.tolist(), strict=True)
    ]
    return StoppingCurve(rule=score, points=points)


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
    weights = [np.ones(len(prompts))]
    if len(np.unique(prompts)) > 1:
        weights += [(prompts != one).astype(float) for one in np.unique(prompts)]
    by_weights = [
        {score: _rates(counts, num_tokens, each) for score, counts in curves.items()}
        for each in weights
    ]
    discarded, verified = by_weights[0]["fixed"]
    compared = []
    for length in COMPARED_LENGTHS:
        change: dict[str, Estimate] = {}
        for score in STOPPING_SCORES:
            values = np.array([_change(rates, score, length) for rates in by_weights])
            if len(values) > 2 and np.isfinite(values).all():
                change[score] = _jackknifed(values)
        compared.append(
            StoppingComparison(
                num_drafted=length,
                verification_rate=min(float(verified[length - 1]), 1.0),
                discard_rate=float(discarded[length - 1]),
                change=change,
            )
        )
    return compared


def _change(rates: dict[str, tuple[np.ndarray, np.ndarray]], score: str, length: int) -> float:
    """Relative change of the discard rate at the verification rate of a fixed length; NaN where
    the score's settings reach no such rate, and where the fixed length discards nothing."""
    discarded, verified = rates[score]
    fixed_discarded, fixed_verified = (rate[length - 1] for rate in rates["fixed"])
    if fixed_discarded < NEGLIGIBLE or not verified.min() <= fixed_verified <= verified.max():
        return float("nan")
    order = np.argsort(verified, kind="stable")
    return float(np.interp(fixed_verified, verified[order], discarded[order]) / fixed_discarded - 1)


def _jackknifed(values: np.ndarray) -> Estimate:
    """values  float64 [1 + prompts]: of all texts, then without each prompt's."""
    value, left_out = float(values[0]), values[1:]
    error = float(np.sqrt((len(left_out) - 1) * left_out.var()))
    return Estimate(value=value, low=value - 2 * error, high=value + 2 * error)
