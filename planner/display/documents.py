"""What a profile, a plan and a report look like in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from ..plan import Plan, PredictedSteps
from ..profile import Costs, Curve, Profile
from ..report import Report
from .report import show_report
from .tables import grouped, printed, table
from .words import counted, model_words, percent, summary

UNSTEADY = 1.25
"""Upper over lower quartile of the times of most passes, from which on a profile says so."""


def render(document: Profile | Plan | Report) -> str:
    """The document for a person, as plain text without colours."""
    return printed([DISPLAYS[type(document)](document)])


def show_profile(profile: Profile) -> RenderableType:
    """The models, the machine and the times; what they allow is for the optimizer to say."""
    machine, execution = profile.machine, profile.execution
    place = machine.gpu or machine.cpu
    parts: list[RenderableType] = [
        Text(f"target   {model_words(profile.target)}"),
        Text(f"draft    {model_words(profile.draft)}"),
        Text(f"machine  {place}, {counted(machine.num_threads, 'thread')}, {machine.platform}"),
        Text(f"run as   {execution.dtype}, attention {execution.attention}"),
    ]
    for costs in profile.costs:
        parts += [Text(), _costs_table(costs)]
        spread = _spread(costs.verify)
        parts += [Text(spread)] if spread else []
    return Group(*parts)


def show_plan(plan: Plan) -> RenderableType:
    parts: list[RenderableType] = [Text(f"plan       {summary(plan)}")]
    if plan.predicted:
        step, alone = plan.predicted.step_ms, plan.predicted.autoregressive_ms
        parts.append(Text(f"times      step {step} ms; one token of the target alone {alone} ms"))
        if plan.grows:
            parts.append(
                Text(
                    "predicted  by playing recorded trees: settings chosen on one half of the "
                    "texts, played on the other"
                )
            )
        if plan.predicted.optimality_gap is not None:
            parts.append(
                Text("proven     under these costs and the acceptance that holds inside this tree")
            )
    if plan.made_from:
        origin = plan.made_from
        parts += [
            Text(f"target     {model_words(origin.target)}"),
            Text(f"draft      {model_words(origin.draft)}"),
            Text(
                f"made for   batch {origin.batch_size}, context {origin.context}, "
                f"{origin.execution.dtype}, {origin.machine.gpu or origin.machine.cpu}; "
                f"best of {origin.num_candidates} candidates"
            ),
        ]
    if not plan.grows:
        return Group(*parts, Text(), *map(Text, _tree_lines(plan)))
    if plan.predicted and plan.predicted.steps:
        parts += [Text(), *_steps_tables(plan.predicted.steps)]
    return Group(*parts)


def _steps_tables(steps: PredictedSteps) -> list[RenderableType]:
    """What the steps will look like, where every step grows a tree of its own."""
    parts: list[RenderableType] = [
        Text(
            f"steps      {steps.mean_nodes:.1f} nodes, {steps.mean_depth:.1f} levels and "
            f"{steps.draft_passes:.1f} draft passes on average"
        ),
        Text(
            f"rates      {steps.discard_rate:.2f} draft tokens discarded and "
            f"{steps.verification_rate:.2f} target passes per token"
        ),
    ]
    for title, shares in (("nodes verified", steps.nodes), ("levels drafted", steps.depth)):
        groups = grouped(shares)
        cells = [percent(sum(shares[count] for count in part)) for _, part in groups]
        headings = [title, *(name for name, _ in groups)]
        parts.append(table("", headings, [["share of the steps", *cells]]))
    return parts


def _costs_table(costs: Costs) -> Group:
    title = (
        f"batch {costs.batch_size}, context {costs.context}: one token alone "
        f"{costs.target_step.low_ms[0]:.2f} ms (target), {costs.draft_step.low_ms[0]:.2f} ms "
        f"(draft); first draft pass of a step {costs.draft_root.low_ms[0]:.2f} ms (lower quartiles)"
    )
    counts = sorted({*costs.verify.counts, *costs.draft.counts})
    rows = []
    for name, curve in (
        ("verify, ms", costs.verify),
        ("draft pass, ms", costs.draft),
        *([] if costs.draft_grown is None else [("the same, growing", costs.draft_grown)]),
        *((f"the same, head {head[:8]}", curve) for head, curve in costs.draft_scored.items()),
        *((f"overhead {verifier}, ms", curve) for verifier, curve in costs.overhead.items()),
    ):
        times = dict(zip(curve.counts, curve.low_ms, strict=True))
        rows.append([name, *(f"{times[n]:.3g}" if n in times else "" for n in counts)])
    return table(title, ["n or width", *map(str, counts)], rows)


def _spread(verify: Curve) -> str:
    """What there is to know where one and the same pass took different times."""
    ratios = np.divide(verify.high_ms, verify.low_ms)
    if np.median(ratios) < UNSTEADY:
        return ""
    worst = int(ratios.argmax())
    return (
        f"unsteady: a quarter of the passes over {counted(verify.counts[worst], 'node')} took at "
        f"most {verify.low_ms[worst]:.3g} ms, a quarter at least {verify.high_ms[worst]:.3g}; "
        "if nothing else runs on this machine, its cores are shared with others: fewer --threads "
        "may be steadier"
    )


def _tree_lines(plan: Plan) -> Iterator[str]:
    """The tree with, per node, P(accepted | its parent was), P(accepted), its share of tokens."""
    tree = plan.tree
    reach = plan.predicted.reach if plan.predicted else None
    total = sum(reach) if reach else 1.0
    pad = 3 * tree.depth + 8
    yield f"{'node (rank)':<{pad}}{'acceptance':>11}{'reached':>10}{'tokens':>9}"

    def line(label: str, node: int) -> str:
        if reach is None:
            return label
        above = reach[tree.parents[node]] if node else 0.0
        rate = f"{reach[node] / above:.3f}" if above > 0 else ""
        return f"{label:<{pad}}{rate:>11}{reach[node]:>10.3f}{reach[node] / total:>9.1%}"

    yield line("root", 0)
    stack = [(child, "") for child in reversed(tree.children[0])]
    while stack:
        node, indent = stack.pop()
        last = tree.children[tree.parents[node]][-1] == node
        yield line(f"{indent}{'└─ ' if last else '├─ '}{tree.ranks[node]}", node)
        deeper = indent + ("   " if last else "│  ")
        stack.extend((child, deeper) for child in reversed(tree.children[node]))


DISPLAYS: dict[type, Callable[[Any], RenderableType]] = {
    Profile: show_profile,
    Plan: show_plan,
    Report: show_report,
}
