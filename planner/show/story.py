"""The documents of a page, and what each has to do with the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..documents.estimate import Estimate
from ..documents.profile import Profile
from ..plans.check import Check
from ..plans.files import AnyDocument
from ..plans.plan import Plan
from ..plans.report import Report
from .speed_figure import Outcome


@dataclass(frozen=True)
class Given:
    """A document and the file that it is in."""

    path: Path
    document: AnyDocument


@dataclass(frozen=True)
class Story:
    """The documents of a page, each with what it has to do with the others."""

    given: Sequence[Given]

    @cached_property
    def plans(self) -> list[Given]:
        """Every plan once: those given, then those that only a report or a check holds."""
        own = [each for each in self.given if isinstance(each.document, Plan)]
        found = {each.document.fingerprint(): each for each in own}
        for each in self.given:
            if isinstance(each.document, Report | Check):
                plan = each.document.plan
                found.setdefault(plan.fingerprint(), Given(each.path, plan))
        return list(found.values())

    def profile_of(self, plan: Plan, *, own: bool = False) -> Profile | None:
        """The profile that the plan was made from, or else one of the same models and machine.

        own  only the very one
        """
        origin = plan.made_from
        if origin is None:
            return None
        profiles = [each.document for each in self.given if isinstance(each.document, Profile)]
        made = [each for each in profiles if each.fingerprint() == origin.profile_sha256]
        like = [
            each
            for each in profiles
            if not own
            and (each.target, each.draft, each.machine, each.engine)
            == (origin.target, origin.draft, origin.machine, origin.engine)
        ]
        return next(iter([*made, *like]), None)

    def speeds_of(self, plan: Plan) -> tuple[Outcome, ...]:
        """The measured speeds of the plan, by file."""
        found: list[Outcome] = []
        for each in self.given:
            document = each.document
            if isinstance(document, Report | Check) and document.plan == plan:
                speedup = _measured(document)
                found += [Outcome(each.path.name, speedup)] if speedup else []
        return tuple(found)


def _measured(document: Report | Check) -> Estimate | None:
    if isinstance(document, Check):
        return document.planned.speedup
    return document.baseline.speedup if document.baseline else None
