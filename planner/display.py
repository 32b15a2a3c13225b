"""What a profile, a plan and a report look like in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from .drafting import (
    Drafting,
    DynamicDrafting,
    GreedyDrafting,
    StoppingDrafting,
    ThresholdDrafting,
    TreeDrafting,
)
from .plan import Plan, PredictedSteps
from .profile import Costs, ModelInfo, Profile
from .report import Report

OFF_PACE = 1.15
"""Measured over predicted step time, or the other way round, from which on a report says so."""

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
    what = f"{drafting_words(plan.drafting)}, {plan.verifier}"
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


def drafting_words(drafting: Drafting) -> str:
    """What is drafted, in a few words."""
    if isinstance(drafting, TreeDrafting):
        return f"tree of {drafting.most_nodes} nodes, depth {drafting.tree.depth}"
    if isinstance(drafting, GreedyDrafting):
        return (
            f"trees of {drafting.num_nodes} nodes, the likeliest place first, at most "
            f"{_levels(drafting.max_depth)}"
        )
    if isinstance(drafting, ThresholdDrafting):
        return (
            f"trees of all places likelier than {drafting.threshold:g}, at most "
            f"{drafting.num_nodes} nodes and {_levels(drafting.max_depth)}"
        )
    if isinstance(drafting, StoppingDrafting):
        return (
            f"chains that end once {drafting.score} says that one in them is rejected with chance "
            f"{drafting.threshold:g}, at most {_tokens(drafting.max_depth)}"
        )
    if isinstance(drafting, DynamicDrafting):
        most = drafting.max_depth
        length = f"{_tokens(min(drafting.num_tokens, most))} ({drafting.schedule})"
        if drafting.schedule == "heuristic":
            length += f" at first, at most {most}"
        return f"chains of {length}, ended below probability {drafting.confidence:g}"
    return (
        f"trees grown at {drafting.price_per_ms:.3g} tokens per ms, at most {drafting.num_nodes} "
        f"nodes and {_levels(drafting.max_depth)}"
    )


def _levels(depth: int) -> str:
    return counted(depth, "level")


def _tokens(length: int) -> str:
    return counted(length, "token")


def counted(number: int, noun: str) -> str:
    """1 level, 2 levels."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def certificate(gap: float) -> str:
    """What an optimality gap says, in words."""
    if gap < 0.0005:
        return "no static tree within the limits is faster"
    if gap < 1:
        return f"within {percent(gap)} of the best static tree"
    return f"the best static tree at most {1 + gap:.1f} times as fast"


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
        Text(f"machine  {place}, {counted(machine.num_threads, 'thread')}, {machine.platform}"),
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
        groups = _grouped(shares)
        cells = [percent(sum(shares[count] for count in part)) for _, part in groups]
        headings = [title, *(name for name, _ in groups)]
        parts.append(table("", headings, [["share of the steps", *cells]]))
    return parts


