"""How often are drafted children accepted, how sure is that, and how near is it to the optimum?

For people: plans are made from the traces themselves.
"""

from __future__ import annotations

import numpy as np

from ..documents.estimate import Estimate
from ..documents.profile import Acceptance, OptimalAcceptance, Profile
from ..estimates.bootstrap import interval, resamples
from ..estimates.intervals import around
from ..verifiers import VERIFIERS


def acceptance_by_rank(entry: Acceptance) -> list[Estimate]:
    """Acceptance by rank at a node of as many children as there are ranks.

    Every position weighs the same.
    """
    rates, num_prompts = entry.by_prompt(), len(entry.prompts)
    lengths = np.array([prompt.num_positions for prompt in entry.prompts], np.float64)
    weights = resamples(num_prompts) * lengths
    samples = weights @ rates / weights.sum(axis=1, keepdims=True)
    return [
        around(value, *interval(column, num_prompts, least=0.0, most=1.0))
        for value, column in zip(entry.mean().tolist(), samples.T, strict=True)
    ]


def optimum(profile: Profile, entry: Acceptance) -> OptimalAcceptance | None:
    """The bound for children drawn as this entry's verifier draws them; None: not recorded."""
    if entry.sampling.is_greedy:
        return None  # there the children are not drawn
    law = VERIFIERS[entry.verifier].law if entry.verifier in VERIFIERS else None
    for recorded in profile.optimal:
        if recorded.sampling == entry.sampling and recorded.law == law:
            return recorded
    return None


def share_of_optimum(profile: Profile, entry: Acceptance) -> np.ndarray | None:
    """float64 [k]: P(any child is accepted) over the bound, for 1 child and more.

    Both at the same positions.

    None where no bound was recorded, or only at some positions that cannot be told apart from the
    others for want of traces.  NaN where the bound is 0.
    """
    bound = optimum(profile, entry)
    columns = None if bound is None else _at_positions_of(bound, profile, entry)
    if bound is None or columns is None:
        return None
    most = min(entry.num_ranks, bound.num_children)
    best, reached = bound.mean()[:most], entry.by_count(columns)[:most]
    return np.divide(reached, best, out=np.full(most, np.nan), where=best > 0)


def _at_positions_of(
    bound: OptimalAcceptance, profile: Profile, entry: Acceptance
) -> np.ndarray | None:
    """float64 [num_columns]: mean acceptance at the positions of `bound` (see its class)."""
    lengths = [prompt.num_positions for prompt in entry.prompts]
    chosen = [prompt.num_positions for prompt in bound.prompts]
    if chosen == lengths:
        return entry.mean_columns()
    traces = profile.traces(entry)
    if traces is None or len(chosen) != len(lengths):
        return None
    firsts = np.cumsum([0, *lengths[:-1]])
    rows = np.concatenate(
        [
            first + (2 * np.arange(m) + 1) * n // (2 * m)
            for first, n, m in zip(firsts, lengths, chosen, strict=True)
        ]
    )
    return np.asarray(traces[0][rows].mean(axis=0, dtype=np.float64))
