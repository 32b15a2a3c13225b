"""Models, plans and numbers in words."""

from __future__ import annotations

from ..documents.origin import ModelInfo
from ..plans.plan import Plan


def model_words(info: ModelInfo) -> str:
    """Name and size of a model, and, if it was inflated, what that means for the numbers."""
    words = f"{info.name} ({info.num_parameters / 1e6:.3g} M parameters)"
    if info.inflated_from:
        words += ", inflated: costs are this shape's, acceptance is the small model's"
    return words


def summary(plan: Plan) -> str:
    """One line: what the plan does and what it is expected to bring."""
    what = f"{plan.drafting.words()}, {plan.verifier}"
    if not plan.speculates:
        what = "do not speculate"
    line = f"{what}, {plan.sampling}"
    if plan.predicted:
        line += (
            f": predicted {plan.predicted.tokens_per_step} tokens per step, "
            f"speedup {plan.predicted.speedup}"
        )
        if plan.predicted.optimality_gap is not None:
            line += f", {certificate(plan.predicted.optimality_gap)} (proven)"
    return line


def certificate(gap: float) -> str:
    """The meaning of an optimality gap, in words."""
    if gap < 0.0005:
        return "no static tree within the limits is faster"
    if gap < 1:
        return f"within {percent(gap)} of the best static tree"
    return f"the best static tree at most {1 + gap:.1f} times as fast"


def percent(share: float) -> str:
    """A share in percent with a digit behind the point: 1.2 %."""
    return f"{100 * share:.1f} %"
