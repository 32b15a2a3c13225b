"""What a profile allows: acceptance with its error, candidate plans, and why the best one is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..documents.document import PlannerError
from ..documents.estimate import Estimate
from ..documents.profile import Acceptance, Profile
from ..documents.sampling import Sampling
from ..verifiers import GREEDY_VERIFIER

if TYPE_CHECKING:
    from ..optimizer.grading import Candidate
    from .tables import Shown

_RANKS_SHOWN = 6
_CHILDREN_SHOWN = (1, 2, 3, 4, 8)


def outlook(
    profile: Profile,
    *,
    temperature: float | None = None,
    batch_size: int | None = None,
    context: int | None = None,
) -> Iterator[Shown]:
    """For every sampling (None) or at one temperature: two tables of acceptance, one of plans, why.

    batch_size  that plans are compared at; None: the first measured
    context     likewise

    Raises PlannerError for what is asked for and was not measured.
    """
    from ..estimates.step_costs import step_costs
    from ..optimizer.choice import sampling_at

    samplings = list(dict.fromkeys(entry.sampling for entry in profile.acceptance))
    if temperature is not None:
        samplings = [sampling_at(profile, temperature)]
    batch_size = profile.costs[0].batch_size if batch_size is None else batch_size
    step_costs(profile, batch_size=batch_size, context=context)  # was that measured?
    for sampling in samplings:
        entries = _entries(profile, sampling)
        yield _by_rank(sampling, entries)
        yield _by_children(profile, sampling, entries)
        yield from _plans(profile, sampling, batch_size, context)


def contenders(candidates: list[Candidate]) -> list[Candidate]:
    """Of ranked candidates the best of each verifier and of each solver, and the lone root."""
    kept: list[Candidate] = []
    verifiers: set[str] = set()
    solvers: set[str] = set()
    for candidate in candidates:
        if not candidate.speculates:
            kept.append(candidate)
        elif candidate.verifier not in verifiers or candidate.solver not in solvers:
            kept.append(candidate)
            verifiers.add(candidate.verifier)
            solvers.add(candidate.solver)
    return kept


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
    from .attained import acceptance_by_rank
    from .tables import table

    num_prompts = len(entries[0].prompts)
    spread = f"± 95 % over {num_prompts} prompts"
    if num_prompts == 1:
        spread = "of one prompt: nothing is known of the spread between prompts"
    notes = ""
    if sampling.temperature == 0:
        notes += "; at temperature 0 every verifier is one rule"
    if not all(entry.by_rank_alone for entry in entries):
        notes += (
            "; where siblings make a difference, of a node with as many children as in brackets"
        )
    most = min(max(entry.num_ranks for entry in entries), _RANKS_SHOWN)
    rows = []
    for entry in entries:
        name = entry.verifier if entry.by_rank_alone else f"{entry.verifier} ({entry.num_ranks})"
        rates = acceptance_by_rank(entry)[:most]
        cells = [_with_error(rate, num_prompts) for rate in rates]
        rows.append([name, *cells, *[""] * (most - len(cells)), f"{entry.mean().sum():.3f}"])
    title = f"{sampling}: acceptance by rank, every position weighing the same, {spread}{notes}"
    return table(title, ["verifier", *map(str, range(most)), "all ranks"], rows)


def _with_error(estimate: Estimate, num_prompts: int) -> str:
    """0.552 ±.014"""
    value, half = f"{estimate.value:.3f}", f"{(estimate.high - estimate.low) / 2:.3f}"
    return value if num_prompts == 1 else f"{value} ±{half.removeprefix('0')}"


def _by_children(profile: Profile, sampling: Sampling, entries: list[Acceptance]) -> Shown:
    """With the bounds below the verifiers that they are bounds of."""
    from .attained import optimum, share_of_optimum
    from .tables import table

    most = max(entry.num_ranks for entry in entries)
    counts = [count for count in _CHILDREN_SHOWN if count <= most]
    rows = []
    bounds = {}
    for entry in entries:
        totals, shares = entry.by_count(), share_of_optimum(profile, entry)
        cells = [f"{totals[k - 1]:.3f}" if k <= len(totals) else "" for k in counts]
        if shares is not None:
            known = [k <= len(shares) and shares[k - 1] == shares[k - 1] for k in counts]
            cells = [
                f"{cell} ({shares[k - 1]:4.0%})".replace("%", " %") if there else cell
                for cell, k, there in zip(cells, counts, known, strict=True)
            ]
        rows.append([entry.verifier, *cells])
        bound = optimum(profile, entry)
        if bound is not None:
            bounds[bound.replacement] = bound
    num_positions = sum(prompt.num_positions for prompt in entries[0].prompts)
    for replacement, bound in sorted(bounds.items(), reverse=True):
        how = "drawn independently" if replacement else "none drawn twice"
        mean, there = bound.mean(), sum(prompt.num_positions for prompt in bound.prompts)
        where = "" if there == num_positions else f", {there} of {num_positions} positions"
        cells = [f"{mean[k - 1]:.3f}" if k <= len(mean) else "" for k in counts]
        rows.append([f"at best, {how}{where}", *cells])
    title = f"{sampling}: accepted at all, by number of children"
    if bounds:
        title += "; in brackets the share of the best possible for children so drawn"
    return table(title, ["verifier", *map(str, counts)], rows)


def _plans(
    profile: Profile, sampling: Sampling, batch_size: int, context: int | None
) -> Iterator[Shown]:
    """The candidates and why the first of them is the first; one line where there are none."""
    from ..optimizer.choice import Question, ranked, ranked_by_verifier
    from .reasons import reasons
    from .tables import table

    try:
        question = Question(sampling=sampling, batch_size=batch_size, context=context)
        rankings = ranked_by_verifier(profile, question)
    except PlannerError as error:
        yield f"{sampling}: no plans: {error}"
        return
    candidates = ranked(rankings)
    costs = rankings[0].costs
    yield table(
        f"{sampling}: best of {len(candidates)} candidate plans at batch {costs.batch_size}, "
        f"context {costs.context}, by verifier and by solver",
        ["verifier", "solver", "nodes", "depth", "tokens per step", "step, ms", "speedup"],
        map(_row, contenders(candidates)),
        num_left=2,
    )
    lines = reasons(candidates, rankings)
    if any(candidate.grows for candidate in candidates):
        lines.append(
            "Nodes and depth with a digit behind the point are averages: there every step grows a "
            "tree of its own.  Such settings are graded crosswise, chosen on one half of the "
            "recorded texts and played on the other, against a fixed tree."
        )
    if any(entry.expected is None for entry in _entries(profile, sampling)):
        lines.append(
            "No traces were recorded: rounds are taken to start anywhere with equal chance, which "
            "promises up to some 20 % too much."
        )
    yield "\n".join(lines)


def _row(candidate: Candidate) -> list[str]:
    names = [candidate.verifier, candidate.solver]
    if not candidate.speculates:
        names = ["do not speculate", ""]
    form = "{:.1f}" if candidate.grows else "{:.0f}"
    return [
        *names,
        form.format(candidate.num_nodes),
        form.format(candidate.depth),
        str(candidate.tokens_per_step),
        f"{candidate.step_ms.value:.2f}",
        str(candidate.speedup),
    ]
