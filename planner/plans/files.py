"""Reading and writing any document of the project by the `format` it carries."""

from __future__ import annotations

from pathlib import Path

from ..documents.document import PlannerError, read_json
from ..documents.profile import Profile
from .plan import Plan
from .report import Report

DOCUMENTS: dict[str, type[Profile] | type[Plan] | type[Report]] = {
    "profile": Profile,
    "plan": Plan,
    "report": Report,
}


def load(path: str | Path) -> Profile | Plan | Report:
    """The document in the JSON file at `path`.

    Raises PlannerError for a missing or truncated file, an unknown format or version, an unknown
    or missing key, a wrong value: one line naming the file and the field.
    """
    content = read_json(path)
    if "format" not in content:
        raise PlannerError(
            f"{path}: format: missing; expected one of {', '.join(DOCUMENTS)} "
            "(is this a file that the planner wrote?)"
        )
    kind = DOCUMENTS.get(content["format"]) if isinstance(content["format"], str) else None
    if kind is None:
        raise PlannerError(
            f"{path}: format: got {content['format']!r}, expected one of {', '.join(DOCUMENTS)}"
        )
    return kind.load(path)


def save(document: Profile | Plan | Report, path: str | Path) -> None:
    """Write `document` to `path` atomically (a profile also writes its arrays beside it).

    Raises PlannerError when the path cannot be written; nothing is changed there then.
    """
    document.save(path)
