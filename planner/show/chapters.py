"""The chapters of a page, one for every kind of document."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

from ..documents.document import PlannerError
from ..documents.profile import Profile
from ..export import ENGINES, export
from ..plans.check import Check
from ..plans.plan import Plan
from ..plans.report import Report
from .advice import plan_advice
from .check_text import show_check
from .document_text import profile_lines, show_plan, show_profile
from .figures import check_figure, followed_figure, outcome_figure, quick_plan, steps_figure
from .html_parts import folded, part, pasted, picture, section
from .inline_svg import inline_svg
from .outlook import outlook, samplings_of
from .profile_drawing import acceptance_figure, times_figure
from .report_text import show_report
from .speed_figure import speed_figure
from .step_times_figure import step_times_figure
from .step_trees_figure import step_trees_figure
from .story import Given, Story
from .tables import Named, Shown, Table
from .tree_figure import tree_figure
from .words import exported

CLAUSE = re.compile(r"(?<=.{20})[:;,] ")
"""The end of the first words of a table's title, which do to open it by."""
SAID_ABOVE = ("plan", "target", "draft")

SPEED = (
    "Every mark is a way to draft. To the right: how many tokens the target checks at once, the "
    "last one written included. Upwards: how fast it is, not to speculate being 1. Bars and the "
    "band are 95 % intervals, circles the best of other verifiers and of other solvers."
)
SIZES_OF_ANOTHER = (
    " The lines are of the profile shown below, which is not the one that the plan was made from: "
    "they may lie higher or lower than the plan."
)
TREE = (
    "The tree that every step drafts below the last token written. The number at a node is its "
    "rank among its siblings, the order in which they are tried."
)
REACHED = " Its area, and the share beside it, say how often a step emits its token."
STEPS = "Every step drafts a tree of its own: how many nodes they have, and how many levels."
OUTCOME = "Bars: what was predicted, with its 95 % interval. Dots: what was measured."
TIMES = (
    "Medians, shaded from the lower to the upper quartile. A tree pays as long as checking it "
    "takes little more than one token."
)
REJECTED = (
    "How often none of a node's children is accepted, by number of children, for every verifier; "
    "broken lines are the least that is possible. Where it falls as a power of their number, the "
    "line is straight: the wide one is such a power."
)
COUNTED = (
    "Tokens that a step emits by the length of its chain: as the engine counted them, and the "
    "concave line that is planned with."
)
STEP_TIMES = "The time of every step, and their mean beside the predicted one with its interval."

STEP_TREES = (
    "The trees of a few steps, each below the text that it goes on from, whose last token is "
    "on the left. A node's area says how likely the draft held its token; red is what was accepted."
)


def plan_chapter(given: Given, story: Story) -> str:
    """The plan, why it is the best, and how to carry it out."""
    plan = given.document
    assert isinstance(plan, Plan)
    profile = story.profile_of(plan)
    content = []
    if plan.predicted and plan.made_from:
        drawn = speed_figure(plan, profile, story.speeds_of(plan))
        own = profile is None or profile.fingerprint() == plan.made_from.profile_sha256
        caption = SPEED + ("" if own else SIZES_OF_ANOTHER)
        content.append(picture(inline_svg(drawn, f"speed of {given.path}"), caption))
    if plan.grows and plan.predicted and plan.predicted.steps:
        content.append(picture(inline_svg(steps_figure(plan), f"steps of {given.path}"), STEPS))
    elif not plan.grows and plan.speculates:
        drawn = tree_figure(plan, titled=False)
        caption = TREE + (REACHED if plan.predicted and plan.predicted.reach else "")
        content.append(picture(inline_svg(drawn, f"tree of {given.path}"), caption))
    conditions, *others = show_plan(plan)
    why = [each for each in others if isinstance(each, str)]
    content += _tables_folded([*why, *(each for each in others if each not in why)])
    name = f": {given.path.name}" if len(story.plans) > 1 else ""
    chapter = section(f"The plan, and why{name}", [*content, _without_models(conditions)])
    return chapter + section(f"How to run it{name}", _how_to_run(given, story))


