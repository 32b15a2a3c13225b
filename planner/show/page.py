"""One page for a colleague, of any documents: the answer, the plan and why, what was promised, what
came of it, how to run it, and what it was all measured on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from ..documents.counted import counted
from ..documents.errors import PlannerError
from ..documents.profile import Profile
from ..documents.version import VERSION
from ..plans.check import Check
from ..plans.files import AnyDocument
from ..plans.plan import MadeFrom, Plan
from ..plans.report import Report
from .advice import Advice, advice_on
from .chapters import CHAPTERS
from .first_look import first_look
from .html_parts import part
from .page_style import STYLE
from .profile_view import profile_advice
from .story import Given, Story
from .words import model_words

TOLD = (Profile, Plan, Report, Check)
"""The documents that a page may be of, the one that knows most last."""
SAFE = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""A browser may fetch or run nothing for a page."""


def page(given: Sequence[Given]) -> str:
    """The whole page: HTML that opens offline and runs nothing.

    Raises PlannerError where a document cannot be drawn, and for one that no page is about.
    """
    for each in given:
        if not isinstance(each.document, TOLD):
            raise PlannerError(
                f"{each.path}: format: got {each.document.format!r}, expected a profile, a plan, a "
                "report or a check; planner show prints others"
            )
    story = Story(given)
    _check_together(story)
    chapters = []
    for kind, chapter in CHAPTERS.items():
        shown = story.plans if kind is Plan else story.given
        chapters += [chapter(each, story) for each in shown if isinstance(each.document, kind)]
    title = headline(story)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{SAFE}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>"
        f"<header><h1>{escape(title)}</h1>{_whose(story)}{_answer(story)}</header>\n"
        + "\n".join(chapters)
        + f"\n{_footer(given)}</main></body></html>\n"
    )


def _check_together(story: Story) -> None:
    """Raises PlannerError for a plan of other models than all profiles beside it.  The machine may
    be another one, where a plan was made with the times of another."""
    profiles = {
        each.path: each.document for each in story.given if isinstance(each.document, Profile)
    }
    models = [(each.target, each.draft) for each in profiles.values()]
    for path, plan in ((each.path, each.document) for each in story.plans):
        origin = plan.made_from if isinstance(plan, Plan) else None
        if models and origin is not None and (origin.target, origin.draft) not in models:
            raise PlannerError(
                f"{path}: got a plan of {origin.target.name} and {origin.draft.name}, expected one "
                f"of the models in {next(iter(profiles))}; give the profile that it was made from"
            )


def headline(story: Story) -> str:
    """The answer in one line: what to do, and what it brings."""
    if not story.plans:
        return _first_words(story.given[-1].document)
    plan = story.plans[0].document
    assert isinstance(plan, Plan)
    if not plan.speculates:
        return "Decode without a draft: none is worth its time here"
    drafted = "trees that grow step by step"
    if not plan.grows:
        drafted = f"a {plan.drafting.words()}".partition(",")[0]
    speeds = [each.speedup for each in story.speeds_of(plan)]
    slower = bool(speeds) and speeds[-1].high < 1
    what = f"Do not draft {drafted}" if slower else f"Draft {drafted}"
    brings = []
    if plan.predicted:
        brings.append(f"{plan.predicted.speedup.value:.2f} × as fast, promised")
    if speeds:
        brings.append(f"{speeds[-1].value:.2f} × measured")
    return what + (f": {'; '.join(brings)}" if brings else "")


def _first_words(profile: AnyDocument) -> str:
    assert isinstance(profile, Profile)
    look = first_look(profile, profile.sampling_at(None))
    if look is None or look.speedup.low <= 1:
        return "Whether speculation pays here is open: plan with it"
    return f"Speculation pays here: a chain is {look.speedup.value:.2f} × as fast, at first sight"


def _whose(story: Story) -> str:
    """The pair of models and the machine, in a line below the headline."""
    origins: list[MadeFrom | Profile | Report] = []
    for each in (*story.plans, *story.given):
        if isinstance(each.document, Profile | Report):
            origins.append(each.document)
        elif isinstance(each.document, Plan) and each.document.made_from:
            origins.append(each.document.made_from)
    if not origins:
        return ""
    origin = origins[0]
    machine = origin.machine
    words = model_words(origin.target)
    words += f", drafted for by {model_words(origin.draft)}" if origin.draft else ""
    words += f", on {machine.gpu or machine.cpu}, {counted(machine.num_threads, 'thread')}."
    return f'<p class="lead">{escape(words)}</p>'


def _answer(story: Story) -> str:
    """The five lines of the document that knows most: measured before promised before hoped for."""
    best = max(story.given, key=lambda each: TOLD.index(type(each.document)))
    advice = _advice(best)
    if advice is None:
        return ""
    if advice.next.startswith("planner report"):  # which this page is
        advice = replace(advice, next="")
    return f'<div class="answer">{part(advice.shown)}</div>'


def _advice(given: Given) -> Advice | None:
    if isinstance(given.document, Profile):
        return profile_advice(given.document, given.path)
    return advice_on(given.document, given.path)


def _footer(given: Sequence[Given]) -> str:
    """The files and what makes them known again."""
    lines = "".join(
        f"<li>{escape(each.path.name)}: {escape(each.document.format)}, SHA-256 "
        f"{each.document.fingerprint()[:16]}</li>"
        for each in given
    )
    return f"<footer><p>Written by Espalier {escape(VERSION)} from</p><ul>{lines}</ul></footer>"
