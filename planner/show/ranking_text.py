"""The text on what a plan was chosen from, and why it is the best: a table and a few sentences."""

from __future__ import annotations

from ..documents.estimate import Estimate
from ..plans.alternatives import Alternative, Comparison
from ..plans.plan import NO_DRAFT, MadeFrom, Plan
from .tables import Shown, table
from .words import percent

GROWN = (
    "Nodes and depth with a digit behind the point are averages: there every step grows a tree of "
    "its own.  Such settings are graded crosswise, chosen on one half of the recorded texts and "
    "played on the other, against a fixed tree."
)
RISKY = (
    "With a speedup of {} more may be lost than a third of what may be won: where the fastest may "
    "be slower than not to speculate, that decides."
)


def ranking(plan: Plan) -> list[Shown]:
    """The best of each verifier and of each solver, and why the first of them is the first.

    Nothing for a plan that does not say what it was chosen from.
    """
    origin = plan.made_from
    if origin is None or not origin.alternatives:
        return []
    title = (
        f"{plan.sampling}: best of {origin.num_candidates} candidate plans at batch "
        f"{origin.batch_size}, context {origin.context}, by verifier and by solver"
    )
    headings = ["verifier", "solver", "nodes", "depth", "tokens per step", "step, ms", "speedup"]
    rows = table(title, headings, map(_row, origin.alternatives), num_left=2)
    return [rows, "\n".join(reasons(plan, origin))]


def reasons(plan: Plan, origin: MadeFrom) -> list[str]:
    """Sentences: against not speculating, another verifier, another solver; what is proven."""
    best, *others = origin.alternatives
    drafting = [one for one in others if one.speculates]
    fastest = max(origin.alternatives, key=lambda one: one.speedup.value)
    if best.speculates:
        lines = [_why(best, plan, fastest), *_against_others(best, drafting)]
    else:
        in_vain = [_in_vain(other, plan) for other in drafting[:1]]
        which = "the fastest" if fastest.speedup.value <= 1 else "chosen"
        lines = [f"Not speculating is {which}.", *in_vain]
    grown = [GROWN] if any(one.grows for one in origin.alternatives) else []
    return [*lines, *_proven(plan, origin), *grown]


def _why(best: Alternative, plan: Plan, fastest: Alternative) -> str:
    chosen = best.speedup.value < fastest.speedup.value
    return (
        f"{best.verifier} with {shape(best)} is {'chosen' if chosen else 'the fastest'}: "
        f"{best.tokens_per_step} tokens per step, in {_longer(best, plan):.2f} times the time of "
        f"one token alone: speedup {best.speedup} against not speculating"
        f"{verdict(best.speedup)}."
    ) + (f" {RISKY.format(fastest.speedup)}" if chosen else "")


def _in_vain(other: Alternative, plan: Plan) -> str:
    what = "of those that do" if other.grows else "tree"
    return (
        f"The best {what}, {other.verifier} with {shape(other)}, emits "
        f"{other.tokens_per_step} tokens per step, but in {_longer(other, plan):.2f} times the "
        f"time of one token alone: speedup {other.speedup}{verdict(other.speedup)}."
    ) + (f" {RISKY.format(other.speedup)}" if other.speedup.value > 1 else "")


def _longer(one: Alternative, plan: Plan) -> float:
    """Its step over one token of the target alone."""
    return one.step_ms.value / plan.predicted.autoregressive_ms.value if plan.predicted else 1.0


def _against_others(best: Alternative, others: list[Alternative]) -> list[str]:
    """The best under another verifier, of another solver, and, beside growing trees, fixed."""
    solvers = [one for one in others if one.verifier == best.verifier]
    rivals = [
        ("", [one for one in others if one.verifier != best.verifier]),
        (
            f"the best of another solver under {best.verifier}",
            [one for one in solvers if one.solver != best.solver],
        ),
        ("the best fixed tree", [one for one in others if best.grows and not one.grows]),
    ]
    told: list[Alternative] = []
    lines = []
    for name, found in rivals:
        rival = found[0] if found else None
        if rival and rival.plan_against_it and rival not in told:
            told.append(rival)
            lines.append(_against(rival, rival.plan_against_it, name or rival.verifier))
    return lines


def _against(other: Alternative, ratio: Comparison, name: str) -> str:
    return (
        f"Against {name} ({shape(other)}) it emits "
        f"{change(ratio.tokens_per_step, 'more tokens', 'fewer tokens', 'as many tokens')} per "
        f"step, and the step takes {change(ratio.step_ms, 'longer', 'less', 'as long')}: "
        f"{change(ratio.speed, 'faster', 'slower', 'equally fast')}{verdict(ratio.speed)}."
    )


def _proven(plan: Plan, origin: MadeFrom) -> list[str]:
    """The certificate; not speculating is the same under every verifier, so there it is of all."""
    gap = plan.predicted.optimality_gap if plan.predicted else None
    if gap is None:
        return []
    verifiers = {one.verifier for one in origin.alternatives}
    who = plan.verifier if plan.speculates or len(verifiers) == 1 else "any verifier"
    where = "as it is inside this tree" if plan.speculates else "averaged over all positions"
    faster = "faster" if gap < 0.0005 else f"more than {percent(gap)} faster"
    return [
        f"Proven, for {who}'s acceptance {where} and the measured costs: no static tree of up to "
        f"{origin.max_nodes} nodes and {origin.max_depth} levels is {faster}."
    ]


def _row(one: Alternative) -> list[str]:
    names = [one.verifier, one.solver] if one.speculates else [NO_DRAFT, ""]
    form = "{:.1f}" if one.grows else "{:.0f}"
    sizes = [form.format(one.nodes), form.format(one.depth)]
    return [*names, *sizes, str(one.tokens_per_step), f"{one.step_ms.value:.2f}", str(one.speedup)]


def shape(one: Alternative) -> str:
    """The kind of trees that it drafts, and how large they are."""
    if one.grows:
        sizes = f"{one.nodes:.1f} nodes, depth {one.depth:.1f} on average"
        return f"{one.solver}'s growing trees of {sizes}"
    return f"{one.solver}'s tree of {one.nodes:.0f} nodes, depth {one.depth:.0f}"


def change(ratio: Estimate, more: str, less: str, same: str) -> str:
    """A ratio as more or less than 1, with its interval: 1.2 % more [-0.3, +2.7]"""
    change, low, high = (bound - 1 for bound in (ratio.value, ratio.low, ratio.high))
    if max(abs(low), abs(high)) < 0.0005:
        return same
    span = f"[{100 * low:+.1f}, {100 * high:+.1f}]"
    return f"{percent(abs(change))} {more if change >= 0 else less} {span}"


def verdict(ratio: Estimate) -> str:
    """A warning where the ratio could as well be 1."""
    return ", within the noise" if ratio.low <= 1 <= ratio.high else ""
