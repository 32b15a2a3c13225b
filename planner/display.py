"""What a profile, a plan and a report look like in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from .plan import Plan
from .profile import Costs, ModelInfo, Profile
from .report import Report

Shown = RenderableType
"""What can be printed: a string, a table, or several of them."""


def render(document: Profile | Plan | Report) -> str:
    """The document for a person, as plain text without colours."""
    return printed([DISPLAYS[type(document)](document)])


def printed(parts: Iterable[Shown]) -> str:
    """The parts below one another, an empty line between any two, as plain text."""
    console = Console(width=110, color_system=None, highlight=False, markup=False, emoji=False)
    texts = []
    for part in parts:
        with console.capture() as capture:
            console.print(part)
        texts.append("\n".join(line.rstrip() for line in capture.get().splitlines()))
    return "\n\n".join(texts)


def table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, num_left: int = 1
) -> Group:
    """A table without lines; its first `num_left` columns hold words, the others numbers."""
    made = Table(box=None, padding=(0, 2, 0, 0))
    for index, heading in enumerate(headings):
        made.add_column(heading, justify="left" if index < num_left else "right")
    for row in rows:
        made.add_row(*row)
    return Group(Text(title), made)


def model_words(info: ModelInfo) -> str:
    """Name and size of a model, and, if it was inflated, what that means for the numbers."""
    words = f"{info.name} ({info.num_parameters / 1e6:.3g} M parameters)"
    if info.inflated_from:
        words += ", inflated: costs are this shape's, acceptance is the small model's"
    return words


def summary(plan: Plan) -> str:
    """One line: what the plan does and what it is expected to bring."""
    tree = plan.tree
    what = f"tree of {tree.num_nodes} nodes, depth {tree.depth}, {plan.verifier}"
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
    """What an optimality gap says, in words."""
    if gap < 0.0005:
        return "no static tree within the limits is faster"
    return f"within {percent(gap)} of the best static tree"


def percent(share: float) -> str:
    """With a digit behind the point: 1.2 %."""
    return f"{100 * share:.1f} %"


def show_profile(profile: Profile) -> RenderableType:
    """The models, the machine and the times; what they allow is for the optimizer to say."""
    machine, execution = profile.machine, profile.execution
    place = machine.gpu or machine.cpu
    parts: list[RenderableType] = [
        Text(f"target   {model_words(profile.target)}"),
        Text(f"draft    {model_words(profile.draft)}"),
        Text(f"machine  {place}, {machine.num_threads} threads, {machine.platform}"),
        Text(f"run as   {execution.dtype}, attention {execution.attention}"),
    ]
    for costs in profile.costs:
        parts += [Text(), _costs_table(costs)]
    return Group(*parts)


def show_plan(plan: Plan) -> RenderableType:
    parts: list[RenderableType] = [Text(f"plan       {summary(plan)}")]
    if plan.predicted:
        step, alone = plan.predicted.step_ms, plan.predicted.autoregressive_ms
        parts.append(Text(f"times      step {step} ms; one token of the target alone {alone} ms"))
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
    return Group(*parts, Text(), *map(Text, _tree_lines(plan)))


def show_report(report: Report) -> RenderableType:
    measured, predicted = report.measured, report.plan.predicted
    numbers = Table(box=None, padding=(0, 3, 0, 0))
    for heading in ("", "measured", "predicted"):
        numbers.add_column(heading, justify="left" if not heading else "right")
    numbers.add_row(
        "tokens per step (= mean acceptance length)",
        f"{measured.tokens_per_step:.3f}",
        str(predicted.tokens_per_step) if predicted else "",
    )
    step_ms = measured.ms_per_token * measured.tokens_per_step
    numbers.add_row("step, ms", f"{step_ms:.2f}", str(predicted.step_ms) if predicted else "")
    numbers.add_row("ms per token", f"{measured.ms_per_token:.2f}", "")
    if report.baseline:
        numbers.add_row(
            "ms per token, autoregressive",
            f"{report.baseline.ms_per_token:.2f}",
            str(predicted.autoregressive_ms) if predicted else "",
        )
        numbers.add_row(
            "speedup", str(report.baseline.speedup), str(predicted.speedup) if predicted else ""
        )
    numbers.add_row("accepted / drafted", f"{measured.draft_acceptance_rate:.3f}", "")
    phases = measured.phases
    total = phases.draft_ms + phases.verify_ms + phases.accept_ms
    shares = ", ".join(
        f"{name} {share / total:.0%}"
        for name, share in (
            ("draft", phases.draft_ms),
            ("verify", phases.verify_ms),
            ("accept", phases.accept_ms),
        )
        if total > 0
    )
    return Group(
        Text(f"plan     {summary(report.plan)}"),
        Text(f"target   {model_words(report.target)}"),
        Text(
            f"run      {len(report.continuations)} prompts, {measured.num_tokens} tokens, "
            f"{measured.num_steps} steps; time: {shares}"
        ),
        Text(),
        numbers,
    )


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
        *((f"overhead {verifier}, ms", curve) for verifier, curve in costs.overhead.items()),
    ):
        times = dict(zip(curve.counts, curve.low_ms, strict=True))
        rows.append([name, *(f"{times[n]:.3g}" if n in times else "" for n in counts)])
    return table(title, ["n or width", *map(str, counts)], rows)


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
