"""Why is the best plan the best?  In words, from ranked candidates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..documents.estimate import Estimate

if TYPE_CHECKING:
    from ..optimizer.choice import Ranking
    from ..optimizer.grading import Candidate


def reasons(candidates: list[Candidate], rankings: list[Ranking]) -> list[str]:
    """Against not speculating, against another verifier, against another solver; what is proven."""
    best = candidates[0]
    if not best.speculates:
        return [*_against_speculating(candidates), _nothing_better(best, rankings)]
    lines = [_against_not_speculating(best)]
    other_verifier = _first(
        candidates, lambda one: one.verifier != best.verifier and one.speculates
    )
    if other_verifier:
        lines.append(_against(best, other_verifier, rankings, name=other_verifier.verifier))
    other_solver = _first(
        candidates,
        lambda one: one.verifier == best.verifier and one.solver != best.solver and one.speculates,
    )
    if other_solver:
        name = f"the best of another solver under {best.verifier}"
        lines.append(_against(best, other_solver, rankings, name=name))
    if not best.grows:
        return [*lines, _nothing_better(best, rankings)]
    fixed = _first(candidates, lambda one: one.speculates and not one.grows)
    if fixed and fixed not in (other_verifier, other_solver):
        lines.append(_against(best, fixed, rankings, name="the best fixed tree"))
    return lines


def _first(candidates: list[Candidate], fits: Callable[[Candidate], bool]) -> Candidate | None:
    return next(filter(fits, candidates), None)


def _against_not_speculating(best: Candidate) -> str:
    longer = best.step_ms.value / best.autoregressive_ms.value
    return (
        f"{best.verifier} with {_shape(best)} is the fastest: {best.tokens_per_step} tokens per "
        f"step, in {longer:.2f} times the time of one token alone: speedup {best.speedup} against "
        f"not speculating{_verdict(best.speedup)}."
    )


def _against_speculating(candidates: list[Candidate]) -> list[str]:
    lines = ["Not speculating is the fastest."]
    tree = _first(candidates, lambda one: one.speculates)
    if tree:
        longer = tree.step_ms.value / tree.autoregressive_ms.value
        what = "of those that do" if tree.grows else "tree"
        lines.append(
            f"The best {what}, {tree.verifier} with {_shape(tree)}, emits {tree.tokens_per_step} "
            f"tokens per step, but in {longer:.2f} times the time of one token alone: speedup "
            f"{tree.speedup}{_verdict(tree.speedup)}."
        )
    return lines


def _against(best: Candidate, other: Candidate, rankings: list[Ranking], *, name: str) -> str:
    from .comparison import compare

    ratio = compare(best, other, rankings)
    return (
        f"Against {name} ({_shape(other)}) it emits "
        f"{_change(ratio.tokens_per_step, 'more tokens', 'fewer tokens', 'as many tokens')} per "
        f"step, and the step takes {_change(ratio.step_ms, 'longer', 'less', 'as long')}: "
        f"{_change(ratio.speed, 'faster', 'slower', 'equally fast')}{_verdict(ratio.speed)}."
    )


def _nothing_better(best: Candidate, rankings: list[Ranking]) -> str:
    """The certificate; not speculating is the same under every verifier, so there it is of all."""
    alone = not best.speculates
    judged = [one for one in rankings if alone or one.verifier == best.verifier]
    gap = max(ranking.gap(best.tree) for ranking in judged)
    limits = judged[0].limits
    who = judged[0].verifier if len(judged) == 1 else "any verifier"
    where = "averaged over all positions" if alone else "as it is inside this tree"
    return (
        f"Proven, for {who}'s acceptance {where} and the measured costs: no static tree of up to "
        f"{limits.max_nodes} nodes and {limits.max_depth} levels is {_by_more_than(gap)}."
    )


def _by_more_than(gap: float) -> str:
    from .words import percent

    return "faster" if gap < 0.0005 else f"more than {percent(gap)} faster"


def _shape(candidate: Candidate) -> str:
    if candidate.grows:
        return (
            f"{candidate.solver}'s growing trees of {candidate.num_nodes:.1f} nodes, "
            f"depth {candidate.depth:.1f} on average"
        )
    return (
        f"{candidate.solver}'s tree of {candidate.tree.num_nodes} nodes, "
        f"depth {candidate.tree.depth}"
    )


def _change(ratio: Estimate, more: str, less: str, same: str) -> str:
    """1.2 % more [-0.3, +2.7]"""
    from .words import percent

    change, low, high = (bound - 1 for bound in (ratio.value, ratio.low, ratio.high))
    if max(abs(low), abs(high)) < 0.0005:
        return same
    span = f"[{100 * low:+.1f}, {100 * high:+.1f}]"
    return f"{percent(abs(change))} {more if change >= 0 else less} {span}"


def _verdict(ratio: Estimate) -> str:
    return ", within the noise" if ratio.low <= 1 <= ratio.high else ""
