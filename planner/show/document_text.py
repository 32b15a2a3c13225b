"""Profiles and plans as text in a terminal, and where to find how other documents look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..documents.counted import counted
from ..documents.given_costs import GivenCosts
from ..documents.head_card import HeadCard
from ..documents.profile import Profile
from ..documents.speculation_profile import SpeculationProfile
from ..documents.surroundings import beside_words
from ..plans.check import Check
from ..plans.files import AnyDocument
from ..plans.plan import Plan
from ..plans.report import Report, Reports
from ..plans.settings import PlanSetting
from .check_text import show_check
from .head_text import show_head
from .promises import show_reports
from .ranking_text import ranking
from .report_text import show_report
from .tables import Named, Shown, Table, printed, shares_table, table
from .times_text import show_times
from .words import (
    drafting_words,
    engine_words,
    model_words,
    not_measured,
    summary,
    where_records_end,
)

Showable = AnyDocument | HeadCard | SpeculationProfile | Reports


def render(document: Showable) -> str:
    """The document for a person, as plain text without colours."""
    return printed(DISPLAYS[type(document)](document))


def show_profile(profile: Profile) -> list[Shown]:
    """The models, the machine and the times; what they allow is for the optimizer to say."""
    times = (part for costs in profile.costs for part in show_times(costs))
    return [profile_lines(profile), *times]


def profile_lines(profile: Profile) -> Named:
    """The models, the machine, and how quiet it was."""
    machine, execution = profile.machine, profile.execution
    place = machine.gpu or machine.cpu
    lines = {
        "target": model_words(profile.target),
        "draft": model_words(profile.draft),
        "machine": f"{place}, {counted(machine.num_threads, 'thread')}, {machine.platform}",
        "run as": f"{execution.dtype}, attention {execution.attention}",
        "times of": engine_words(profile.engine),
        **not_measured(profile),
        "beside": beside_words(profile.surroundings),
    }
    return Named(lines, 12 if profile.acceptance_from else 9)


def show_plan(plan: Plan) -> list[Shown]:
    """The plan: what it does, what is expected of it, what it was chosen from, and its trees."""
    predicted, origin = plan.predicted, plan.made_from
    lines = {"plan": summary(plan)}
    if predicted:
        lines["times"] = (
            f"step {predicted.step_ms} ms; one token of the target alone "
            f"{predicted.autoregressive_ms} ms"
        )
        if plan.grows:
            lines["predicted"] = (
                "by playing recorded trees: the step with these settings, the speed with settings "
                "chosen on one half of the texts, played on the other"
            )
        if predicted.optimality_gap is not None:
            lines["proven"] = "under these costs and the acceptance that holds inside this tree"
    if origin:
        lines["target"] = model_words(origin.target)
        lines["draft"] = model_words(origin.draft)
        lines["served by"] = engine_words(origin.engine)
        lines |= not_measured(origin)
        place = "" if origin.costs_from else f", {origin.machine.gpu or origin.machine.cpu}"
        lines["made for"] = (
            f"batch {origin.batch_size}, context {origin.context}, {origin.execution.dtype}"
            f"{place}; best of {origin.num_candidates} candidates"
        )
    parts = [Named(lines, 11), *_by_batch(plan), *ranking(plan), *_settings(plan)]
    if not plan.grows:
        parts.append(_tree_table(plan))
    elif predicted and predicted.steps:
        steps = predicted.steps
        averages = {
            "steps": f"{steps.mean_nodes:.1f} nodes, {steps.mean_depth:.1f} levels and "
            f"{steps.draft_passes:.1f} draft passes on average",
            "rates": f"{steps.discard_rate:.2f} draft tokens discarded and "
            f"{steps.verification_rate:.2f} target passes per token",
            "records": where_records_end(plan),
        }
        parts.append(Named(averages, 11))
        for what, shares in (("nodes verified", steps.nodes), ("levels drafted", steps.depth)):
            parts.append(shares_table(what, {"share of the steps": shares}))
    return parts


def _by_batch(plan: Plan) -> list[Shown]:
    """The plan's settings by the number of requests that decode together, where there are more than
    its own."""
    if not plan.by_batch:
        return []
    rows = []
    for way in plan.ways:
        predicted = way.predicted
        numbers = ["", "", ""]
        if predicted is not None:
            numbers = [
                str(each)
                for each in (predicted.tokens_per_step, predicted.step_ms, predicted.speedup)
            ]
        drafting = drafting_words(plan.at_batch(way.batch_size))
        rows.append([str(way.batch_size), drafting, *numbers])
    title = "by the number of requests that decode together; numbers between as the next larger one"
    headings = ["requests", "drafting", "tokens per step", "step, ms", "speedup"]
    return [table(title, headings, rows, num_left=2)]


def _settings(plan: Plan) -> list[Shown]:
    """The tables of settings that decoding may change between; nothing where there is none."""
    if len(plan.settings) < 2:
        return []
    title = (
        "settings that are nearly the best where times or acceptance are others; speedup as "
        "profiled, and where drafted tokens are accepted half as often"
    )
    headings = ["setting", "tokens per step", "step, ms", "speedup", "half accepted"]
    tables: list[Shown] = [table(title, headings, _setting_rows(plan.settings), num_left=1)]
    for way in plan.by_batch:
        if way.settings:
            title = f"likewise for {way.batch_size} requests at a time"
            tables.append(table(title, headings, _setting_rows(way.settings), num_left=1))
    return tables


def _setting_rows(settings: Sequence[PlanSetting]) -> list[list[str]]:
    alone_ms = settings[-1].step_ms
    return [
        [
            setting.words,
            f"{setting.tokens_per_step:.2f}",
            f"{setting.step_ms:.2f}",
            *(f"{setting.tokens_at(c) * alone_ms / setting.step_ms:.2f}" for c in (1.0, 0.5)),
        ]
        for setting in settings
    ]


def _tree_table(plan: Plan) -> Table:
    """The tree with, per node, P(accepted | its parent was), P(accepted), its share of tokens."""
    tree = plan.tree
    reach = plan.predicted.reach if plan.predicted else None
    total = sum(reach) if reach else 1.0

    def row(label: str, node: int) -> list[str]:
        if reach is None:
            return [label]
        above = reach[tree.parents[node]] if node else 0.0
        rate = f"{reach[node] / above:.3f}" if above > 0 else ""
        return [label, rate, f"{reach[node]:.3f}", f"{reach[node] / total:.1%}"]

    rows = [row("root", 0)]
    stack = [(child, "") for child in reversed(tree.children[0])]
    while stack:
        node, indent = stack.pop()
        last = tree.children[tree.parents[node]][-1] == node
        rows.append(row(f"{indent}{'└─ ' if last else '├─ '}{tree.ranks[node]}", node))
        deeper = indent + ("   " if last else "│  ")
        stack.extend((child, deeper) for child in reversed(tree.children[node]))
    return table("", ["node (rank)", "acceptance", "reached", "tokens"], rows)


def show_costs(given: GivenCosts) -> list[Shown]:
    """The times, as those of a profile look, and whose they are."""
    times = (part for each in given.costs for part in show_times(each.costs(["any verifier"])))
    return [Named({"times of": str(given.origin)}, 11), *times]


def show_speculation_profile(rates: SpeculationProfile) -> list[Shown]:
    """Acceptance by position, and the tokens of a step if every step drafts so far."""
    marginal = rates.marginal_accept_rates
    lines = {
        "measured by": " ".join(filter(None, (rates.producer, rates.method))),
        "under": ", ".join(
            f"{name} {value}"
            for name, value in (rates.measurement_conditions or {}).items()
            if value is not None
        ),
        "tokens": f"{rates.mean_accept_length:.3f} per step as written, "
        f"{1 + sum(marginal):.3f} by the rates",
    }
    rows = [
        (str(place), f"{each:.3f}", f"{reached:.3f}")
        for place, (each, reached) in enumerate(
            zip(rates.conditional_accept_rates, marginal, strict=True), start=1
        )
    ]
    return [Named(lines, 13), table("", ["position", "accepted", "reached"], rows)]


DISPLAYS: dict[type, Callable[[Any], list[Shown]]] = {
    Profile: show_profile,
    Plan: show_plan,
    Report: show_report,
    Reports: show_reports,
    HeadCard: show_head,
    Check: show_check,
    GivenCosts: show_costs,
    SpeculationProfile: show_speculation_profile,
}
