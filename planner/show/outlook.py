"""The outlook of a profile: acceptance with its error, and plans where they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..documents.document import PlannerError
from ..documents.estimate import Estimate
from ..documents.profile import Acceptance, Profile
from ..documents.sampling import Sampling
from ..estimates.step_costs import step_costs
from ..verifiers import GREEDY_VERIFIER
from .attained import acceptance_by_rank, optimum, share_of_optimum
from .ranking_text import ranking
from .tables import Shown, table

if TYPE_CHECKING:
    from ..optimizer.choice import Question

NO_TRACES = (
    "No traces were recorded: rounds are taken to start anywhere with equal chance, which promises "
    "up to some 20 % too much."
)

_RANKS_SHOWN = 6
_CHILDREN_SHOWN = (1, 2, 3, 4, 8)


def outlook(
    profile: Profile, *, temperature: float | None = None, plans: Question | None = None
) -> Iterator[Shown]:
    """Two tables of acceptance for every sampling (None), or at one temperature.

    plans  where plans are asked for too, a table of them and why the first is the first: at which
           batch size and context; its solver, verifier and limits hold as well

    Raises PlannerError for what is asked for and was not measured.
    """
    samplings = list(dict.fromkeys(entry.sampling for entry in profile.acceptance))
    if temperature is not None:
        samplings = [profile.sampling_at(temperature)]
    if plans is not None:  # were they measured there?
        step_costs(profile, batch_size=plans.batch_size, context=plans.context)
    for sampling in samplings:
        entries = _entries(profile, sampling)
        yield _by_rank(sampling, entries)
        yield _by_children(profile, sampling, entries)
        if plans is not None:
            yield from _plans(profile, replace(plans, sampling=sampling))


def _entries(profile: Profile, sampling: Sampling) -> list[Acceptance]:
    """One per verifier, in the profile's order; where all verifiers are one, only that."""
    kept: dict[str, Acceptance] = {}
    for entry in profile.acceptance:
        if entry.sampling == sampling:
            kept.setdefault(entry.verifier, entry)
    if sampling.is_greedy and GREEDY_VERIFIER in kept:
        return [kept[GREEDY_VERIFIER]]
    return list(kept.values())


def _by_rank(sampling: Sampling, entries: list[Acceptance]) -> Shown:
    num_prompts = len(entries[0].prompts)
    notes = [f"± 95 % over {num_prompts} prompts"]
    if num_prompts == 1:
        notes = ["of one prompt: nothing is known of the spread between prompts"]
    if sampling.is_greedy:
        notes.append("at temperature 0 all verifiers are one")
    if not all(entry.by_rank_alone for entry in entries):
        notes.append(
            "where siblings make a difference, of a node with as many children as in brackets"
        )
    most = min(max(entry.num_ranks for entry in entries), _RANKS_SHOWN)
    rows = []
    for entry in entries:
        name = entry.verifier if entry.by_rank_alone else f"{entry.verifier} ({entry.num_ranks})"
        rates = acceptance_by_rank(entry)[:most]
        cells = [_with_error(rate, num_prompts) for rate in rates]
        rows.append([name, *cells, *[""] * (most - len(cells)), f"{entry.mean().sum():.3f}"])
    title = f"{sampling}: acceptance by rank, every position weighing the same, {'; '.join(notes)}"
    return table(title, ["verifier", *map(str, range(most)), "all ranks"], rows)


def _with_error(estimate: Estimate, num_prompts: int) -> str:
    """0.552 ±.014"""
    value, half = f"{estimate.value:.3f}", f"{(estimate.high - estimate.low) / 2:.3f}"
    return value if num_prompts == 1 else f"{value} ±{half.removeprefix('0')}"


def _by_children(profile: Profile, sampling: Sampling, entries: list[Acceptance]) -> Shown:
    """Rows with the bounds below the verifiers that they are bounds of."""
    most = max(entry.num_ranks for entry in entries)
    counts = [count for count in _CHILDREN_SHOWN if count <= most]
    rows = []
    bounds = {}
    for entry in entries:
        cells, shares = _cells(entry.by_count(), counts), share_of_optimum(profile, entry)
        for place, k in enumerate(counts):
            if shares is not None and k <= len(shares) and not np.isnan(shares[k - 1]):
                cells[place] += f" ({shares[k - 1]:4.0%})".replace("%", " %")
        rows.append([entry.verifier, *cells])
        bound = optimum(profile, entry)
        if bound is not None:
            bounds[bound.replacement] = bound
    num_positions = sum(prompt.num_positions for prompt in entries[0].prompts)
    for replacement, bound in sorted(bounds.items(), reverse=True):
        how = "drawn independently" if replacement else "none drawn twice"
        there = sum(prompt.num_positions for prompt in bound.prompts)
        where = "" if there == num_positions else f", {there} of {num_positions} positions"
        rows.append([f"at best, {how}{where}", *_cells(bound.mean(), counts)])
    title = f"{sampling}: accepted at all, by number of children"
    if bounds:
        title += "; in brackets the share of the best possible for children so drawn"
    return table(title, ["verifier", *map(str, counts)], rows)


def _cells(by_count: np.ndarray, counts: list[int]) -> list[str]:
    return [f"{by_count[k - 1]:.3f}" if k <= len(by_count) else "" for k in counts]


def _plans(profile: Profile, question: Question) -> Iterator[Shown]:
    """What is planned at one sampling, beside what; one line where nothing can be."""
    from ..optimizer.choice import answer

    try:
        rows, why = ranking(answer(profile, question))
    except PlannerError as error:
        yield f"{question.sampling}: no plans: {error}"
        return
    yield rows
    there = [entry for entry in profile.acceptance if entry.sampling == question.sampling]
    yield f"{why}\n{NO_TRACES}" if any(entry.expected is None for entry in there) else why