def report_chapter(given: Given, story: Story) -> str:
    """The measurements that were made while a plan was carried out."""
    report = given.document
    assert isinstance(report, Report)
    content = [picture(inline_svg(outcome_figure(report), f"outcome of {given.path}"), OUTCOME)]
    if report.ms_by_step:
        drawn = inline_svg(step_times_figure(report), f"steps of {given.path}")
        content.append(picture(drawn, STEP_TIMES))
    if report.trees:
        drawn = inline_svg(step_trees_figure(report.trees), f"trees of {given.path}")
        content.append(picture(drawn, STEP_TREES))
    run, numbers, *others = show_report(report)
    content += [_without_models(run), part(numbers), *_tables_folded(others)]
    if report.followed is not None:
        alone = report.model_copy(update={"trees": None})  # they stand above
        drawn = inline_svg(followed_figure(alone), f"settings of {given.path}")
        content.append(folded("Step by step", [picture(drawn, "")]))
    return section(f"What was measured: {given.path.name}", content)


def check_chapter(given: Given, story: Story) -> str:
    """The settings that an engine was tried with, beside what the plan promised."""
    check = given.document
    assert isinstance(check, Check)
    content = [picture(inline_svg(check_figure(check), f"check of {given.path}"), OUTCOME)]
    run, *tables = show_check(check)
    content += [_without_models(run), *map(part, tables)]
    content += [f"<p>{escape(f'Does not hold: {fault}')}</p>" for fault in check.faults]
    return section(f"In {check.engine.name}: {given.path.name}", content)


def profile_chapter(given: Given, story: Story) -> str:
    """The machine, the models, and what was measured of them."""
    profile = given.document
    assert isinstance(profile, Profile)
    first, *others = samplings_of(profile, None)
    content = [part(profile_lines(profile))]
    plan = None if story.plans else quick_plan(profile)
    if plan is not None and plan.speculates:
        drawn = inline_svg(speed_figure(plan, profile), f"speed by {given.path}")
        content.append(picture(drawn, f"{SPEED} The plan here is the best fixed tree."))
    content.append(picture(inline_svg(times_figure(profile), f"times of {given.path}"), TIMES))
    for sampling in (first, *others):
        drawn = inline_svg(acceptance_figure(profile, sampling), f"{sampling} of {given.path}")
        is_counted = any(entry.counted for entry in profile.acceptance)
        shown = picture(drawn, COUNTED if is_counted else REJECTED)
        content.append(shown if sampling == first else folded(f"Acceptance at {sampling}", [shown]))
    parts = [*show_profile(profile)[1:], *outlook(profile, [first, *others], {})]
    content += _tables_folded(parts)
    return section(f"The machine and the models: {given.path.name}", content)


CHAPTERS: dict[type, Callable[[Given, Story], str]] = {
    Plan: plan_chapter,
    Report: report_chapter,
    Check: check_chapter,
    Profile: profile_chapter,
}
"""Chapters by kind, in the order in which a page has them."""


def _without_models(shown: Shown) -> str:
    """Named lines without those that the top of the page says already."""
    assert isinstance(shown, Named)
    kept = {name: line for name, line in shown.lines.items() if name not in SAID_ABOVE}
    return part(replace(shown, lines=kept))


def _tables_folded(parts: Sequence[Shown]) -> list[str]:
    """The parts, tables to be opened."""
    made = []
    for shown in parts:
        if isinstance(shown, Table):
            title = CLAUSE.split(shown.title, maxsplit=1)[0] or f"By {shown.headings[0]}"
            made.append(folded(title, [part(shown)]))
        else:
            made.append(part(shown))
    return made


def _how_to_run(given: Given, story: Story) -> list[str]:
    """Commands that carry the plan out here, and its setting for every engine that can."""
    plan, path, lines = given.document, given.path, []
    assert isinstance(plan, Plan)
    if given not in story.given:  # it stands in a report or a check
        path = Path("plan.json")
        holder, own = json.dumps(given.path.name), json.dumps(path.name)
        code = f"from planner import load; load({holder}).plan.save({own})"
        lines.append(shlex.join(["python", "-c", code]))
    lines.append(plan_advice(plan, path).next)
    settings, unable = [], []
    for name in ENGINES:
        try:
            settings.append(_setting(name, path, plan, story.profile_of(plan, own=True)))
        except PlannerError as error:
            unable.append(f"{name}: {error}")
    content = [pasted(lines), *settings]
    if unable:
        content.append(folded("Engines that cannot carry it out", [part("\n".join(unable))]))
    return content


def _setting(engine: str, path: Path, plan: Plan, profile: Profile | None) -> str:
    """The plan as an engine takes it, with what there is to know.  Raises PlannerError."""
    made = export(plan, engine, profile=profile)
    command = shlex.join(["planner", "export", str(path), "--to", engine])
    notes = exported(plan, made.plan, engine, made.notes)
    return folded(f"In {engine}", [pasted([command]), pasted([made.content.rstrip()]),
                                   part("\n".join(notes))])  # fmt: skip
