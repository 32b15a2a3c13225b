"""Models, plans, exports and numbers in words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..documents.engine import EngineFacts
from ..documents.origin import ModelInfo
from ..documents.profile import Profile
from ..plans.plan import MadeFrom, Plan


def model_words(info: ModelInfo) -> str:
    """Name and size of a model, and what it is made of: another shape, other tokens."""
    if info.is_lookup:
        return f"{info.name} (the text's own n-grams, no model)"
    if not info.num_parameters:  # nobody here has read it
        return info.name
    words = f"{info.name} ({info.num_parameters / 1e6:.3g} M parameters)"
    if info.inflated_from:
        words += ", inflated: costs are this shape's, acceptance is the small model's"
    if info.matched_from:
        own = info.matched_from["vocab_size"]
        words += f", its {own} tokens matched to the target's {info.vocab_size}"
    return words


def engine_words(facts: EngineFacts | None) -> str:
    """Name, version and files of an engine; "" for none."""
    if facts is None:
        return ""
    files = " and ".join(filter(None, (facts.target, facts.draft)))
    by = f", drafting by {facts.method}" if facts.method else ""
    return f"{facts.name} {facts.version}, {files}{by}"


OWN_TIMES = "those of this runtime; an engine's differ (planner profile --engine measures them)"


def whose_times(profile: Profile) -> str:
    """The end of a sentence about the times that a profile holds."""
    if profile.costs_from is not None:
        return str(profile.costs_from)
    return f"those of {engine_words(profile.engine)}" if profile.engine else OWN_TIMES


def not_measured(holder: Profile | MadeFrom) -> dict[str, str]:
    """The times and the acceptance that were given, predicted or assumed: whence they are."""
    origins = {"times of": holder.costs_from, "acceptance": holder.acceptance_from}
    return {what: str(origin) for what, origin in origins.items() if origin}


def summary(plan: Plan) -> str:
    """One line: what the plan does and what it is expected to bring."""
    line = f"{drafting_words(plan)}, {plan.sampling}"
    predicted = plan.predicted
    if predicted:
        line += f": predicted {predicted.tokens_per_step} tokens per step, "
        line += f"speedup {predicted.speedup}"
        if predicted.optimality_gap is not None:
            line += f", {certificate(predicted.optimality_gap)} (proven)"
    return line


def drafting_words(plan: Plan) -> str:
    """The plan's drafting and its verifier."""
    return f"{plan.words}, {plan.verifier}" if plan.speculates else plan.words


CUT_SHORT = 0.1
"""Share of the rounds played from which on it is said where the recorded trees end."""


def where_records_end(plan: Plan) -> str:
    """One line: how many of the rounds that the prediction is from met the end of their recorded
    tree, and what to do; "" where few did."""
    steps = plan.predicted.steps if plan.predicted else None
    if steps is None or steps.cut_short <= CUT_SHORT:
        return ""
    return (
        f"{percent(steps.cut_short)} of the rounds played drafted on beside the text where the "
        "recorded trees end, and went by other nodes of theirs (under traversal, or with a trained "
        "head, they ended there); a larger --num-expanded records more"
    )


def certificate(gap: float) -> str:
    """The meaning of an optimality gap, in words."""
    if gap < 0.0005:
        return "no static tree within the limits is faster"
    if gap < 1:
        return f"within {percent(gap)} of the best static tree"
    return f"the best static tree at most {1 + gap:.1f} times as fast"


def exported(own: Plan, theirs: Plan | None, engine: str, notes: Sequence[str]) -> list[str]:
    """Lines: what the engine will do, what that costs against the plan itself, what to know.

    own     the plan
    theirs  what the engine will do, as a plan of ours; None where nothing was planned
    """
    lines = []
    if theirs is not None:
        lines += [f"{engine}: {summary(theirs)}", _loss(own, theirs)]
        origin = own.made_from
        if theirs.predicted is not None and origin and origin.costs_from:
            lines.append(f"note: predicted with times {origin.costs_from}")
        elif theirs.predicted is not None and not (origin and origin.engine):
            lines.append(f"note: predicted with times of this runtime; those of {engine} differ")
    return [*lines, *(f"note: {note}" for note in notes)]


def _loss(own: Plan, theirs: Plan) -> str:
    if theirs.predicted is None:
        return "note: nothing is predicted of it"
    if own.predicted is None or own.made_from is None:
        return "note: what it loses against the plan itself is not known"
    ours, other = own.predicted.speedup.value, theirs.predicted.speedup.value
    if other >= ours * (1 - 1e-12):  # but for rounding
        return f"the plan itself: speedup {ours:.2f}; nothing is lost by the change"
    return f"the plan itself: speedup {ours:.2f}; {percent(1 - other / ours)} of its speed is lost"


def short_names(paths: Sequence[Path]) -> list[str]:
    """Names that tell files apart: their paths without the folders that all lie in, and without the
    name that all have, if they have one."""
    if len(paths) < 2:
        return [str(path) for path in paths]
    within = Path(os.path.commonpath([path.parent.absolute() for path in paths]))
    short = [path.absolute().relative_to(within) for path in paths]
    if len({path.name for path in paths}) == 1:
        short = [path.parent for path in short]
    return [str(path) for path in short]


def percent(share: float) -> str:
    """A share in percent with a digit behind the point: 1.2 %."""
    return f"{100 * share:.1f} %"
