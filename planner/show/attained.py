"""How often are drafted children accepted, how sure is that, and how near is it to the optimum?"""

from __future__ import annotations

import numpy as np

from ..documents.estimate import Estimate
from ..documents.optimal_acceptance import OptimalAcceptance
from ..documents.profile import Acceptance, Profile
from ..estimates.bootstrap import interval, resamples
from ..estimates.intervals import around
from ..verifiers import VERIFIERS


def acceptance_by_rank(entry: Acceptance) -> list[Estimate]:
    """Acceptance by rank at a node of as many children as there are ranks, with its interval."""
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
    verifier = VERIFIERS.get(entry.verifier)
    if verifier is None or entry.sampling.is_greedy:  # where children are not drawn
        return None
    wanted = (entry.sampling, verifier.law)
    return next((bound for bound in profile.optimal if (bound.sampling, bound.law) == wanted), None)


def share_of_optimum(profile: Profile, entry: Acceptance) -> np.ndarray | None:
    """float64 [k]: P(any child is accepted) over the bound at its positions, for 1 child and more.

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
    """float64 [num_columns]: mean acceptance at the positions of `bound`."""
    lengths = [prompt.num_positions for prompt in entry.prompts]
    chosen = [prompt.num_positions for prompt in bound.prompts]
    if chosen == lengths:
        return entry.mean_columns()
    traces = profile.traces(entry)
    if traces is None or len(chosen) != len(lengths):
        return None
    texts = zip(np.cumsum([0, *lengths[:-1]]), lengths, chosen, strict=True)
    rows = [first + (2 * np.arange(m) + 1) * n // (2 * m) for first, n, m in texts]
    of_all = traces[0][np.concatenate(rows), -entry.num_columns :]
    return np.asarray(of_all.mean(axis=0, dtype=np.float64))
