"""Profiles and plans as text in a terminal, and where to find what other documents do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ..documents.counted import counted
from ..documents.profile import Profile
from ..plans.plan import Plan, PredictedSteps
from ..plans.report import Report
from .ranking_text import ranking
from .report_text import show_report
from .tables import grouped, printed, table
from .times_text import show_times
from .words import model_words, percent, summary


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
        parts += [Text(), *show_times(costs)]
    return Group(*parts)


def show_plan(plan: Plan) -> RenderableType:
    parts: list[RenderableType] = [Text(f"plan       {summary(plan)}")]
    if plan.predicted:
        step, alone = plan.predicted.step_ms, plan.predicted.autoregressive_ms
        parts.append(Text(f"times      step {step} ms; one token of the target alone {alone} ms"))
        if plan.grows:
            parts.append(
                Text(
                    "predicted  by playing recorded trees: the step with these settings, the "
                    "speed with settings chosen on one half of the texts, played on the other"
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
    for part in ranking(plan):
        parts += [Text(), part]
    if not plan.grows:
        parts += [Text(), *map(Text, _tree_lines(plan))]
    elif plan.predicted and plan.predicted.steps:
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