def _grouped(shares: Sequence[float], most: int = 10) -> list[tuple[str, range]]:
    """Counts from the first to the last that occur, joined until there are at most `most` groups:
    (name, the counts in it)."""
    first = next((count for count, share in enumerate(shares) if share > 0), 0)
    end = len(shares)
    size = max(1, -(-(end - first) // most))
    parts = [range(start, min(start + size, end)) for start in range(first, end, size)]
    return [(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}", part) for part in parts]


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
    for row in _steps_rows(report):
        numbers.add_row(*row)
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
    differences, pace = _differences(report), _pace(report)
    return Group(
        Text(f"plan     {summary(report.plan)}"),
        Text(f"target   {model_words(report.target)}"),
        Text(
            f"run      {counted(len(report.continuations), 'prompt')}, "
            f"{_tokens(measured.num_tokens)}, {counted(measured.num_steps, 'step')}; time: {shares}"
        ),
        *([Text(f"differs  {differences}")] if differences else []),
        *([Text(f"pace     {pace}")] if pace else []),
        Text(),
        numbers,
        *_steps_distributions(report),
    )


def _differences(report: Report) -> str:
    """Under which conditions the plan was made that the run did not have; empty where none differ.

    The context differs if it was outside the texts from their prompts to their ends.
    """
    origin = report.plan.made_from
    if origin is None or report.plan.predicted is None:
        return ""
    then, now = origin.machine, report.machine
    pairs = [
        (then.gpu or then.cpu, now.gpu or now.cpu),
        (origin.execution.dtype, report.execution.dtype),
        (f"attention {origin.execution.attention}", f"attention {report.execution.attention}"),
    ]
    if (then.device, now.device) == ("cpu", "cpu"):
        pairs.append((counted(then.num_threads, "thread"), counted(now.num_threads, "thread")))
    first = min(each.num_prompt_tokens for each in report.continuations)
    last = max(each.num_prompt_tokens + len(each.tokens) for each in report.continuations)
    if not first <= origin.context <= last:
        pairs.append((f"context {origin.context}", f"contexts {first} to {last}"))
    pairs = [(before, after) for before, after in pairs if before != after]
    if not pairs:
        return ""
    before, after = (", ".join(words) for words in zip(*pairs, strict=True))
    return f"predicted for {before}; run with {after}"


def _pace(report: Report) -> str:
    """What there is to know where steps took quite another time than was predicted."""
    predicted, measured, baseline = report.plan.predicted, report.measured, report.baseline
    if predicted is None:
        return ""
    ratio = measured.ms_per_token * measured.tokens_per_step / predicted.step_ms.value
    if ratio == 0 or 1 / OFF_PACE <= ratio <= OFF_PACE:
        return ""
    words = f"steps took {ratio:.2f} times what was predicted"
    if baseline is not None:
        alone = baseline.ms_per_token / predicted.autoregressive_ms.value
        words += f", the target alone {alone:.2f} times"
    return f"{words}; if nothing else runs on this machine, profile again"


def _steps_rows(report: Report) -> Iterator[tuple[str, str, str]]:
    """What plans whose trees grow are judged by besides: (name, measured, predicted)."""
    if not report.plan.grows:
        return
    measured, predicted = report.measured, report.plan.predicted
    steps = predicted.steps if predicted else None
    num_steps = measured.num_steps
    for name, got, expected in (
        (
            "nodes verified per step",
            1 + measured.num_drafted / num_steps,
            steps and steps.mean_nodes,
        ),
        (
            "draft passes per step",
            measured.num_draft_passes / num_steps,
            steps and steps.draft_passes,
        ),
        ("discarded draft tokens per token", measured.discard_rate, steps and steps.discard_rate),
        ("target passes per token", measured.verification_rate, steps and steps.verification_rate),
    ):
        yield name, f"{got:.3f}", "" if expected is None else f"{expected:.3f}"


def _steps_distributions(report: Report) -> Iterator[RenderableType]:
    """How the sizes and depths of grown trees are spread over the steps."""
    if not report.plan.grows:
        return
    predicted = report.plan.predicted
    steps = predicted.steps if predicted else None
    for title, counts, expected in (
        ("nodes verified", report.measured.steps_by_nodes, steps.nodes if steps else []),
        ("levels drafted", report.measured.steps_by_depth, steps.depth if steps else []),
    ):
        if counts is None:
            continue
        length = max(len(counts), len(expected))
        rows = {"steps measured": [count / report.measured.num_steps for count in counts]}
        if expected:
            rows["steps predicted"] = expected
        padded = {name: [*row, *[0.0] * (length - len(row))] for name, row in rows.items()}
        groups = _grouped([max(shares) for shares in zip(*padded.values(), strict=True)])
        cells = [
            [name, *(percent(sum(row[count] for count in part)) for _, part in groups)]
            for name, row in padded.items()
        ]
        yield table("", [title, *(name for name, _ in groups)], cells)


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
