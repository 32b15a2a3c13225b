"""The outlook of a profile: acceptance with its error, and plans where they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..documents.document import PlannerError
from ..documents.estimate import Estimate
from ..documents.profile import Acceptance, Profile
from ..documents.sampling import Sampling
from ..documents.tree import Tree
from ..estimates.evidence import recorded
from ..estimates.step_costs import step_costs
from ..plans.plan import Plan
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
    profile: Profile, samplings: Sequence[Sampling], plans: Mapping[Sampling, Plan | str]
) -> Iterator[Shown]:
    """Two tables of acceptance for every sampling, and where there is a plan for it, a table of
    what it was chosen from and why the first is the first (`planned`)."""
    for sampling in samplings:
        if not _entries(profile, sampling)[0].counted:
            yield _by_rank(sampling, _entries(profile, sampling))
        yield accepted_at_all(profile, sampling)
        yield from chosen(profile, plans.get(sampling))


def samplings_of(profile: Profile, temperature: float | None) -> list[Sampling]:
    """All that were measured (None), or the one at a temperature.  Raises PlannerError."""
    if temperature is not None:
        return [profile.sampling_at(temperature)]
    return list(dict.fromkeys(entry.sampling for entry in profile.acceptance))


def planned(
    profile: Profile, samplings: Sequence[Sampling], question: Question
) -> dict[Sampling, Plan | str]:
    """The plan at each sampling, or why there is none.

    question  at which batch size and context; its solver, verifier and limits hold as well

    Raises PlannerError for conditions that were not measured.
    """
    from ..optimizer.choice import answer

    step_costs(profile, batch_size=question.batch_size, context=question.context)
    found: dict[Sampling, Plan | str] = {}
    for sampling in samplings:
        try:
            found[sampling] = answer(profile, replace(question, sampling=sampling))
        except PlannerError as error:
            found[sampling] = f"{sampling}: no plans: {error}"
    return found


def chosen(profile: Profile, plan: Plan | str | None) -> Iterator[Shown]:
    """The choice of a plan: from what, and why; one line where none could be made."""
    if plan is None or isinstance(plan, str):
        yield from () if plan is None else (plan,)
        return
    rows, why = ranking(plan)
    yield rows
    there = [entry for entry in profile.acceptance if entry.sampling == plan.sampling]
    yield f"{why}\n{NO_TRACES}" if any(entry.expected is None for entry in there) else why


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


def accepted_at_all(profile: Profile, sampling: Sampling) -> Shown:
    """P(any child is accepted) by number of children, the bounds below the verifiers that they are
    bounds of; tokens per step, where an engine counted these."""
    entries = _entries(profile, sampling)
    if entries[0].counted:
        return _counted(profile, entries[0])
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


def _counted(profile: Profile, entry: Acceptance) -> Shown:
    """Chains by their length: the steps that were counted, and what is predicted from all."""
    evidence, rows = recorded(profile, entry), []
    for chains in entry.counted:
        chain = evidence.predict(Tree(range(-1, chains.length)))
        prompts = {each.prompt for each in chains.prompts}
        sizes = [str(len(prompts)), str(chains.num_steps)]
        counts = [*sizes, f"{chains.tokens_per_step:.3f}"]
        rows.append([str(chains.length), *counts, str(chain.tokens_per_step)])
    title = (
        f"{entry.sampling}: what the engine counted of its chains, and the concave line that is "
        "planned with, for texts that do not end and prompts that are decoded alike"
    )
    headings = ["drafted tokens", "prompts", "steps", "counted", "tokens per step"]
    return table(title, headings, rows)


def _cells(by_count: np.ndarray, counts: list[int]) -> list[str]:
    return [f"{by_count[k - 1]:.3f}" if k <= len(by_count) else "" for k in counts]
